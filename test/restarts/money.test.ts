/** Money and budgets over a restart: what was paid for stays paid for. */
import t from 'tap'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import type {
  AgentContext,
  BudgetUse,
  DramatisError,
  MultiAgentPatternOptions,
  RunOptions,
  RuntimeEvent,
} from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'
import type { LivingTeam } from './living-team.ts'

const HOUR = 3_600_000
const BILLION = 1_000_000_000

type Options = Pick<MultiAgentPatternOptions, 'prices' | 'budget' | 'tenants'>

/** A cent for each token of an answer; prompts cost a thousandth of it. */
const CENT = 10_000_000n
const PROMPT = 10_000n
const prices = { currency: 'EUR', models: { default: { input: 10, output: 10_000 } } }

/** Provider that bills each call once, however often it is asked under the same key. */
class Provider {
  /** In billionths, by the keys of the calls. */
  readonly bills = new Map<string, bigint>()
  readonly #dice: Dice
  asked = 0
  /** Called before it answers. */
  answers: (request: ModelRequest) => Promise<void> | undefined = () => undefined

  constructor(seed = 1) {
    this.#dice = new Dice(seed)
  }

  get sum(): bigint {
    return [...this.bills.values()].reduce((sum, bill) => sum + bill, 0n)
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    this.asked += 1
    const most = request.maxOutputTokens ?? 0
    await this.answers(request)
    const key = request.idempotencyKey ?? ''
    const bill = this.bills.get(key) ?? BigInt(this.#dice.upTo(most + 1)) * CENT + PROMPT
    this.bills.set(key, bill)
    const outputTokens = Number((bill - PROMPT) / CENT)
    yield { text: 'ok' }
    yield { usage: { inputTokens: 1, outputTokens, totalTokens: outputTokens + 1, calls: 1 } }
  }
}

/** Calls at once, as many as the query says, each of at most so many tokens. */
const cast = {
  ann: async ({ content }: { content: string }, context: Pick<AgentContext, 'complete'>) => {
    const [count = 1, most = 5] = content.split(' ').map(Number)
    const calls = Array.from({ length: count }, (_, n) =>
      context.complete({ prompt: `${n}`, maxOutputTokens: 1 + (n % most) }),
    )
    const all = await Promise.allSettled(calls)
    return String(all.filter(({ status }) => status === 'fulfilled').length)
  },
}

const livesOf = (provider: Provider, options: Options) =>
  new Lives(cast, {
    models: { default: provider },
    prices,
    orchestration: { strategy: 'custom', run: async (script, query) => (await script.request('ann', query)).content },
    ...options,
  })

const useOf = (team: LivingTeam, tenant: string | null): BudgetUse | undefined =>
  team.budgets().find((use) => use.tenant === tenant && use.unit === 'EUR')

const billionths = (amount: number | undefined): bigint => BigInt(Math.round((amount ?? 0) * BILLION))

t.test('a call that the process died in is held in full until it is made again, and booked once', async (t) => {
  const provider = new Provider()
  provider.answers = () => (provider.asked === 1 ? never : undefined)
  const lives = livesOf(provider, { budget: { perTenant: { each: { money: 5 }, period: 'day' } } })
  const before = await lives.next()
  const { id } = before.launch('1 400', { tenant: 'acme' })
  await lives.clock.advance(1_000)
  const held = useOf(before, 'acme')
  t.ok(held && held.held > 0.01 && held.used === 0, JSON.stringify(held))
  t.equal(provider.asked, 1)
  const after = await lives.next({ resume: 'manual' })
  t.same(useOf(after, 'acme'), held, 'in the next process')
  t.same(useOf(await lives.next({ resume: 'manual' }), 'acme'), held, 'and in the one after it')
  const last = await lives.next()
  await lives.clock.advance(1_000)
  t.equal(provider.asked, 2)
  const { money } = last.getRun(id)!
  t.equal(billionths(money?.amount), provider.sum)
  t.match(useOf(last, 'acme'), { used: money?.amount, held: 0 })
  t.match(useOf(await lives.next(), 'acme'), { used: money?.amount, held: 0 })
  t.match(useOf(await lives.next({ asleepMs: 24 * HOUR }), 'acme') ?? { used: 0 }, { used: 0 }, 'a new day')
})

t.test('a log keeps sums and currency, also when what was said of them first is given up', async (t) => {
  const provider = new Provider()
  const lives = livesOf(provider, { budget: { perTeam: { money: 90, period: 'week' } } })
  const small = { keep: { runs: 0 }, segmentBytes: 300 }
  const team = await lives.next(small)
  for (let n = 0; n < 10; n++) {
    team.launch('1')
    await lives.clock.advance(100)
  }
  t.ok(lives.disk.dropped > 5, `${lives.disk.dropped} parts of the log were given up`)
  const other = { prices: { ...prices, currency: 'USD' } }
  await t.rejects(lives.next({ ...small, options: other }), {
    code: 'CONFIGURATION',
    message: /prices\.currency: got "USD"; accepted: "EUR", in which the durable log has its amounts/,
  })
  const later = await lives.next({ ...small, options: { prices } })
  t.equal(billionths(useOf(later, null)?.used), provider.sum)
  await t.rejects(lives.next({ ...small, options: other }), { code: 'CONFIGURATION' }, 'also of the process after it')
})

t.test('what a dead call of one tenant has cost is told in no run of another', async (t) => {
  const provider = new Provider()
  provider.answers = () => (provider.asked === 1 ? never : undefined)
  const lives = livesOf(provider, { budget: { perTenant: { each: { money: 0.0125 }, period: 'day' } } })
  const { id } = (await lives.next()).launch('1', { tenant: 'beta' })
  await lives.clock.advance(1_000)
  const team = await lives.next({ resume: 'manual' })
  void team.getRun(id)?.cancel()
  await lives.clock.advance(1_000)
  const run = team.launch('1', { tenant: 'acme', budget: { tokens: 1_000 } })
  await lives.clock.advance(1_000)
  t.match(useOf(team, 'beta'), { held: 0, limit: 0.0125 })
  t.ok((useOf(team, 'beta')?.used ?? 0) > 0.01)
  const told: unknown[] = []
  for await (const event of run.events({ types: ['budget'] })) if (event.type === 'budget') told.push(event.tenant)
  t.notOk(told.includes('beta'), JSON.stringify(told))
})

t.test('a tenant whose call waits is not forgotten among a thousand others', async (t) => {
  const provider = new Provider()
  provider.answers = () => never
  const period = 'day'
  const lives = new Lives(
    { ...cast, bob: cast.ann, cid: cast.ann },
    {
      models: { default: provider },
      prices,
      budget: { perTeam: { money: 0.0215, period }, perTenant: { each: { money: 0.0105 }, period } },
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const [agent = '', what] = query.split(': ')
          return what === undefined ? 'nothing' : (await script.request(agent, what)).content
        },
      },
    },
  )
  const team = await lives.next()
  const large = team.launch('ann: 2 1')
  await lives.clock.advance(10)
  team.launch('bob: 1', { tenant: 'acme' })
  await lives.clock.advance(10)
  t.equal(provider.asked, 2, 'it waits for what the team has left')
  for (let n = 0; n < 1_001; n++) team.launch('nothing', { tenant: `${n}` })
  await lives.clock.advance(1_000)
  team.launch('cid: 1', { tenant: 'acme' })
  await lives.clock.advance(10)
  void large.cancel()
  await lives.clock.advance(1_000)
  t.equal(provider.asked, 3, 'one of the two: both would pass the limit of their tenant')
  t.match(useOf(team, 'acme'), { used: 0, limit: 0.0105 })
})

