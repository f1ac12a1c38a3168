/** What an agent does, as events: each change once, and the same that health says. */
import t from 'tap'
import { type AgentStatus, defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { given, type Receive } from '../kit/team.ts'
import { after, all, echo, stage } from './stage.ts'

type Watched = { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }

/** The statuses of an agent from now on, in order. */
function statuses(team: Watched, agent: string): AgentStatus[] {
  const seen: AgentStatus[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === agent) seen.push(event.status)
  })
  return seen
}

const asks = defineAgent({
  async receive(_message, context) {
    await context.sleep(10)
    const { content } = await context.request('b', 'hi')
    await context.sleep(10)
    return content
  },
})

t.test('an agent starts, works, waits for others, works on and is idle again', async (t) => {
  const team = stage(t, { a: asks, b: after(10) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const a = statuses(team, 'a')
  const b = statuses(team, 'b')
  const run = team.launch('go')
  await team.clock.advance(100)
  t.same(a, ['starting', 'idle', 'running', 'waiting', 'running', 'idle'])
  t.same(b, ['starting', 'idle', 'running', 'idle'])
  await run.result
  await team.close()
  t.equal(a.at(-1), 'stopped')
})

t.test('health says the same at every moment', async (t) => {
  const team = stage(t, { a: asks, b: after(10) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const a = statuses(team, 'a')
  const b = statuses(team, 'b')
  const run = team.launch('go')
  const said = new Set<AgentStatus>()
  for (let ms = 0; ms < 40; ms++) {
    await team.clock.advance(1)
    const { agents } = team.health()
    t.same([agents.a?.status, agents.b?.status], [a.at(-1), b.at(-1)])
    said.add(agents.a!.status)
  }
  t.same([...said], ['running', 'waiting', 'idle'])
  await run.result
})

t.test('a wait for the host is one too', async (t) => {
  const a = defineAgent({ receive: async (_message, context) => void (await context.blackboard.waitFor('key')) })
  const team = stage(t, { a })
  const seen = statuses(team, 'a')
  const run = team.launch('go')
  await team.clock.advance(1)
  t.equal(seen.at(-1), 'waiting')
  t.equal(team.getAgentStatus('a'), 'waiting')
  await run.blackboard?.write('key', 1, 'fact')
  await run.result
  t.same(seen.slice(-2), ['running', 'idle'])
})

const reader = (chunkMs: number) =>
  defineAgent({
    async receive(_message, context) {
      for await (const _chunk of context.requestStream('b', 'write')) await context.sleep(chunkMs)
    },
  })

/** Waits for its reader three times. */
const writer = defineAgent({
  async receive(_message, context) {
    await context.sleep(1)
    for (let i = 0; i < 200; i++) {
      context.emit(`${i}`)
      if (i % 50 === 0) await Promise.all([context.step('a', () => i), context.step('b', () => i)])
    }
    await context.sleep(5)
  },
})

t.test('a wait for the reader of a stream is one too, and health says the same', async (t) => {
  const agents = { a: reader(1), b: writer }
  const team = stage(t, agents, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const b = statuses(team, 'b')
  const run = team.launch('go')
  for (let ms = 0; ms < 400; ms++) {
    await team.clock.advance(1)
    t.equal(team.health().agents.b?.status, b.at(-1), `at ${ms}`)
  }
  await run.result
  const waited = ['running', 'waiting']
  t.same(b, ['starting', 'idle', ...waited, ...waited, ...waited, 'running', 'idle'])
})

t.test('who waits for its reader is running again when its turn begins anew', async (t) => {
  const agents = { a: reader(1_000_000), b: writer }
  const team = stage(t, agents, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const b = statuses(team, 'b')
  const run = team.launch('go')
  await team.clock.advance(10)
  t.same([team.health().agents.b?.status, b.at(-1)], ['waiting', 'waiting'])
  team.crash('b')
  await team.clock.advance(0)
  t.same(b.slice(-2), ['running', 'waiting'], 'its sleep is over, so it soon waits again')
  await run.cancel()
})

t.test('an agent that crashes restarts, and one that crashes too often has failed', async (t) => {
  const team = stage(t, { a: after(50) }, { supervision: { maxRestarts: 1 } })
  const seen = statuses(team, 'a')
  const epochs: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.status === 'running') epochs.push(event.epoch)
  })
  const run = team.launch('go')
  await team.clock.advance(1)
  team.crash('a')
  await team.clock.advance(1)
  t.same(seen, ['starting', 'idle', 'running', 'restarting', 'idle', 'running'])
  t.same(epochs, [1, 2])
  team.crash('a')
  await team.clock.advance(1)
  t.equal(seen.at(-1), 'failed')
  t.equal(team.health().agents.a?.status, 'failed')
  await run.result
})

t.test('who asked before it died waits again in its next life, for the same answer', async (t) => {
  const team = stage(t, { a: asks, b: after(50) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const seen = statuses(team, 'a')
  const run = team.launch('go')
  await team.clock.advance(20)
  team.crash('a')
  await team.clock.advance(20)
  t.equal(seen.at(-1), 'waiting')
  t.equal(team.getAgentStatus('a'), 'waiting')
  await team.clock.advance(100)
  t.equal(seen.at(-1), 'idle')
  await run.result
})

t.test("a run's events have them too, from wherever its reader begins", async (t) => {
  const team = stage(t, { a: asks, b: echo }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('go')
  await team.clock.advance(100)
  await run.result
  const events = await all(run.events())
  t.same(
    events.flatMap((event) => (event.type === 'agent.status' && event.agent === 'a' ? [event.status] : [])),
    ['starting', 'idle', 'running', 'waiting', 'running', 'idle'],
  )
  for (const [at, { seq }] of events.entries()) t.same(await all(run.events({ after: seq })), events.slice(at + 1))
})

t.test('agents of one name in two runs have each their own, and so has one that comes after them', async (t) => {
  const boss: Receive = async ({ content }, context) => {
    const [name, ms] = content.split(' ')
    await context.sleep(Number(ms))
    return (await context.request(await context.spawn({ name: name! }), 'hi')).content
  }
  const helper: Receive = async (_message, context) => void (await context.sleep(30))
  const privileged = { trust: 'privileged' } as const
  const team = given(t, {
    roles: { one: privileged, two: privileged },
    later: { helper, late: helper },
    script: async (script, query) => (await script.request(query.split(': ')[0]!, query.split(': ')[1]!)).content,
  }).team({ one: boss, two: boss })
  const seen: Record<string, string[]> = {}
  team.events.subscribe((event) => {
    if (event.type !== 'agent.status' || !['helper', 'late'].includes(event.agent)) return
    seen[event.runId] ??= []
    seen[event.runId]!.push(`${event.agent} ${event.status} ${event.epoch}`)
  })
  const life = (name: string) =>
    ['starting 0', 'idle 1', 'running 1', 'idle 1', 'stopped 1'].map((status) => `${name} ${status}`)
  const runs = [team.launch('one: helper 0'), team.launch('two: helper 10')]
  await team.clock.advance(100)
  const next = team.launch('one: late 0')
  await team.clock.advance(100)
  for (const { id } of runs) t.same(seen[id], life('helper'))
  t.same(seen[next.id], life('late'))
})

t.test('turns that begin and end at once are told all the same', async (t) => {
  const team = stage(t, { a: echo })
  await team.start()
  const seen = statuses(team, 'a')
  for (let i = 0; i < 3; i++) await team.sendMessage({ recipient: 'a', content: 'hi', requiresResponse: true })
  t.same(seen, ['running', 'idle', 'running', 'idle', 'running', 'idle'])
})

t.test('a turn costs no record for it: what is not watched is not told', async (t) => {
  const team = stage(t, { a: echo })
  const { orchestrationTrace } = await team.execute('go')
  const told = orchestrationTrace.events.filter(({ eventType }) => eventType === 'agent.status')
  t.same(
    pluck(told, 'details'),
    [
      { agent: '$orchestrator', status: 'starting', epoch: 0 },
      { agent: 'a', status: 'starting', epoch: 0 },
    ],
    'of the script and of a',
  )
})
