/** Starts an example as a new user does: without a key, and without a network. */
import { spawnSync } from 'node:child_process'
import { withoutKeys } from '../../examples/lib/without-keys.ts'

/** Tests are started in the project's folder. */
export function start(example: string, args: readonly string[] = [], variables: NodeJS.ProcessEnv = {}) {
  const env = { ...withoutKeys(process.env), ...variables }
  const main = `dist/examples/${example}/main.js`
  return spawnSync(process.execPath, [main, ...args], { encoding: 'utf8', env, timeout: 60_000 })
}
