/**
 * Finds the code that a file names: by a path relative to the file, or by the name of a class, in a module beside the
 * file.
 */
import { statSync } from 'node:fs'
import { refused } from '../runtime/checks/refused.ts'
import { namesOfModule, othersInWords } from '../runtime/settings/module-file.ts'

const RELATIVE = /^\.\.?[\\/]/
const ENDINGS = ['.ts', '.mts', '.js', '.mjs']

/**
 * Returns the href of a module that is named relative to a file; any other name is returned as it is. Throws if no such
 * file exists.
 */
export function moduleAt(module: string, path: string, file: URL): string {
  if (!RELATIVE.test(module)) return module
  const found = new URL(module.replaceAll('\\', '/'), file)
  for (const name of namesOfModule(found.href)) if (isFile(new URL(name))) return name
  throw refused(
    path,
    module,
    'a file that is there',
    `It is looked for beside the file that names it: ${found.pathname}${othersInWords(found.pathname)}`,
  )
}

/**
 * Returns the href of the file beside the given one that is named after a class. The name is as it is or in lower case:
 * OrchestratorAgent is in orchestrator_agent.ts.
 */
export function moduleOfClass(name: string, file: URL): string | undefined {
  if (!/^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name)) return undefined
  for (const stem of stemsOf(name))
    for (const ending of ENDINGS) {
      const found = new URL(`./${stem}${ending}`, file)
      if (isFile(found)) return found.href
    }
  return undefined
}

/**
 * Returns the possible file names of a class, without ending: the name as it is, and in lower case with '_' and with
 * '-' between its words.
 */
export function stemsOf(name: string): string[] {
  const words = name.replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1_$2').toLowerCase()
  return [...new Set([name, words, words.replaceAll('_', '-')])]
}

function isFile(url: URL): boolean {
  try {
    return statSync(url).isFile()
  } catch {
    return false // also for a URL that cannot be the path of a file
  }
}
