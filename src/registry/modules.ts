/** Where the code is that a file names: relative to the file, or beside it under the name of a class. */
import { statSync } from 'node:fs'
import { refused } from '../runtime/checks/refused.ts'
import { namesOfModule, othersInWords } from '../runtime/settings/module-file.ts'

const RELATIVE = /^\.\.?[\\/]/
const ENDINGS = ['.ts', '.mts', '.js', '.mjs']
const CLASS = /^[\p{L}_$][\p{L}\p{N}_$]*$/u

/** The href of a module that is named relative to a file; any other name as it is. Throws where no such file is there. */
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

/** The file beside another that has a class's name, as it is or in lower case: OrchestratorAgent is in orchestrator_agent.ts. */
export function moduleOfClass(name: string, file: URL): string | undefined {
  if (!CLASS.test(name)) return undefined
  for (const stem of stemsOf(name))
    for (const ending of ENDINGS) {
      const found = new URL(`./${stem}${ending}`, file)
      if (isFile(found)) return found.href
    }
  return undefined
}

/** As it is, with '_' and with '-' between its words. */
export function stemsOf(name: string): string[] {
  const words = name.replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1_$2').toLowerCase()
  return [...new Set([name, words, words.replaceAll('_', '-')])]
}

function isFile(url: URL): boolean {
  try {
    return statSync(url).isFile()
  } catch {
    return false // also what can be the path of no file
  }
}