t.test(
  'whenever the process dies, the books have what the provider has billed, and never more than the limit',
  async (t) => {
    for (let seed = 0; seed < howMany(25, 1_000); seed++) {
      const problem = await playDeaths(seed)
      if (problem) return t.fail(`seed ${seed}: ${problem}`)
    }
    t.pass()
  },
)

/** Plays calls at once of two tenants, and deaths of the process among them. Returns what was wrong. */
async function playDeaths(seed: number): Promise<string | undefined> {
  const dice = new Dice(seed)
  const provider = new Provider(seed)
  const limit = { acme: 5, other: 0.5 }
  const of = { acme: { money: limit.acme } }
  const budget = {
    perTenant: { each: { money: limit.other }, of, period: 'day' },
    perTeam: { money: 5.2, period: 'week' },
  } as const
  const lives = livesOf(provider, { budget })
  let team = await lives.next()
  provider.answers = () => lives.clock.sleep(dice.upTo(40))
  const runs = [
    team.launch(`${10 + dice.upTo(60)} ${1 + dice.upTo(80)}`, { tenant: 'acme' }).id,
    team.launch(`${10 + dice.upTo(60)} ${1 + dice.upTo(40)}`, { tenant: 'other' }).id,
  ]
  for (let deaths = dice.upTo(4); deaths > 0; deaths--) {
    await lives.clock.advance(dice.upTo(120))
    team = await lives.next({ asleepMs: dice.upTo(1_000) })
    for (const { option, used, held, limit } of team.budgets())
      if (billionths(used) + billionths(held) > billionths(limit)) return `${option}: ${used} used, ${held} held`
  }
  await lives.clock.advance(60_000)
  let sum = 0n
  for (const tenant of ['acme', 'other'] as const) {
    const use = useOf(team, tenant)
    if (use?.held !== 0) return `${use?.held} are held for ever`
    if (use.used > limit[tenant]) return `${tenant} has used ${use.used}`
    sum += billionths(use.used)
  }
  const ofTeam = billionths(useOf(team, null)?.used)
  const listed = (await team.listRuns()).filter(({ id }) => runs.includes(id))
  const ofRuns = listed.map(({ money }) => billionths(money?.amount)).reduce((all, each) => all + each, 0n)
  const again = billionths(useOf(await lives.next(), null)?.used)
  return [sum, ofTeam, ofRuns, again].every((each) => each === provider.sum)
    ? undefined
    : `billed ${provider.sum}, booked ${sum} of tenants, ${ofTeam} of the team, ${ofRuns} of runs, ${again} later`
}

