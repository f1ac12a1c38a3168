/** What docs/explanation/trust.md says that code in a thread can reach, and what Node's permission model takes away of that. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../fixtures/trust/doors-team.js', import.meta.url))
const root = fileURLToPath(new URL('../../../', import.meta.url))
const { allowedNodeEnvironmentFlags: flags } = process
const permission = flags.has('--permission') ? '--permission' : '--experimental-permission'
const skip = process.platform === 'linux' ? false : 'its ways are those of Linux'

/** What an agent found: `open`, `closed`, or the code of an error. */
function found(...args: string[]): Record<string, string> {
  const env = { ...process.env, TRUST_TEST_WORD: 'word-of-the-process', NODE_OPTIONS: '' }
  const { stdout, stderr } = spawnSync(process.execPath, [...args, program], { cwd: root, env, encoding: 'utf8' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, string>
}

t.test('an agent of code reaches all that its process reaches, by ways around its thread', { skip }, async (t) => {
  t.same(found(), {
    'own environment': 'closed',
    environ: 'open',
    report: 'closed',
    memory: 'open',
    'main thread': 'open',
    program: 'open',
    network: 'open',
  })
})

t.test('the permission model closes files, memory, the main thread and programs to it', { skip }, async (t) => {
  const bounded = found(permission, '--allow-worker', `--allow-fs-read=${join(root, '*')}`)
  const denied = 'ERR_ACCESS_DENIED'
  t.match(bounded, {
    'own environment': 'closed',
    environ: denied,
    memory: denied,
    'main thread': denied,
    program: denied,
  })
  if (!flags.has('--allow-net')) t.equal(bounded.network, 'open', 'of this Node it leaves the network open')
})
