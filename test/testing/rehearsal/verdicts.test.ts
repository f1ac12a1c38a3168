/** What a rehearsal calls a run that is not done: by what kept it from its end. */
import t from 'tap'
import { type AgentContext, defineAgent, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { rehearse } from '../../../src/testing.ts'

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
    t.match(failures, [{ error: { code: 'LIVELOCK', details: { evidence: [sign, sign, sign] } } }, {}])
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
  const modules = { ann: asks(6), bob: busy }
  t.match(await rehearse(teamOf(names), { ...twoSeeds, modules }), { outcomes: { done: 2 }, failures: [] })
})

t.test('a run whose time is over after a sign of a livelock is one', async (t) => {
  const modules = { ann: asks(100), bob: busy }
  const options = teamOf(names, { communication: { responseTimeoutMs: 5_500 } })
  const { outcomes, failures } = await rehearse(options, { ...twoSeeds, modules })
  t.match(outcomes, { livelock: 2 })
  t.match(failures, [{ error: { code: 'LIVELOCK', details: { evidence: [sign] } } }, {}])
  const failing = defineAgent({
    async receive(_message, context) {
      await askOften(context, 6)
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
