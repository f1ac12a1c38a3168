/** `.env` of the folder in which the command runs. The library itself never reads it. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { addToEnvironment, type Environment } from '../environment.ts'
import { ConfigurationError, describe } from '../errors.ts'

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
