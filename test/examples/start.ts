/** Starts an example as a new user does, in a process of its own that ends if it reaches for the network. */
import { execFile, spawnSync } from 'node:child_process'
import { withoutKeys } from '../../examples/lib/without-keys.ts'

const LONGEST_MS = 60_000

export const guard = new URL('../fixtures/offline.js', import.meta.url).href

/** Tests are started in the project's folder. */
const mainOf = (example: string) => ['--import', guard, `dist/examples/${example}/main.js`]

/** Without a key, but for what is in `variables`. */
export function start(example: string, args: readonly string[] = [], variables: NodeJS.ProcessEnv = {}) {
  const env = { ...withoutKeys(process.env), ...variables }
  return spawnSync(process.execPath, [...mainOf(example), ...args], { encoding: 'utf8', env, timeout: LONGEST_MS })
}

/** The same while the test goes on, for an example that calls a server in it. */
export function startBeside(example: string, variables: NodeJS.ProcessEnv) {
  const env = { ...withoutKeys(process.env), ...variables }
  return new Promise<{ status: number | null; stdout: string; stderr: string }>((resolve) => {
    const child = execFile(process.execPath, mainOf(example), { env, timeout: LONGEST_MS }, (_error, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    )
  })
}
