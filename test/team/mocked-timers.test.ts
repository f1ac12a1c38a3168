/** A test that mocks timers stops what it tests: teams run, and their limits hold. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../fixtures/team/mocked-timers.js', import.meta.url))
const expected = ['slept for 5 ms', 'RUN_TIMEOUT', 'ten seconds later', 'closed', '']

for (const when of ['before', 'after'])
  for (const apis of ['setTimeout', 'setImmediate', 'setTimeout,setInterval,setImmediate', ''])
    t.test(`teams that are made ${when} the mocks (${apis || 'of all timers'}) answer`, async (t) => {
      const options = { encoding: 'utf8', timeout: 60_000 } as const
      const { stdout, stderr } = spawnSync(process.execPath, [program, when, apis], options)
      t.strictSame(stdout.split('\n'), expected, stderr.slice(0, 2_000))
    })
