/** Models that give each other the same again and again: the third sign of one cause ends the run, whatever it is. */

import type { Test } from 'tap'
import t from 'tap'
import { type AgentDefinition, defineAgent, type MultiAgentPatternOptions, type RuntimeEvent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { type Answers, calls, FakeModel } from '../models/fake-model.ts'
import { silent } from '../supervision/teams.ts'

/** What ends a run that nothing else ends. */
const MANY_CALLS = 2_000

const ring = ['ann', 'bob', 'cleo'] as const
const inputs = {
  delegate: (to: string, words: string) => ({ to, task: words }),
  handoff: (to: string, words: string) => ({ to, task: words }),
  request: (to: string, words: string) => ({ to, content: words }),
}
type Verb = keyof typeof inputs

/** The first so many of the ring give each other something for ever. */
const passing =
  (verb: Verb, size: number, words: (nth: number) => string = () => 'Do it.'): Answers =>
  ({ agent }, nth) => {
    if (nth > MANY_CALLS) throw new Error('nobody has ended it')
    const to = ring[(ring.indexOf(agent as 'ann') + 1) % size]!
    return calls([verb, inputs[verb](to, words(nth))])
  }

async function played(
  t: Test,
  answers: Answers,
  options: Partial<MultiAgentPatternOptions> = {},
  modules: Record<string, AgentDefinition> = {},
) {
  const model = new FakeModel(answers)
  const agents = ring.map((name) => ({ name, canDelegateTo: ring.filter((other) => other !== name) }))
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const team = testTeam({ agents, orchestration, logger: silent, ...options }, { model, modules })
  t.teardown(() => team.close())
  const found: Extract<RuntimeEvent, { type: 'livelock' }>[] = []
  team.events.subscribe((event) => {
    if (event.type === 'livelock') found.push(event)
  })
  const running = team.execute('go', { timeoutMs: 30_000 })
  await team.clock.runToIdle()
  return { result: await running, found, calls: model.requests.length }
}

for (const verb of ['delegate', 'handoff', 'request'] as const)
  for (const size of [2, 3])
    t.test(`${size} models that ${verb} to and fro are ended`, async (t) => {
      const { result, found, calls } = await played(t, passing(verb, size))
      // Three that hand off come to the depth of delegations first: then the last one refuses.
      const code = verb === 'handoff' && size === 3 ? 'TASK_REFUSED' : 'LIVELOCK'
      t.equal(result.error?.code, code)
      if (code === 'LIVELOCK') t.match(found.at(-1)?.evidence, { length: 3 }, 'by the third sign')
      t.ok(calls < 500, `${calls} calls`)
      t.ok(found.length < 50, `${found.length} signs`)
    })

t.test("with onFound: 'report' they are told twice for each cause, and go on", async (t) => {
  const livelock = { onFound: 'report' as const }
  const { result, found } = await played(t, passing('handoff', 2), { supervision: { livelock } })
  t.not(result.error?.code, 'LIVELOCK')
  t.ok(found.length > 0 && found.every(({ evidence }) => evidence.length <= 2))
})

t.test('with livelock: false nobody is told', async (t) => {
  const { result, found } = await played(t, passing('handoff', 2), { supervision: { livelock: false } })
  t.not(result.error?.code, 'LIVELOCK')
  t.same(found, [])
})

/** Hands each task to ann, so often. */
const handsBack = (times: number) => {
  let left = times
  return defineAgent({
    async receive(message, context) {
      if (left-- > 0) await context.handoff('ann', message.content)
      else return 'enough'
    },
  })
}

t.test('where code takes part they are told only, and ended where the team says so', async (t) => {
  const modules = () => ({ bob: handsBack(3) })
  const answers = passing('handoff', 2)
  const told = await played(t, answers, { supervision: { livelock: {} } }, modules())
  t.equal(told.result.finalOutput, 'enough')
  t.same(
    told.found.map(({ evidence }) => evidence.length),
    [1, 2],
  )
  const ended = await played(t, answers, { supervision: { livelock: { onFound: 'end' } } }, modules())
  t.equal(ended.result.error?.code, 'LIVELOCK')
  const byDefault = await played(t, answers, {}, modules())
  t.same([byDefault.result.finalOutput, byDefault.found.length], ['enough', 2])
  const unwatched = await played(t, answers, { supervision: { livelock: false } }, modules())
  t.same([unwatched.result.finalOutput, unwatched.found], ['enough', []])
})

t.test('a draft that goes to and fro and gets better is no livelock, however often', async (t) => {
  let version = 0
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'bob') return `Remark ${version}`
    const isOver = version >= 40
    version += 1
    return isOver ? 'good' : calls(['request', { to: 'bob', content: `Draft ${messages.length}` }])
  }
  const agents = [{ name: 'ann', canDelegateTo: ['bob'], maxRounds: 100 }, { name: 'bob' }]
  const { result, found } = await played(t, answers, { agents })
  t.same([result.finalOutput, found], ['good', []])
})
