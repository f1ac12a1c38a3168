/** A key that a caller has put into a query: agents get what was written, and nobody who looks from outside does. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'

const KEY = 'a-key-of-the-team-0123456789'
const QUERY = `Why does ${KEY} not work?`
const SHOWN = 'Why does [redacted] not work?'

t.test('a key in a query reaches the agents, and is in nothing that callers read of the run', async (t) => {
  const heard: unknown[] = []
  const bob = defineAgent({
    receive({ content }) {
      heard.push(content)
      return content
    },
  })
  const ann = defineAgent({
    async receive({ content }, context) {
      await context.publish('query', content, 'question')
      heard.push((await context.blackboard.read('query'))?.value)
      return String((await context.delegate('bob', content)).result)
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      enableBlackboard: true,
      models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
      logger: silent,
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch(QUERY, { runId: 'one' })
  const board = run.blackboard
  const entries: unknown[] = []
  await board?.subscribe('query', ({ value }) => void entries.push(value))
  const awaited = board?.waitFor('query')
  const result = await run.result
  t.match(result, { success: true, finalOutput: SHOWN })
  t.strictSame(heard, [QUERY, QUERY])
  t.equal(run.query, SHOWN)
  t.equal((await team.listRuns())[0]?.query, SHOWN)
  t.equal(run.tasks[0]?.description, SHOWN)
  entries.push((await awaited)?.value, (await board?.read('query'))?.value, (await board?.query())?.[0]?.value)
  entries.push((await board?.getHistory('query'))?.[0]?.value)
  t.strictSame(entries, [SHOWN, SHOWN, SHOWN, SHOWN, SHOWN])
  t.equal(team.launch(QUERY, { runId: 'one' }).id, 'one', 'the same query joins the run')
})
