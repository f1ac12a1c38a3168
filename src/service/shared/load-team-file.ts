/**
 * A team file: a module whose default export is `defineTeam({...})`, in JavaScript or TypeScript, or an agents.yaml.
 */

import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { extname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'
import { type Exports, exportsOf, handlersOf } from '../../actors/definition/definition.ts'
import type { MultiAgentPatternOptions } from '../../index.ts'
import { Redactor, SecretVariables } from '../../runtime/logging/redactor.ts'
import { addToEnvironment, type Environment, environment, withEnvironment } from '../../shared/environment.ts'
import { ConfigurationError, DramatisError, describe } from '../../shared/errors.ts'

/**
 * Reads `.env`, if there is one. A variable that is set already stays as it is.
 *
 * @throws ConfigurationError when it is there and cannot be read.
 */
export function loadEnv(folder: string): void {
  const path = join(folder, '.env')
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return
  try {
    addToEnvironment(parseEnv(readFileSync(path, 'utf8')) as Environment)
  } catch (error) {
    throw new ConfigurationError(`.env cannot be read: ${describe(error)}`, { path }, error)
  }
}

/** `folder`: where the command runs, whose `.env` counts too. */
export function environmentRedactor(folder: string): Redactor {
  loadEnv(folder)
  const redactor = new Redactor()
  new SecretVariables(environment, [], redactor, () => performance.now()).look()
  return redactor
}

const JAVASCRIPT = ['.js', '.mjs', '.cjs']
const TYPESCRIPT = ['.ts', '.mts', '.cts']
const YAML = ['.yaml', '.yml']

/**
 * Loads a module of the user, in JavaScript or TypeScript, and returns its default export with its path.
 *
 * @throws ConfigurationError when it is not there, or throws while it is imported.
 */
export async function loadDefault(
  file: string,
  folder: string,
  what: string,
): Promise<{ path: string; exported: unknown }> {
  const path = filePath(file, folder, what, [...JAVASCRIPT, ...TYPESCRIPT])
  const typescript = TYPESCRIPT.includes(extname(path).toLowerCase())
  return { path, exported: await importDefault(pathToFileURL(path).href, file, typescript, what) }
}

/**
 * Loads a team file and returns what it defines. `file` is relative to `folder`.
 *
 * @throws ConfigurationError when it is not there, is no team file, or throws while it is imported.
 */
export async function loadTeamFile(file: string, folder: string): Promise<MultiAgentPatternOptions> {
  const path = teamFilePath(file, folder)
  if (isYaml(path)) return loadYaml(pathToFileURL(path), file)
  const typescript = TYPESCRIPT.includes(extname(path).toLowerCase())
  const { href } = pathToFileURL(path)
  return definitionFrom(await importDefault(href, file, typescript), file, href)
}

/** @throws ConfigurationError when it is not there, or its name is none of a team file. */
export const teamFilePath = (file: string, folder: string): string =>
  filePath(file, folder, 'Team file', [...JAVASCRIPT, ...TYPESCRIPT, ...YAML])

function filePath(file: string, folder: string, what: string, known: readonly string[]): string {
  const path = resolve(folder, file)
  const extension = extname(path).toLowerCase()
  const accepted = known.join(', ')
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found?.isFile()) {
    const problem = found ? 'that is a folder; name the file in it.' : `there is no such file in ${folder}.`
    throw new ConfigurationError(`${what} "${file}": ${problem}`, { file, path })
  }
  if (!known.includes(extension)) {
    throw new ConfigurationError(`${what} "${file}": got "${extension}"; accepted: ${accepted}.`, { file, accepted })
  }
  return path
}

/** Checks whether a team file, by its path or href, is YAML. */
export function isYaml(path: string): boolean {
  return YAML.includes(extname(path).toLowerCase())
}

/** The team of an agents.yaml; `file` is what errors call it. */
export async function loadYaml(url: URL, file: string): Promise<MultiAgentPatternOptions> {
  const { loadTeamFrom } = await import('../../registry/agents-file.ts') // late: most teams are no YAML
  return loadTeamFrom(url, {}, file)
}

/**
 * Returns the definition that a team file exports as its default. Packages are resolved from the file, at `href`,
 * unless the definition says otherwise. Throws `ConfigurationError` if the export is no definition of a team.
 */
export function definitionFrom(exported: unknown, file: string, href: string): MultiAgentPatternOptions {
  if (isDefinition(exported)) return { ...exported, resolveFrom: exported.resolveFrom ?? href }
  throw noDefinition(file, exported)
}

async function importDefault(href: string, file: string, typescript: boolean, what = 'Team file'): Promise<unknown> {
  try {
    const place = typescript ? await bundled(href, file, what) : href
    const module: Exports = await withEnvironment(() => import(place))
    return exportsOf(module).default
  } catch (error) {
    if (error instanceof DramatisError) throw error
    const where = error instanceof SyntaxError ? placeOfTypo(href) : placeOf(error)
    const advice = /'dramatis'/.test(describe(error)) ? ' Install it beside the team file: npm install dramatis' : ''
    const message = `${what} "${file}": ${describe(error)}${where === undefined ? '' : ` (at ${where})`}${advice}`
    throw new ConfigurationError(message, { file }, error)
  }
}

/** Node 20 runs no TypeScript. The bundler is loaded for such a file alone, since it takes its time. */
async function bundled(href: string, file: string, what: string): Promise<string> {
  const { loadable } = await import('../../runtime/threads/bundle-cache.ts')
  const module = await loadable(href, `${what.toLowerCase()} "${file}"`, { host: true })
  if (module.bundled) process.setSourceMapsEnabled(true) // so that stacks name the user's own lines
  return module.href
}

/** Any object may be a definition: `createTeam` checks what is in it, and says more than we could. */
function isDefinition(exported: unknown): exported is MultiAgentPatternOptions {
  if (typeof exported !== 'object' || exported === null || Array.isArray(exported)) return false
  return !isTeam(exported) && !handlersOf(exported)
}

function isTeam(exported: unknown): boolean {
  return typeof exported === 'object' && exported !== null && 'execute' in exported
}

function noDefinition(file: string, exported: unknown): ConfigurationError {
  const advice = 'Write: export default defineTeam({ agents, orchestration })'
  const got = () => {
    if (exported === undefined) return 'has no default export'
    if (isTeam(exported)) return 'exports a team that runs already'
    if (handlersOf(exported)) return 'exports an agent; a team file names its module in a role'
    return `exports ${Array.isArray(exported) ? 'a list' : describe(exported).slice(0, 60)} as its default`
  }
  return new ConfigurationError(`Team file "${file}" ${got()}. ${advice}`, { file })
}

/** The first place in a file that the stack names. */
function placeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  return error.stack?.match(/(?:file:\/\/|[( ])((?:[a-z]:)?[\\/][^\s()]+?:\d+)/i)?.[1]
}

/** Returns the place of a syntax error. Node leaves it out of the error, and prints it only when it checks the file. */
function placeOfTypo(href: string): string | undefined {
  const { stderr } = spawnSync(process.execPath, ['--check', fileURLToPath(href)], { encoding: 'utf8' })
  return stderr.match(/^(?:file:\/\/)?(.+:\d+)$/m)?.[1]
}
