/** `dramatis trace`: what happened in a run, from its log. */
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type OrchestrationTrace, sequenceDiagram } from '../../src/index.ts'
import { main } from '../../src/service/commands/program.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

const script: Script = async (desk, query) => {
  await desk.request('ann', `steps ${query}`)
  return (await desk.request('bob', 'ask really')).content
}

t.test('the trace of a run that has ended is the one that its result had', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, script)
  await team.start()
  const runs = [team.launch('one', { runId: 'report-1' }), team.launch('two', { runId: 'report-2' })]
  for (const run of runs) await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  const [, { orchestrationTrace }] = await Promise.all([runs[0]!.result, runs[1]!.result])
  await team.close()
  const { code, stdout } = await traced('report-2', '--log', path, '--json')
  t.equal(code, 0)
  t.same(JSON.parse(stdout), JSON.parse(JSON.stringify(orchestrationTrace)))
  t.equal((await traced('report-2', '--log', path)).stdout, sequenceDiagram(orchestrationTrace))
})

t.test('a run that goes on has a trace, and its team keeps the log', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, script)
  const run = team.launch('one', { runId: 'report-1' })
  const { questionId } = await first(run.events(), 'question')
  await team.flush()
  const before = readdirSync(path)
  const { stdout } = await traced('report-1', '--log', path, '--json')
  const trace: OrchestrationTrace = JSON.parse(stdout)
  t.match(trace.events.at(-1), { eventType: 'question', details: { questionId } })
  t.same(readdirSync(path), before)
  await run.answer(questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'yes' })
})

t.test('a run that was interrupted, and goes on in a later process, has one trace', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  await first(before.launch('one', { runId: 'report-1' }).events(), 'question')
  await before.close()
  const interrupted: OrchestrationTrace = JSON.parse((await traced('report-1', '--log', path, '--json')).stdout)
  t.notOk(interrupted.events.some(({ eventType }) => eventType === 'run.finished'))

  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('report-1')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  await run.result
  await after.close()
  const whole: OrchestrationTrace = JSON.parse((await traced('report-1', '--log', path, '--json')).stdout)
  t.same(whole.messageFlow.slice(0, interrupted.messageFlow.length), interrupted.messageFlow)
  t.ok(whole.events.some(({ eventType }) => eventType === 'step.finished'))
  t.equal(whole.events.filter(({ eventType }) => eventType === 'run.finished').length, 1)
})

t.test('an unknown run is refused with the ids that are near', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, async () => 'done')
  for (const runId of ['report-7', 'summary']) await team.execute('go', { runId })
  await team.close()
  t.match(await traced('reprot-7', '--log', path), {
    code: 2,
    stdout: '',
    stderr: /UNKNOWN_RUN.*Did you mean "report-7"\?/,
  })
  t.match(await traced('x', '--log', path), { code: 2, stderr: /Its last runs are "report-7", "summary"/ })
})

t.test('a folder without a log is refused', async (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'empty'))
  t.match(await traced('x', '--log', join(folder, 'empty')), { code: 2, stderr: /is no log.*stateManagement\.path/ })
  t.match(await traced('x', '--log', join(folder, 'none')), { code: 2, stderr: /cannot be read.*ENOENT/ })
  t.match(await traced('x'), { code: 2, stderr: /required option '--log <folder>'/ })
})

t.test('secrets of the environment are not printed', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, async (_desk, query) => `never say ${query}`)
  await team.execute('s3cr3t-s3cr3t', { runId: 'one' })
  await team.close()
  process.env.DESK_PASSWORD = 's3cr3t-s3cr3t'
  t.teardown(() => delete process.env.DESK_PASSWORD)
  const { stdout } = await traced('one', '--log', path, '--json')
  t.match(stdout, '[redacted]')
  t.notMatch(stdout, 's3cr3t')
})

async function traced(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['trace', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}
