/** `rehearse()`: a team through many schedules, and what it calls a run that is not done. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { type AgentContext, defineAgent, type MultiAgentPatternOptions, type Outcome } from '../../../src/index.ts'
import { Rehearser } from '../../../src/rehearsal.ts'
import { type RehearsalPlan, rehearse, virtualClock } from '../../../src/testing.ts'
import { never, silent } from '../../kit/team.ts'
import { adder } from '../../toolbox/tools.ts'

// `rehearse()`: a team through many schedules, in the thread of the test.

const fixture = (name: string) => new URL(`../../fixtures/rehearsal/${name}.js`, import.meta.url)

/** A run asks the first agent. */
const teamOf = (agents: MultiAgentPatternOptions['agents'], more: Partial<MultiAgentPatternOptions> = {}) => ({
  agents,
  orchestration: {
    strategy: 'custom' as const,
    run: async (script: AgentContext, query: string) => (await script.request(agents[0]!.name, query)).content,
  },
  ...more,
})

const asker = defineAgent({
  async receive(message, context) {
    await context.sleep(context.random() * 20)
    return `asked: ${(await context.request('oracle', message.content)).content}`
  },
})
const oracle = defineAgent({ receive: ({ content }) => `${content}!` })
const modules = { asker, oracle }
const pair = teamOf([{ name: 'asker' }, { name: 'oracle' }])

/** What came of each run. */
async function outcomesOf(options: MultiAgentPatternOptions, plan: Omit<RehearsalPlan, 'check'>) {
  const ends: Outcome[] = []
  const rehearsal = await rehearse(options, { ...plan, check: (outcome) => void ends.push(outcome) })
  return { ...rehearsal, ends, answers: ends.map((each) => (each.ok ? each.message.content : each.error.code)) }
}

t.test('a team that works is done in every schedule', async (t) => {
  t.same(await rehearse(pair, { query: 'Rain?', seeds: 20, modules }), {
    runs: 20,
    outcomes: { done: 20, deadlock: 0, livelock: 0, stall: 0, failed: 0 },
    failures: [],
    standsInFor: [],
    simulatedTools: [],
  })
})

t.test('crashes, delays and turns that are cut off cost a sound team nothing but time', async (t) => {
  for (const fault of ['crash', 'delay', 'duplicate'] as const) {
    const { failures, answers } = await outcomesOf(pair, { query: 'Rain?', seeds: 30, faults: [fault], modules })
    t.same(failures, [], fault)
    t.ok(answers.every((answer) => answer === 'asked: Rain?!'))
  }
})

t.test('tools take part: inline ones in the host, those in modules in the lives of their agents', async (t) => {
  const caller = defineAgent({
    async receive({ content }, context) {
      const [first, second] = await Promise.all([context.tool('add', { a: 1 }), context.tool('echo', { n: 2 })])
      return `${content} ${JSON.stringify([first, second])}`
    },
  })
  const { tool } = adder()
  const tools = [tool, { module: new URL('../../fixtures/tools/echo.js', import.meta.url), isolate: true }]
  const options = teamOf([{ name: 'caller', tools }])
  const faults = ['crash', 'delay', 'duplicate'] as const
  const { failures, answers } = await outcomesOf(options, {
    query: 'go',
    seeds: 30,
    faults,
    modules: { caller },
    realTools: true,
  })
  t.same(failures, [])
  t.same(new Set(answers), new Set(['go [{"sum":2},"ok"]']))
})

t.test('a crash takes a life, and a turn that is cut off is tried again with its effects', async (t) => {
  let turns = 0
  let told = 0
  const counted = defineAgent({
    async receive(_message, context) {
      turns += 1
      await context.sleep(1)
      await context.send('listener', 'heard once')
      return String(context.attempt)
    },
  })
  const listener = defineAgent({ receive: () => void told++ })
  const options = teamOf([{ name: 'counted' }, { name: 'listener' }])
  for (const fault of ['crash', 'duplicate'] as const) {
    turns = 0
    const seeds = 40
    const { answers } = await outcomesOf(options, { query: '', seeds, faults: [fault], modules: { counted, listener } })
    t.ok(answers.includes('1') && answers.includes('2'), fault)
    t.notOk(
      answers.some((attempt) => Number(attempt) > 2),
      'a message is hit once',
    )
    t.ok(turns > seeds)
  }
  t.ok(told > 0)
})

