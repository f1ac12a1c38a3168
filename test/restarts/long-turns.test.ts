/** Turns that are longer than the log in memory: what it has given up is read from the durable log. */
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { never } from '../kit/team.ts'
import { Lives } from './lives.ts'

const KEPT_BYTES = 20_000
const STEPS = 100

/** A team whose ann takes a hundred steps, of which the log in memory has the last twenty or so. */
function longTurn(beside: (context: AgentContext) => Promise<unknown> = async () => {}) {
  const done: number[] = []
  const attempts: number[] = []
  const lives = new Lives(
    {
      ann: async (_message, context) => {
        attempts.push(context.attempt)
        const besides = beside(context)
        let sum = 0
        for (let n = 0; n < STEPS; n++) {
          const { length } = await context.step(`step ${n}`, async () => {
            await context.now()
            done.push(n)
            return 'x'.repeat(1_000)
          })
          sum += length
          if (n % 10 === 0) await context.request('bob', `${n}`)
          await lives.clock.sleep(10)
        }
        await besides
        return `${sum}`
      },
      bob: (message) => message.content,
    },
    {
      keptBytes: KEPT_BYTES,
      orchestration: {
        strategy: 'custom',
        run: async (script) => (await script.request('ann', 'go')).content,
      },
    },
  )
  return { lives, done, attempts }
}

const once = Array.from({ length: STEPS }, (_, n) => n)

t.test('a thread dies in such a turn: nothing is done twice', async (t) => {
  const { lives, done, attempts } = longTurn()
  const team = await lives.next()
  const run = team.launch('go', { runId: 'one' })
  for (let deaths = 0; deaths < 2; deaths++) {
    await lives.clock.advance(400)
    t.ok(team.host.runs.find('one')!.log.forgotten > 0, 'the log in memory has given something up')
    const { incarnation } = team.host.directory.agent('ann')!
    if (incarnation?.thread instanceof LocalThread)
      incarnation.thread.kill({ code: 1, error: undefined, outside: true })
  }
  await lives.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: `${STEPS * 1_000}` })
  t.same(done, once)
  t.same(attempts, [1, 2, 3])
})

t.test('a process dies in such a turn: nothing is done twice', async (t) => {
  const { lives, done } = longTurn()
  let team = await lives.next()
  team.launch('go', { runId: 'one' })
  for (let deaths = 0; deaths < 3; deaths++) {
    await lives.clock.advance(300)
    team = await lives.next()
  }
  const run = team.getRun('one')!
  await lives.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: `${STEPS * 1_000}` })
  t.ok(done.length < STEPS + 3, 'at most what each death cut off is done again')
  t.same([...new Set(done)], once)
})

t.test('a step that had begun before, and may not run twice, has an unknown outcome', async (t) => {
  const { lives, attempts } = longTurn((context) => context.step('pay', () => never))
  const team = await lives.next()
  const run = team.launch('go', { runId: 'one' })
  await lives.clock.advance(700)
  const { incarnation } = team.host.directory.agent('ann')!
  if (incarnation?.thread instanceof LocalThread) incarnation.thread.kill({ code: 1, error: undefined, outside: true })
  await lives.clock.runToIdle()
  t.match(await run.result, { success: false, error: { message: /step "pay" was under way/ } })
  t.same(attempts, [1])
})
