/** `dramatis rehearse --from`: which runs are played, and what is refused. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { logged, type Report, rehearsed } from './shop-logs.ts'

t.test('runs are selected by their ids, and by their status', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no', three: 'yes' })
  const ids = async (...args: string[]) => {
    const report: Report = JSON.parse((await rehearsed([...args, '--log', log, '--json'])).stdout)
    return report.results.map(({ runId }) => runId)
  }
  t.same(await ids('--from', 'three', '--from', 'one'), ['three', 'one'])
  t.same(await ids('--from', 'all', '--status', 'failed'), ['two'])
  t.same(await ids('--from', 'all', '--status', 'finished'), ['one', 'three'])
  t.match(await rehearsed(['--from', 'all', '--status', 'aborted', '--log', log]), {
    code: 0,
    stdout: '',
    stderr: 'No run of the log is aborted.\n',
  })
})

t.test('--json has everything that differs', async (t) => {
  const log = await logged(t, { one: 'yes' })
  const { code, stdout } = await rehearsed(['--from', 'one', '--log', log, '--json'], { step: 'greet' })
  t.equal(code, 1)
  const report: Report = JSON.parse(stdout)
  t.match(report, { runs: 1, same: 0, different: 1 })
  t.match(report.results[0], {
    runId: 'one',
    before: { status: 'finished' },
    now: { success: false, error: { code: 'STEP_MISMATCH' } },
    mismatches: [{ kind: 'step', how: 'new', agent: 'ann', name: 'greet' }],
    trace: { messageFlow: [] },
  })
})

t.test('a run that blocks its thread does not keep the others from being played', async (t) => {
  const log = await logged(t, { one: 'yes', loops: 'yes', two: 'yes' })
  const { code, stdout } = await rehearsed(['--from', 'all', '--log', log, '--seed-timeout', '2000'], {
    loopsAt: 'tea for loops',
  })
  t.equal(code, 1)
  t.match(stdout, /^3 runs\n\nsame {8}2\ndifferent {3}0\nnot played {2}1\n/)
  t.match(stdout, /\nloops: not played: AGENT_CRASHED: Run "loops" blocked its thread/)
})

t.test('options that do not go together are refused, and unknown runs and logs', async (t) => {
  const log = await logged(t, { one: 'yes' })
  const refused = async (args: readonly string[], stderr: RegExp) => t.match(await rehearsed(args), { code: 2, stderr })
  await refused(['--from', 'on', '--log', log], /UNKNOWN_RUN.*Did you mean "one"\?/)
  await refused(['--from', 'one'], /--from: which log\?/)
  await refused(['tea', '--from', 'one', '--log', log], /--from: an old run has its own query/)
  await refused(['--from', 'one', '--log', log, '--seeds', '3'], /--seeds: an old run is played once/)
  await refused(['--from', 'one', '--log', log, '--real-models'], /--real-models: an old run/)
  await refused(['--from', 'all', '--from', 'one', '--log', log], /"all" stands alone/)
  await refused(['--from', 'one', '--status', 'failed', '--log', log], /--status selects among --from all/)
  await refused(['tea', '--log', log], /--log: it is for old runs/)
  await refused(['--from', 'one', '--log', join(log, 'none')], /--log: .*cannot be read/)
  await refused([], /What is to be played\?/)
  const segment = join(log, readdirSync(log).find((name) => name.endsWith('.log'))!)
  const bytes = readFileSync(segment)
  bytes.fill(0xff, 8, 16) // in its header
  writeFileSync(segment, bytes)
  t.match(await rehearsed(['--from', 'all', '--log', log]), { code: 1, stdout: '', stderr: /LOG_CORRUPT/ })
})
