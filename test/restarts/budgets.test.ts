/** Budgets over a restart: what was paid for stays paid for. */
import t from 'tap'
import type { ModelPiece } from '../../src/actors/definition/model.ts'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import type { DramatisError, RuntimeEvent } from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'

const WINDOW = 60_000

/** Calls cost 100 tokens each; with `silent` the provider does not say so, and they are counted here. */
function modelOf(silent = false) {
  const model = {
    calls: 0,
    async *complete(): AsyncGenerator<ModelPiece> {
      model.calls += 1
      yield { text: 'ok' }
      if (!silent) yield { usage: { inputTokens: 50, outputTokens: 50, totalTokens: 100, calls: 1 } }
    },
  }
  return model
}

/** What the calls cost that a provider says nothing of. */
const PROMPT = countPrompt({ messages: [{ role: 'user', content: 'go' }] })
const COUNTED = PROMPT + countTokens('ok')

const think: Receive = async ({ content }, context) => {
  try {
    for (let n = 0; n < Number(content); n++) await context.complete({ prompt: 'go', maxOutputTokens: 50 })
  } catch (error) {
    return (error as DramatisError).code
  }
  return 'done'
}

const agents = { ann: think, bob: think }

async function ask(lives: Lives, team: MultiAgentPattern<string>, agent: string, times: number): Promise<string> {
  const asked = team.sendMessage({ recipient: agent, content: `${times}`, requiresResponse: true })
  await lives.clock.advance(100)
  return (await asked)!.content
}

t.test('the window of the team has what it had before the process died', async (t) => {
  const lives = new Lives(agents, {
    models: { default: modelOf() },
    budget: { perTeam: { tokens: 450, windowMs: WINDOW } },
  })
  t.equal(await ask(lives, await lives.next(), 'ann', 2), 'done')
  t.equal(await ask(lives, await lives.next({ asleepMs: 20_000 }), 'bob', 2), 'done')
  const full = await lives.next()
  t.equal(await ask(lives, full, 'bob', 1), 'BUDGET_EXCEEDED', '400 are used, in two processes')
  await lives.clock.advance(WINDOW - 20_000)
  t.equal(await ask(lives, full, 'bob', 3), 'BUDGET_EXCEEDED', 'the first 200 are forgotten')
  const later = await lives.next({ asleepMs: WINDOW })
  t.equal(await ask(lives, later, 'bob', 4), 'done', 'the window goes by wall clock')
})

t.test('each agent has its own limit in the window', async (t) => {
  const perTeam = { perAgentTokens: 250, windowMs: WINDOW }
  const lives = new Lives(agents, { models: { default: modelOf() }, budget: { perTeam } })
  t.equal(await ask(lives, await lives.next(), 'ann', 2), 'done')
  const after = await lives.next()
  t.equal(await ask(lives, after, 'ann', 1), 'BUDGET_EXCEEDED')
  t.equal(await ask(lives, after, 'bob', 2), 'done')
})

t.test('what the log has forgotten of runs still counts in the window', async (t) => {
  const lives = new Lives(agents, {
    models: { default: modelOf() },
    budget: { perTeam: { tokens: 450, windowMs: WINDOW } },
  })
  const small = { keep: { runs: 0 }, segmentBytes: 300 }
  const before = await lives.next(small)
  for (let n = 0; n < 4; n++) await ask(lives, before, 'ann', 1)
  for (let n = 0; n < 20; n++) await ask(lives, before, 'bob', 0)
  t.ok(lives.disk.dropped > 5, `${lives.disk.dropped} parts of the log were given up`)
  t.equal(await ask(lives, await lives.next(small), 'bob', 1), 'BUDGET_EXCEEDED')
})

for (const silent of [false, true])
  t.test(
    `a run has spent what it had spent before${silent ? ', also if the provider does not say what' : ''}`,
    async (t) => {
      const client = modelOf(silent)
      const lives = new Lives(
        {
          ann: async (message, context) => {
            const said = await think({ ...message, content: '3' }, context)
            await context.sleep(1_000)
            return `${said}, ${await think({ ...message, content: '2' }, context)}`
          },
        },
        {
          models: { default: client },
          orchestration: { strategy: 'custom', run: async (script) => (await script.request('ann', '')).content },
        },
      )
      const before = await lives.next()
      const tokens = 3 * (silent ? COUNTED : 100) + PROMPT + 49 // a fourth call does not fit
      const { id } = before.launch('go', { budget: { tokens } })
      await lives.clock.advance(500)
      t.equal(client.calls, 3)
      const after = await lives.next()
      const events: RuntimeEvent[] = []
      after.events.subscribe((event) => void events.push(event))
      await lives.clock.advance(1_000)
      const { finalOutput } = await after.getRun(id)!.result
      t.equal(finalOutput, 'done, BUDGET_EXCEEDED')
      t.equal(client.calls, 3, 'none is made again, and no further one')
      t.match(
        events.filter(({ type }) => type === 'budget').map((event) => event.type === 'budget' && event.limit),
        [tokens],
      )
    },
  )

t.test('a call that was under way when the process died counts once', async (t) => {
  let calls = 0
  const client = {
    async *complete() {
      calls += 1
      if (calls === 1) await never
      yield { text: 'ok' }
      yield { usage: { inputTokens: 50, outputTokens: 50, totalTokens: 100, calls: 1 } }
    },
  }
  const lives = new Lives(agents, {
    models: { default: client },
    budget: { perTeam: { tokens: 250, windowMs: WINDOW } },
  })
  const before = await lives.next()
  void before.sendMessage({ recipient: 'ann', content: '1' })
  await lives.clock.advance(100)
  const after = await lives.next()
  t.equal(calls, 2, 'it is made again')
  t.equal(await ask(lives, after, 'bob', 1), 'done')
  t.equal(await ask(lives, after, 'bob', 1), 'BUDGET_EXCEEDED')
})