t.test('a delay takes up to ten seconds of the run', async (t) => {
  const { ends } = await outcomesOf(pair, { query: '', seeds: 40, faults: ['delay'], modules })
  const tookMs = ends.map((each) => (each.ok ? each.message.sentAt - Date.UTC(2025, 0, 1) : Number.NaN))
  t.ok(tookMs.some((ms) => ms > 1_000))
  t.ok(
    tookMs.some((ms) => ms < 20),
    'in some runs nothing goes wrong',
  )
  t.ok(
    tookMs.every((ms) => ms <= 30_020),
    'three at most',
  )
})

t.test('a turn that hangs is ended by its deadline, and a refusal is what its caller gets', async (t) => {
  const hung = await rehearse(pair, { query: '', seeds: 25, faults: ['hang'], modules })
  t.ok(hung.failures.length > 0)
  t.ok(hung.failures.every(({ error }) => error.code === 'REQUEST_TIMEOUT'))
  const refused = await rehearse(pair, { query: '', seeds: 25, faults: ['refuse'], modules })
  t.ok(refused.failures.length > 0)
  t.ok(refused.failures.every(({ error }) => error.message.includes('the rehearsal let it refuse this task')))
  t.ok(refused.failures.some(({ error }) => error.code === 'TASK_REFUSED'))
})

t.test('a seed plays the same run again, and another seed another one', async (t) => {
  const faults = ['crash', 'delay', 'duplicate', 'hang', 'refuse'] as const
  const options = teamOf([{ name: 'virtual', module: fixture('virtual') }])
  const play = (seeds: number[]) => outcomesOf(options, { query: '', seeds, faults })
  const [all, again, alone] = [await play([1, 2, 3, 4, 5, 6]), await play([1, 2, 3, 4, 5, 6]), await play([4])]
  t.same(again.answers, all.answers)
  t.same(again.failures, all.failures)
  t.equal(alone.answers[0], all.answers[3])
  t.ok(new Set(all.answers).size > 3)
})

