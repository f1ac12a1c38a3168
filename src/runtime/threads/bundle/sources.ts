/** Finds the files that a module is made of: its own, and those that it imports by relative path. */
import { realpath } from 'node:fs/promises'
import { ownFile } from '../../../own-files.ts'
import { sourceOf } from './bundle.ts'
import { compile } from './compile.ts'
import { cannotBundle } from './errors.ts'

/**
 * Resolves to the path of each file, with the hash of what it held when it was read.
 *
 * @param specifier the href of a file: URL, or a package, resolved from the folder `from`
 * @throws ConfigurationError if there is no such module, or one of its files is no code
 */
export async function sourcesOf(specifier: string, from: string): Promise<ReadonlyMap<string, string>> {
  const path = await realpath(await sourceOf(specifier, 'module', from))
  try {
    return (await compile(path, ownFile('thread-api.js').href)).inputs
  } catch (error) {
    throw cannotBundle(error, path, 'module')
  }
}