t.test('a tenant without money begins no run until its day ends, and others are not held up', async (t) => {
  const provider = new Provider()
  const midnight = Date.parse('1970-01-01T23:00:00Z') // in Berlin
  const period = { period: 'day', timeZone: 'Europe/Berlin' } as const
  const lives = livesOf(provider, {
    budget: { perTenant: { each: { money: 0.5 }, of: { acme: { money: 1 } }, ...period } },
  })
  const team = await lives.next()
  const play = async (query: string, options: RunOptions) => {
    const running = team.execute(query, options)
    await lives.clock.advance(1_000)
    return running
  }
  let left = await play('1 50', { tenant: 'acme' })
  for (let n = 0; n < 200 && !left.error; n++) left = await play('2 1', { tenant: 'acme' })
  const asked = provider.asked
  t.match(left.error, {
    code: 'BUDGET_EXCEEDED',
    message:
      /^No money is left for tenant "acme": 0\.\d\d of 1\.00 EUR today, 0\.00 held; a call costs at least [\d.]+ EUR \(budget\.perTenant\.of\.acme\.money\)\. Free again at 1970-01-02T00:00:00\+01:00\.$/,
    details: {
      option: 'budget.perTenant.of.acme.money',
      tenant: 'acme',
      unit: 'EUR',
      limit: 1,
      held: 0,
      freeAt: midnight,
    },
  })
  t.throws(() => team.launch('1 1', { tenant: 'acme' }), { code: 'BUDGET_EXCEEDED' })
  t.equal(provider.asked, asked, 'nothing was done')
  t.equal((await play('1 1', { tenant: 'other' })).finalOutput, '1')
  t.equal((await play('1 1', {})).finalOutput, '1', 'a run without a tenant counts in no limit of tenants')
  const later = await lives.next({ asleepMs: midnight - lives.clock.now() - 500 })
  t.throws(() => later.launch('1 1', { tenant: 'acme' }), { code: 'BUDGET_EXCEEDED' }, 'a moment before midnight')
  await lives.clock.advance(500)
  const running = later.execute('1 1', { tenant: 'acme' })
  await lives.clock.advance(1_000)
  t.equal((await running).finalOutput, '1')
})

// Budgets over a restart: what was paid for stays paid for.

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
const PROMPT_TOKENS = countPrompt({ messages: [{ role: 'user', content: 'go' }] })
const COUNTED = PROMPT_TOKENS + countTokens('ok')

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
      const tokens = 3 * (silent ? COUNTED : 100) + PROMPT_TOKENS + 49 // a fourth call does not fit
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
