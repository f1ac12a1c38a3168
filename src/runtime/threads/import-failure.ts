/** Describes a module that a thread could not import: the option that named it, and the line of its source. */
import { fileURLToPath } from 'node:url'
import type { AgentCode, ToolCode } from '../../actors/definition/assignment.ts'
import { ConfigurationError, type DramatisError } from '../../errors.ts'
import { ownFile } from '../../own-files.ts'
import { compile } from './bundle/compile.ts'
import { cannotBundle, isFailure, type Place, shownPlace } from './bundle/errors.ts'

/** Code that a thread imports. */
export type ImportedCode = Exclude<AgentCode, { model: true }> | ToolCode

/**
 * The error of an agent whose module threw while it was imported, or that of a tool. `error` says what, its cause is
 * what was thrown.
 */
export async function importFailure(
  { info, option }: { readonly info: { readonly name: string }; readonly option: string },
  code: ImportedCode,
  error: DramatisError,
): Promise<ConfigurationError> {
  const tool = 'option' in code ? code : undefined
  const path = `${tool?.option ?? option}.module`
  const stack = error.cause instanceof Error ? (error.cause.stack ?? '') : ''
  const place = placeIn(stack)
  const typo = !place && /^SyntaxError/.test(stack) ? await typoIn(code, path) : undefined
  if (typo) return typo
  const what = stack.includes('ERR_MODULE_NOT_FOUND') ? 'imports what was not found' : 'throws when it is imported'
  const where = place ? shownPlace(place) : code.shown
  return new ConfigurationError(
    `${path}: the module of ${tool ? 'a tool of ' : ''}"${info.name}" ${what}: ${where}: ${error.message}`,
    { path, agent: info.name, module: code.shown, ...place },
    error.cause,
  )
}

const PLACE = /^(?:\s+at (?:async )?(?:.*\()?)?(file:\/\/\/\S+?|(?:\/|[a-z]:\\)[^()]+?):(\d+)(?::(\d+))?\)?$/i

/** The first place in a stack that is neither Node's nor ours. */
function placeIn(stack: string): Place | undefined {
  const own = [fileURLToPath(ownFile('.')), fileURLToPath(ownFile('../host/'))]
  for (const text of stack.split('\n')) {
    const [, found, line, column] = PLACE.exec(text) ?? []
    if (found === undefined) continue
    const file = found.startsWith('file:') ? fileURLToPath(found) : found
    if (!own.some((folder) => file.startsWith(folder)))
      return { file, line: Number(line), ...(column !== undefined && { column: Number(column) }) }
  }
  return undefined
}

/** Node does not say where JavaScript is no JavaScript. The bundler does, also of what the module imports. */
async function typoIn(code: ImportedCode, path: string): Promise<ConfigurationError | undefined> {
  const href = 'module' in code ? code.module : code.protocol
  if (!href.startsWith('file:')) return undefined // a bundle in memory: it has been compiled
  const entry = fileURLToPath(href)
  try {
    await compile(entry, ownFile('thread-api.js').href)
    return undefined // it sees nothing wrong
  } catch (error) {
    return isFailure(error) ? cannotBundle(error, entry, path) : undefined // it may not run, as with --permission
  }
}