t.test('all that happens in the run of a seed, and when, is the same again', async (t) => {
  const faults = ['crash', 'delay', 'duplicate', 'hang', 'refuse'] as const
  const options = teamOf([{ name: 'asker' }, { name: 'oracle', module: fixture('virtual') }])
  const rehearser = new Rehearser()
  const tell = async (seed: number) =>
    JSON.stringify(await rehearser.play(seed, () => options, { query: '', faults, traced: true, modules: { asker } }))
  const stories = new Set<string>()
  for (const seed of [1, 2, 3, 4, 5]) {
    const story = await tell(seed)
    stories.add(story)
    t.equal(await tell(seed), story, `seed ${seed}`)
    t.match(story, /"messageFlow":\[\{"from":"\$user"/)
  }
  t.equal(stories.size, 5)
})

t.test('a failure names the line that plays it again', async (t) => {
  const { failures } = await rehearse(pair, { query: 'Rain?', seeds: 25, faults: ['refuse', 'crash'], modules })
  const [{ seed, error, replay }] = failures as [(typeof failures)[0]]
  t.equal(replay, `await rehearse(options, {"query":"Rain?","seeds":[${seed}],"faults":["crash","refuse"]})`)
  const again = await rehearse(pair, { query: 'Rain?', seeds: [seed], faults: ['refuse', 'crash'], modules })
  t.match(again.failures, [{ seed, error: { code: error.code, message: error.message } }])
})

t.test('check sees what came of each run, and what it throws makes the run a failed one', async (t) => {
  const seen: Outcome[] = []
  const { outcomes, failures } = await rehearse(pair, {
    query: 'Rain?',
    seeds: 3,
    modules,
    check(outcome) {
      seen.push(outcome)
      if (seen.length === 2) throw new Error('not what I hoped for')
    },
  })
  t.match(seen, Array(3).fill({ agent: '$orchestrator', ok: true, message: { content: 'asked: Rain?!' } }))
  t.match(outcomes, { done: 2, failed: 1 })
  t.match(failures, [{ seed: 2, error: { code: 'AGENT_FAILED', message: /check refused.*not what I hoped for/ } }])
})

t.test('options may be made anew for each run', async (t) => {
  let made = 0
  const make = () => {
    made += 1
    return pair
  }
  await rehearse(make, { query: '', seeds: 4, modules })
  t.equal(made, 4)
})

t.test('agents that are busy for ever while no time passes are a livelock', async (t) => {
  const pingPong = (to: string) => defineAgent({ receive: (_message, context) => context.send(to, 'your turn') })
  const options = {
    agents: [{ name: 'ping' }, { name: 'pong' }],
    orchestration: {
      strategy: 'custom' as const,
      async run(script: AgentContext) {
        await script.send('ping', 'begin')
        await never
        return ''
      },
    },
    supervision: { livelock: false as const },
  }
  const part = { query: '', faults: [], traced: false, modules: { ping: pingPong('pong'), pong: pingPong('ping') } }
  const outcome = await new Rehearser({ mostSteps: 2_000 }).play(1, () => options, part)
  t.match(outcome, { kind: 'livelock', error: { code: 'LIVELOCK', message: /p[io]ng is running/ } })
  const found = await new Rehearser({ mostSteps: 4_000 }).play(1, () => ({ ...options, supervision: {} }), part)
  t.match(found, { kind: 'livelock', error: { code: 'LIVELOCK', message: /"ping" and "pong" wrote to each other/ } })
})

t.test('the modules of agents begin anew with each life and each run', async (t) => {
  const options = teamOf([{ name: 'counts', module: fixture('counts') }])
  const { answers } = await outcomesOf(options, { query: '', seeds: 20, faults: ['crash'] })
  t.same([...new Set(answers)], ['1 1'])
})

t.test('process.exit ends a life with its timers, and the message is tried again', async (t) => {
  const printed: string[] = []
  const logger = { ...silent, info: (_fields: object, text: string) => void printed.push(text) }
  const options = teamOf([{ name: 'exits', module: fixture('exits') }], { logger })
  const { answers } = await outcomesOf(options, { query: '', seeds: 1 })
  t.same(answers, ['attempt 2'])
  t.same(
    printed.filter((line) => line.endsWith('prints')),
    ['attempt 2 prints'],
  )
})

t.test('real input is refused, with the agent, the module and what to do', async (t) => {
  const options = teamOf([{ name: 'reader', module: fixture('reads-a-file') }])
  const read = await rehearse(options, { query: '', seeds: 1 })
  t.match(read.failures, [
    {
      error: {
        code: 'AGENT_FAILED',
        message: /agent "reader": node:fs\.readFileSync is real input.*context\.step.*--record/,
      },
    },
  ])
  const fetching = teamOf([{ name: 'fetching', module: fixture('fetches') }])
  const { failures } = await rehearse(fetching, { query: 'https://example.org', seeds: 1 })
  t.match(failures, [
    { error: { code: 'AGENT_FAILED', message: /agent "fetching": fetch \(POST https:\/\/example\.org/ } },
  ])
})

t.test('what fetch answers is recorded once, and played again', async (t) => {
  let asked = 0
  const server = createServer((_request, response) => {
    asked += 1
    response.writeHead(201, { 'content-type': 'application/json' }).end('{ "word": "yes" }')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const record = join(t.testdir(), 'recording.json')
  const plan = { query: `http://127.0.0.1:${port}/word`, seeds: 3, record }
  const options = teamOf([{ name: 'fetching', module: fixture('fetches') }])
  const { answers, failures } = await outcomesOf(options, plan)
  t.same(failures, [])
  t.same(answers, Array(3).fill('201 yes 0'), 'it took no time of the run')
  server.close()
  t.same((await outcomesOf(options, plan)).answers, answers)
  t.equal(asked, 1)
})

t.test('what is no plan is refused by name', async (t) => {
  const wrong: [unknown, RegExp][] = [
    [undefined, /^plan: nothing/],
    [{ query: 'q', seeds: 1, seed: 2 }, /^plan: there is no "seed"/],
    [{ seeds: 1 }, /^query: nothing/],
    [{ query: 'q' }, /^seeds: nothing; accepted: a whole number from 1/],
    [{ query: 'q', seeds: 0 }, /^seeds: 0;/],
    [{ query: 'q', seeds: Number.NaN }, /^seeds: NaN;/],
    [{ query: 'q', seeds: 1.5 }, /^seeds: 1\.5;/],
    [{ query: 'q', seeds: [] }, /^seeds: an empty list;/],
    [{ query: 'q', seeds: [-1] }, /^seeds: a list of 1;/],
    [{ query: 'q', seeds: 1, faults: ['crash', 'fire'] }, /^faults: there is no fault "fire"; there are crash, delay/],
    [{ query: 'q', seeds: 1, faults: 'crash' }, /^faults: /],
    [{ query: 'q', seeds: 1, record: t.testdir({ a: '[]' }) }, /^record: .* cannot be read/],
    [{ query: 'q', seeds: 1, record: join(t.testdir({ a: '[]' }), 'a') }, /^record: .* is no recording/],
    [{ query: 'q', seeds: 1, modules: { nobody: oracle } }, /^modules\.nobody: no agent/],
  ]
  for (const [plan, message] of wrong)
    await t.rejects(rehearse(pair, plan as RehearsalPlan), { code: 'CONFIGURATION', message }, String(message))
  const clocked = rehearse({ ...pair, clock: virtualClock() }, { query: 'q', seeds: 1, modules })
  await t.rejects(clocked, { code: 'CONFIGURATION', message: /^clock: a rehearsal has a clock of its own/ })
  const none: MultiAgentPatternOptions = { agents: [], orchestration: { strategy: 'sequential' } }
  await t.rejects(rehearse(none, { query: '', seeds: 1 }), { code: 'CONFIGURATION', message: /^agents: / })
})

t.test(
  'a person answers what agents ask, as the seed says: one of the choices, or words that say what they are',
  async (t) => {
    const asking = defineAgent({
      async receive(_message, context) {
        const before = context.now()
        const color = await context.ask('Which color?', { choices: ['red', 'blue'] })
        return `${color}, ${await context.ask('Why?')} ${context.now() > before ? 'later' : 'at once'}`
      },
    })
    const plan = { query: 'go', seeds: 20, modules: { asking } }
    const { answers, outcomes } = await outcomesOf(teamOf([{ name: 'asking' }]), plan)
    t.match(outcomes, { done: 20 })
    t.same([...new Set(answers)].sort(), [
      'blue, [rehearsal] an answer to: Why? later',
      'red, [rehearsal] an answer to: Why? later',
    ])
    t.same((await outcomesOf(teamOf([{ name: 'asking' }]), plan)).answers, answers, 'the same again')
  },
)

// What a rehearsal calls a run that is not done: by what kept it from its end.

/** A run asks the first agent. */
const verdictsTeamOf = (names: string[], more: Partial<MultiAgentPatternOptions> = {}): MultiAgentPatternOptions => ({
  agents: names.map((name) => ({ name })),
  orchestration: { strategy: 'sequential', agentOrder: [names[0]!] },
  ...more,
})

/** Asks again and again, and gets the same answer every time. */
async function askOften(context: AgentContext, times: number): Promise<string> {
  for (let i = 0; i < times; i++) {
    await context.request('bob', 'free?')
    await context.sleep(1_000)
  }
  return 'enough'
}
const asks = (times: number) => defineAgent({ receive: (_message, context) => askOften(context, times) })
const busy = defineAgent({ receive: () => 'busy' })
const sign = /^"ann" asked "bob" the same/
const names = ['ann', 'bob']
const twoSeeds = { query: 'go', seeds: 2 }

t.test('agents that are busy without progress are a livelock, though the team does not ask for it', async (t) => {
  const modules = { ann: asks(1_000_000), bob: busy }
  for (const supervision of [undefined, {}, { confirmMs: 10 }, { livelock: {} }]) {
    const options = verdictsTeamOf(names, supervision && { supervision })
    const { outcomes, failures } = await rehearse(options, { ...twoSeeds, modules })
    t.match(outcomes, { livelock: 2 })
    t.match(failures, [{ error: { code: 'LIVELOCK', details: { evidence: [sign, sign] } } }, {}])
  }
})

t.test('a team that says otherwise is not watched, or by its own bounds', async (t) => {
  const modules = { ann: asks(100), bob: busy }
  const off = verdictsTeamOf(names, {
    supervision: { livelock: false },
    communication: { responseTimeoutMs: 1_000_000 },
  })
  t.match(await rehearse(off, { ...twoSeeds, modules }), { outcomes: { done: 2 } })
  const patient = { livelock: { maxRepeats: 200, maxMessagesWithoutProgress: 1_000 } }
  const own = { ...off, supervision: patient }
  t.match(await rehearse(own, { ...twoSeeds, modules }), { outcomes: { done: 2 } })
  const late = await rehearse(verdictsTeamOf(names, { supervision: { livelock: false } }), { ...twoSeeds, modules })
  t.match(late.outcomes, { failed: 2 })
})

t.test('a sign of a livelock is none in a run that comes to its end', async (t) => {
  const modules = { ann: asks(30), bob: busy }
  t.match(await rehearse(verdictsTeamOf(names), { ...twoSeeds, modules }), { outcomes: { done: 2 }, failures: [] })
})

t.test('a run whose time is over after a sign of a livelock is one', async (t) => {
  const modules = { ann: asks(100), bob: busy }
  const options = verdictsTeamOf(names, { communication: { responseTimeoutMs: 30_500 } })
  const { outcomes, failures } = await rehearse(options, { ...twoSeeds, modules })
  t.match(outcomes, { livelock: 2 })
  t.match(failures, [{ error: { code: 'LIVELOCK', details: { evidence: [sign] } } }, {}])
  const failing = defineAgent({
    async receive(_message, context) {
      await askOften(context, 40)
      throw new Error('gave up')
    },
  })
  const other = await rehearse(options, { ...twoSeeds, modules: { ann: failing, bob: busy } })
  t.match(other.outcomes, { livelock: 2 })
  const inTime = await rehearse(verdictsTeamOf(names), { ...twoSeeds, modules: { ann: failing, bob: busy } })
  t.match(inTime, { outcomes: { failed: 2 }, failures: [{ error: { message: /gave up/ } }, {}] })
})

t.test('what is no supervision is refused as in life', async (t) => {
  const wrong: Partial<MultiAgentPatternOptions> = JSON.parse('{ "supervision": 5 }')
  const rehearsal = rehearse(verdictsTeamOf(names, wrong), { ...twoSeeds, modules: { ann: busy, bob: busy } })
  await t.rejects(rehearsal, { code: 'CONFIGURATION', message: /^supervision: / })
})

/** Nobody settles what it waits for, whatever its signal says. */
const lost = defineAgent({ receive: () => never })
const forwards = defineAgent({
  receive: async ({ content }, context) => (await context.request('bob', content)).content,
})
const asked = /^"ann" \(message .+\) waits for the answer of "bob"$/
const waits = /^"bob" \(message .+\) waits for what nobody in the team brings$/

t.test('a wake-up that code has lost is a stall, which names who waits', async (t) => {
  const { outcomes, failures } = await rehearse(verdictsTeamOf(names), {
    ...twoSeeds,
    modules: { ann: forwards, bob: lost },
  })
  t.match(outcomes, { stall: 2 })
  const [{ error }] = failures as [(typeof failures)[0]]
  t.match(error, { code: 'STALL', message: /deadline ended the run \(REQUEST_TIMEOUT\).*promise/ })
  const { evidence } = error.details as { evidence: string[] }
  t.equal(evidence.length, 3)
  t.ok(evidence.some((each) => asked.test(each)) && evidence.some((each) => waits.test(each)), String(evidence))
})

t.test('so is one of a script, of several agents at once, and of a turn that has its own time limit', async (t) => {
  const hanging: MultiAgentPatternOptions = {
    ...verdictsTeamOf(names),
    orchestration: { strategy: 'custom', run: () => never },
  }
  const parallel: MultiAgentPatternOptions = { ...verdictsTeamOf(names), orchestration: { strategy: 'parallel' } }
  const limited = verdictsTeamOf(names, { supervision: { poisonAttempts: 1 } })
  limited.agents[0]!.limits = { turnTimeoutMs: 1_000 }
  const modules = { ann: lost, bob: lost }
  for (const [options, message] of [
    [hanging, /RUN_TIMEOUT.*"\$orchestrator"/],
    [parallel, /"ann".*"bob"/],
    [limited, /TIMEOUT.*"ann"/],
  ] as const) {
    const { outcomes, failures } = await rehearse(options, { ...twoSeeds, modules })
    t.match(outcomes, { stall: 2 }, String(message))
    t.match(failures, [{ error: { code: 'STALL', message } }, {}])
  }
})

t.test('the limits of other waits are nothing that could come', async (t) => {
  const reads = defineAgent({ receive: async (_message, context) => String(await context.blackboard.waitFor('word')) })
  const shared: MultiAgentPatternOptions = { ...verdictsTeamOf(names), orchestration: { strategy: 'parallel' } }
  t.match(await rehearse(shared, { ...twoSeeds, modules: { ann: reads, bob: lost } }), { outcomes: { stall: 2 } })
  const delegates = defineAgent({
    receive: async (_message, context) =>
      String(await context.delegate('bob', { description: 'dig', deadline: context.now() + 5_000 })),
  })
  const { outcomes, failures } = await rehearse(verdictsTeamOf(names), {
    ...twoSeeds,
    modules: { ann: delegates, bob: lost },
  })
  t.match(outcomes, { stall: 2 })
  t.match(failures, [{ error: { message: /waits for "bob" to do its task/ } }, {}])
  const asksBoth = defineAgent({
    async receive(_message, context) {
      await context.request('bob', 'there?', { timeoutMs: 500 }).catch(() => {})
      return (await context.request('eve', 'there?')).content
    },
  })
  const patient = verdictsTeamOf([...names, 'eve'], { supervision: { stopGraceMs: 100_000 } })
  const graced = await rehearse(patient, { ...twoSeeds, modules: { ann: asksBoth, bob: lost, eve: lost } })
  t.match(graced.outcomes, { stall: 2 })
})

t.test('a run with something left to come is late, and no stall', async (t) => {
  const slow = defineAgent({ receive: (_message, context) => context.sleep(90_000) })
  const ticking = defineAgent({
    async receive(_message, context) {
      for (;;) await context.sleep(30_000)
    },
  })
  for (const bob of [slow, ticking]) {
    const { outcomes, failures } = await rehearse(verdictsTeamOf(names), {
      ...twoSeeds,
      modules: { ann: forwards, bob },
    })
    t.match(outcomes, { failed: 2 })
    t.match(failures, [{ error: { code: 'REQUEST_TIMEOUT' } }, {}])
  }
})

t.test('a deadline that a team reckons with is no stall: it goes on, or fails of something else', async (t) => {
  const doesWithout = (then: (context: AgentContext) => unknown) =>
    defineAgent({
      async receive(_message, context) {
        await context.request('bob', 'there?', { timeoutMs: 500 }).catch(() => {})
        return String(await then(context))
      },
    })
  const play = (ann: typeof busy) => rehearse(verdictsTeamOf(names), { ...twoSeeds, modules: { ann, bob: lost } })
  t.match(await play(doesWithout(() => 'without bob')), { outcomes: { done: 2 }, failures: [] })
  const fails = doesWithout(() => {
    throw new Error('not without bob')
  })
  t.match(await play(fails), { outcomes: { failed: 2 }, failures: [{ error: { code: 'AGENT_FAILED' } }, {}] })
  const later = doesWithout(async (context) => {
    await context.sleep(58_000)
    await context.sleep(90_000)
  })
  t.match(await play(later), { outcomes: { failed: 2 }, failures: [{ error: { code: 'REQUEST_TIMEOUT' } }, {}] })
})

t.test('a turn that a fault lets hang is no stall of the team', async (t) => {
  const modules = { ann: forwards, bob: busy }
  const { outcomes } = await rehearse(verdictsTeamOf(names), { query: 'go', seeds: 25, faults: ['hang'], modules })
  t.equal(outcomes.stall, 0)
  t.ok(outcomes.failed > 0)
})
