/** Long turns and steps side by side, over a death. */
import t, { type Test } from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { ask, localTeam, never } from '../kit/team.ts'
import { Lives } from './lives.ts'

// Turns that are longer than the log in memory: what it has given up is read from the durable log.

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

// Steps side by side, in a turn whose thread or process has died: whose result is whose, and what of them has
// changed.

/** An agent whose turn waits for a person in its first process, and is played by other code in the next one. */
function shop() {
  const done: string[] = []
  const now = { plays: async (_context: AgentContext): Promise<string> => '' }
  const lives = new Lives(
    {
      ann: (_message, context) => now.plays(context),
      bank({ content }) {
        done.push(content)
        return 'done'
      },
    },
    { enableBlackboard: true, orchestration: custom },
  )
  /** A step that takes a while, and one that takes none. */
  const slow = (context: AgentContext, ms = 50) => context.step('slow', () => lives.clock.sleep(ms))
  const pay = (context: AgentContext, what: string) => context.step(`pay ${what}`, () => void done.push(what))
  return { lives, done, now, slow, pay }
}

const custom = {
  strategy: 'custom',
  run: async (script: { request(to: string, content: string): Promise<{ content: string }> }) =>
    (await script.request('ann', 'go')).content,
} as const

type Shop = ReturnType<typeof shop>
type Program = (context: AgentContext, shop: Shop) => Promise<unknown>

/** Plays one program until it waits for a person, and another one on its log. */
async function changed(t: Test, first: Program, second: Program) {
  const here = shop()
  const { lives, now } = here
  const playsThenAsks = (program: Program) => async (context: AgentContext) => {
    await program(context, here)
    return context.ask('Go on?')
  }
  now.plays = playsThenAsks(first)
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(500)
  t.equal(before.questions().length, 1)
  now.plays = playsThenAsks(second)
  const after = await lives.next()
  await lives.clock.advance(3_000)
  for (const { questionId } of after.questions()) void after.answer(questionId, 'yes')
  await lives.clock.advance(3_000)
  return { result: await after.getRun('one')!.result, done: here.done }
}

const beside =
  (what: (context: AgentContext, shop: Shop) => Promise<unknown>): Program =>
  (context, shop) =>
    Promise.all([shop.slow(context), what(context, shop)])

const behind =
  (what: (context: AgentContext, shop: Shop) => Promise<unknown>): Program =>
  async (context, shop) => {
    const slow = shop.slow(context)
    await context.step('quick', () => {})
    await what(context, shop)
    await slow
  }

const effects: Record<string, (amount: string) => (context: AgentContext, shop: Shop) => Promise<unknown>> = {
  step:
    (amount) =>
    (context, { pay }) =>
      pay(context, amount),
  request: (amount) => (context) => context.request('bank', amount),
  send: (amount) => (context) => context.send('bank', amount),
  'two steps':
    (amount) =>
    async (context, { pay }) => {
      await pay(context, 'a fee')
      await pay(context, amount)
    },
  'a step within a step':
    (amount) =>
    (context, { pay }) =>
      context.step('around', () => pay(context, amount), { idempotent: true }),
}

for (const [kind, effect] of Object.entries(effects))
  for (const [where, around] of Object.entries({ beside, behind })) {
    t.test(`a ${kind} that is another one now, ${where} a step that was open`, async (t) => {
      const { result, done } = await changed(t, around(effect('10 euros')), around(effect('20 euros')))
      if (kind === 'a step within a step') return t.same(done, ['10 euros'], 'the step around it was done')
      t.match(result.error, { code: 'STEP_MISMATCH' })
      t.notOk(done.includes('20 euros'), 'nothing was done anew')
      t.match(result.error?.message, /did not ask again for .*(step pay|to bank)/)
    })
    t.test(`a ${kind} that is the same, ${where} a step that was open`, async (t) => {
      const { result, done } = await changed(t, around(effect('10 euros')), around(effect('10 euros')))
      t.match(result, { success: true, finalOutput: 'yes' })
      t.equal(done.filter((what) => what === '10 euros').length, 1)
    })
  }

t.test('a failure where the log goes on, beside a step that was open', async (t) => {
  const { result, done } = await changed(t, behind(effects.step!('10 euros')), async (context, { slow }) => {
    void slow(context)
    await context.step('quick', () => {})
    throw new Error('a typo')
  })
  t.match(result.error, { code: 'STEP_MISMATCH' })
  t.same(done, ['10 euros'])
})

t.test('what a step asks for is a part of it, also beside another one', async (t) => {
  const around: Program = (context, { slow, pay }) =>
    Promise.all([
      slow(context, 80),
      context.step('both', async () => {
        await slow(context, 20)
        await pay(context, 'within')
      }),
    ])
  const { result, done } = await changed(t, around, around)
  t.match(result, { success: true, finalOutput: 'yes' })
  t.same(done, ['within'])
})

// ---- whose result is whose

interface Priced {
  readonly name: string
  readonly ms: number
  readonly fails?: boolean
}

const priced: Record<string, readonly Priced[]> = {
  'the first is slow': [
    { name: 'ann', ms: 40 },
    { name: 'bob', ms: 10 },
  ],
  'one fails': [
    { name: 'ann', ms: 30 },
    { name: 'bob', ms: 20, fails: true },
    { name: 'cid', ms: 10 },
  ],
  'the last is first': Array.from({ length: 6 }, (_, i) => ({ name: `n${i}`, ms: 60 - 10 * i })),
}

for (const [name, list] of Object.entries(priced))
  for (const diesAt of [5, 15, 25, 35, 65])
    t.test(`steps of one name keep their results: ${name}, dead after ${diesAt} ms`, async (t) => {
      const team = localTeam(t, {
        async worker(_message, context) {
          const price = ({ name, ms, fails }: Priced) =>
            context
              .step(
                'price',
                async () => {
                  await team.clock.sleep(ms)
                  if (fails) throw new Error(`no price of ${name}`)
                  return `price of ${name}`
                },
                { idempotent: true },
              )
              .catch((error: Error) => /no price of \w+/.exec(error.message)?.[0])
          const prices = await Promise.all(list.map(price))
          if (context.attempt > 1) return prices.join()
          return never
        },
      })
      const answer = ask(team, 'worker')
      await team.clock.advance(diesAt)
      team.crash('worker')
      await team.clock.advance(200)
      t.equal(await answer, list.map(({ name, fails }) => (fails ? `no price of ${name}` : `price of ${name}`)).join())
    })
