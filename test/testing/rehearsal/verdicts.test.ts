/** What a rehearsal calls a run that is not done: by what kept it from its end. */
import t from 'tap'
import { type AgentContext, defineAgent, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { rehearse } from '../../../src/testing.ts'
import { never } from '../../kit/team.ts'

/** A run asks the first agent. */
const teamOf = (names: string[], more: Partial<MultiAgentPatternOptions> = {}): MultiAgentPatternOptions => ({
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
    const options = teamOf(names, supervision && { supervision })
    const { outcomes, failures } = await rehearse(options, { ...twoSeeds, modules })
    t.match(outcomes, { livelock: 2 })
    t.match(failures, [{ error: { code: 'LIVELOCK', details: { evidence: [sign, sign] } } }, {}])
  }
})

t.test('a team that says otherwise is not watched, or by its own bounds', async (t) => {
  const modules = { ann: asks(100), bob: busy }
  const off = teamOf(names, { supervision: { livelock: false }, communication: { responseTimeoutMs: 1_000_000 } })
  t.match(await rehearse(off, { ...twoSeeds, modules }), { outcomes: { done: 2 } })
  const patient = { livelock: { maxRepeats: 200, maxMessagesWithoutProgress: 1_000 } }
  const own = { ...off, supervision: patient }
  t.match(await rehearse(own, { ...twoSeeds, modules }), { outcomes: { done: 2 } })
  const late = await rehearse(teamOf(names, { supervision: { livelock: false } }), { ...twoSeeds, modules })
  t.match(late.outcomes, { failed: 2 })
})

t.test('a sign of a livelock is none in a run that comes to its end', async (t) => {
  const modules = { ann: asks(30), bob: busy }
  t.match(await rehearse(teamOf(names), { ...twoSeeds, modules }), { outcomes: { done: 2 }, failures: [] })
})

t.test('a run whose time is over after a sign of a livelock is one', async (t) => {
  const modules = { ann: asks(100), bob: busy }
  const options = teamOf(names, { communication: { responseTimeoutMs: 30_500 } })
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
  const inTime = await rehearse(teamOf(names), { ...twoSeeds, modules: { ann: failing, bob: busy } })
  t.match(inTime, { outcomes: { failed: 2 }, failures: [{ error: { message: /gave up/ } }, {}] })
})

t.test('what is no supervision is refused as in life', async (t) => {
  const wrong: Partial<MultiAgentPatternOptions> = JSON.parse('{ "supervision": 5 }')
  const rehearsal = rehearse(teamOf(names, wrong), { ...twoSeeds, modules: { ann: busy, bob: busy } })
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
  const { outcomes, failures } = await rehearse(teamOf(names), { ...twoSeeds, modules: { ann: forwards, bob: lost } })
  t.match(outcomes, { stall: 2 })
  const [{ error }] = failures as [(typeof failures)[0]]
  t.match(error, { code: 'STALL', message: /deadline ended the run \(REQUEST_TIMEOUT\).*promise/ })
  const { evidence } = error.details as { evidence: string[] }
  t.equal(evidence.length, 3)
  t.ok(evidence.some((each) => asked.test(each)) && evidence.some((each) => waits.test(each)), String(evidence))
})

t.test('so is one of a script, of several agents at once, and of a turn that has its own time limit', async (t) => {
  const hanging: MultiAgentPatternOptions = {
    ...teamOf(names),
    orchestration: { strategy: 'custom', run: () => never },
  }
  const parallel: MultiAgentPatternOptions = { ...teamOf(names), orchestration: { strategy: 'parallel' } }
  const limited = teamOf(names, { supervision: { poisonAttempts: 1 } })
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
  const shared: MultiAgentPatternOptions = { ...teamOf(names), orchestration: { strategy: 'parallel' } }
  t.match(await rehearse(shared, { ...twoSeeds, modules: { ann: reads, bob: lost } }), { outcomes: { stall: 2 } })
  const delegates = defineAgent({
    receive: async (_message, context) =>
      String(await context.delegate('bob', { description: 'dig', deadline: context.now() + 5_000 })),
  })
  const { outcomes, failures } = await rehearse(teamOf(names), { ...twoSeeds, modules: { ann: delegates, bob: lost } })
  t.match(outcomes, { stall: 2 })
  t.match(failures, [{ error: { message: /waits for "bob" to do its task/ } }, {}])
  const asksBoth = defineAgent({
    async receive(_message, context) {
      await context.request('bob', 'there?', { timeoutMs: 500 }).catch(() => {})
      return (await context.request('eve', 'there?')).content
    },
  })
  const patient = teamOf([...names, 'eve'], { supervision: { stopGraceMs: 100_000 } })
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
    const { outcomes, failures } = await rehearse(teamOf(names), { ...twoSeeds, modules: { ann: forwards, bob } })
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
  const play = (ann: typeof busy) => rehearse(teamOf(names), { ...twoSeeds, modules: { ann, bob: lost } })
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
  const { outcomes } = await rehearse(teamOf(names), { query: 'go', seeds: 25, faults: ['hang'], modules })
  t.equal(outcomes.stall, 0)
  t.ok(outcomes.failed > 0)
})
