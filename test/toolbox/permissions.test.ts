/** Threads of agents and tools may do no more than the process, where Node's permission model bounds it. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../fixtures/tools/trespassing-team.js', import.meta.url))
const root = fileURLToPath(new URL('../../../', import.meta.url))
const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission'

t.test('an agent and an isolated tool may not read, write or spawn what the process may not', async (t) => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'dramatis-permissions-')))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'allowed.txt'), 'x')
  const flags = [
    permission,
    '--allow-worker',
    `--allow-fs-read=${join(root, '*')}`,
    `--allow-fs-read=${join(folder, '*')}`,
  ]
  const bounded = {
    read: 'done',
    readOther: 'ERR_ACCESS_DENIED',
    write: 'ERR_ACCESS_DENIED',
    spawn: 'ERR_ACCESS_DENIED',
  }
  for (const [args, NODE_OPTIONS] of [
    [flags, ''],
    [[], flags.map((flag) => JSON.stringify(flag)).join(' ')],
  ] as const) {
    const { stdout, stderr } = spawnSync(process.execPath, [...args, program, folder], {
      cwd: root,
      env: { ...process.env, NODE_OPTIONS },
      encoding: 'utf8',
    })
    t.strictSame(stdout.startsWith('{') ? JSON.parse(stdout) : `${stdout}${stderr}`, { agent: bounded, tool: bounded })
  }
})
