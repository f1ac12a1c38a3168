/** Spans of agents on real threads: short turns, of which the host sees no more than what they leave. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { rehearse } from '../../src/testing.ts'
import relay from '../fixtures/telemetry/relay.ts'
import { silent } from '../kit/team.ts'
import { errorOf, idOf, parentOf, Recorder, tookOf, traceOf } from './recorder.ts'

const module = new URL('../fixtures/telemetry/relay.js', import.meta.url)
const agents = ['chief', 'clerk', 'sage'].map((name) => ({ name, module }))
const orchestration = {
  strategy: 'custom',
  run: async (script: { request(to: string, content: string): Promise<{ content: string }> }, query: string) =>
    (await script.request('chief', query)).content,
} as const

t.test('each of many short turns stands below the one that began it', async (t) => {
  const recorder = new Recorder()
  const team = createTeam({ agents, orchestration, logger: silent, telemetry: recorder.telemetry })
  t.teardown(() => team.close())
  const { finalOutput } = await team.execute('clerk 200 sage 2')
  await team.close({ drainMs: 60_000 })
  const run = recorder.one('invoke_workflow')
  const chief = recorder.one('invoke_agent chief')
  const clerks = recorder.named('invoke_agent clerk')
  const sages = recorder.named('invoke_agent sage')
  t.equal(finalOutput, `00-${traceOf(run)}-${idOf(run)}-01`)
  t.equal(parentOf(chief), idOf(run))
  t.equal(clerks.length, 200)
  t.ok(clerks.every((span) => parentOf(span) === idOf(chief)))
  t.equal(sages.length, 400)
  for (const clerk of clerks) t.equal(sages.filter((sage) => parentOf(sage) === idOf(clerk)).length, 2)
  t.equal(recorder.open, 0)
  t.ok(recorder.spans.every((span) => errorOf(span) === undefined && tookOf(span) >= 0))
})

t.test('a rehearsal of the team leaves no spans', async (t) => {
  const recorder = new Recorder()
  const modules = { chief: relay, clerk: relay, sage: relay }
  const options = { agents: agents.map(({ name }) => ({ name })), orchestration, telemetry: recorder.telemetry }
  const { outcomes } = await rehearse(options, { query: 'clerk 1 sage 1', seeds: 3, modules })
  t.equal(outcomes.done, 3)
  t.equal(recorder.started, 0)
})
