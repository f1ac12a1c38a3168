/** Roles without code under supervision: nested turns, detectors, rehearsals, agents that come later. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { type AgentContext, AgentCrashedError, defineAgent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { rehearse } from '../../src/testing.ts'
import { where } from '../kit/lists.ts'
import { OpenTeam, silent, statusesOf } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const asksAnn: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann'] }

const social = [
  { name: 'ann', delegationAllowed: true },
  { name: 'bob', delegationAllowed: true },
]

/** What the agent's own turns have said so far, of its last question on. */
const steps = (messages: readonly ModelMessage[]) => {
  const question = messages.findLastIndex(({ role }) => role === 'user')
  return { question: textOf(messages[question]?.content ?? ''), after: messages.length - question - 1 }
}

t.test('a request that comes back runs within the turn that waits, and both are remembered', async (t) => {
  const answers: Answers = ({ agent, messages }) => {
    const { question, after } = steps(messages)
    if (agent === 'bob') return after > 0 ? 'bob: 7' : calls(['request', { to: 'ann', content: 'which?' }])
    if (question.includes('which?')) return 'ann: the red one'
    return after > 0 ? 'done' : calls(['request', { to: 'bob', content: 'how many?' }])
  }
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script) {
      await script.request('ann', 'go')
      return (await script.request('ann', 'more')).content
    },
  }
  const { team, model } = modelTeam(t, answers, social, { orchestration })
  t.equal((await team.execute('go')).finalOutput, 'done')
  const last = model.requests.findLast(({ agent }) => agent === 'ann')!.messages
  t.same(
    last.flatMap(({ role, content }) => (role === 'user' ? [content] : [])),
    ['Request from "bob":\nwhich?', 'go', 'more'],
  )
})

t.test('a turn that is tried again sees nothing that was said within it: no call is made twice', async (t) => {
  const answers: Answers = ({ agent, messages }) => {
    const { question, after } = steps(messages)
    if (agent === 'bob') return after > 0 ? 'bob: 7' : calls(['request', { to: 'ann', content: 'which?' }])
    if (question.includes('which?')) return 'ann: the red one'
    return after > 0 ? 'done' : calls(['request', { to: 'bob', content: 'how many?' }])
  }
  const model = new FakeModel(answers)
  const team = new OpenTeam(
    { agents: social, orchestration: asksAnn, models: { default: model }, logger: silent },
    new Map(),
    1,
  )
  t.teardown(() => team.close())
  let killed = false
  team.events.subscribe((event) => {
    // The nested turn has committed, and the one that it ran within waits for bob.
    if (killed || event.type !== 'message' || event.message.content !== 'ann: the red one') return
    killed = true
    team.crash('ann')
  })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.ok(killed)
  t.equal(model.requests.length, 5)
  t.same(where(result.orchestrationTrace.events, 'eventType', 'step.mismatch'), [])
})

t.test('rule 26: of a cycle the turn gives way that has spent fewest tokens', async (t) => {
  const spends = (totalTokens: number) => [
    { text: 'ok' },
    { usage: { inputTokens: 0, outputTokens: 0, totalTokens, calls: 1 } },
  ]
  const victimOf = async (ann: number, bob: number) => {
    const model = new FakeModel(({ agent }) => spends(agent === 'ann' ? ann : bob))
    const asks = (other: string) => ({
      async receive(_: unknown, context: AgentContext) {
        await context.complete({ prompt: 'think first' })
        return (await context.request(other, 'and you?')).content
      },
    })
    const definitions = new Map([
      ['ann', defineAgent(asks('bob'))],
      ['bob', defineAgent(asks('ann'))],
    ])
    const agents = [{ name: 'ann' }, { name: 'bob' }]
    const orchestration = { strategy: 'parallel' } as const
    const team = new OpenTeam({ agents, orchestration, models: { default: model }, logger: silent }, definitions, 1)
    const victims: string[] = []
    team.events.subscribe((event) => {
      if (event.type === 'deadlock' && event.victim !== null) victims.push(event.victim)
    })
    await team.execute('go')
    await team.close()
    return victims[0]
  }
  t.equal(await victimOf(10, 1_000), 'ann')
  t.equal(await victimOf(1_000, 10), 'bob')
})

t.test(
  'rule 28: a model that asks another one the same again and again is found, unless the team says otherwise',
  async (t) => {
    const answers: Answers = ({ agent }) =>
      agent === 'ann' ? calls(['request', { to: 'bob', content: 'Ready?' }]) : 'No.'
    const play = async (livelock?: false) => {
      const agents = [{ ...social[0]!, maxRounds: 70 }, { name: 'bob' }]
      const { team, model } = modelTeam(t, answers, agents, { orchestration: asksAnn, supervision: { livelock } })
      return { error: (await team.execute('go')).error, model }
    }
    t.match((await play()).error, { code: 'LIVELOCK' })
    t.match((await play(false)).error, { code: 'TASK_REFUSED', message: /after 70 rounds/ })
  },
)

t.test('a model role that comes later is watched too', async (t) => {
  const answers: Answers = ({ agent, messages }) =>
    agent === 'bob' ? 'No.' : messages.length > 300 ? 'enough' : calls(['request', { to: 'bob', content: 'Ready?' }])
  const model = new FakeModel(answers)
  const idle = defineAgent({ receive: () => 'idle' })
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script, query) => (await script.request('ann', query)).content,
  }
  const team = new OpenTeam(
    { agents: [{ name: 'idle' }], orchestration, models: { default: model }, logger: silent },
    new Map([['idle', idle]]),
    1,
  )
  t.teardown(() => team.close())
  await team.addAgent({ name: 'bob' })
  await team.addAgent({ name: 'ann', delegationAllowed: true, maxRounds: 90 })
  t.match((await team.execute('go')).error, { code: 'LIVELOCK' })
  await t.rejects(team.addAgent({ name: 'cid', model: 'huge' }), {
    code: 'CONFIGURATION',
    details: { path: 'role.model' },
  })
})

t.test('a rehearsal plays roles without code, with faults', async (t) => {
  const answers: Answers = async ({ agent, messages, clock }) => {
    await clock?.sleep(500)
    if (agent === 'bob') return 'yes'
    return steps(messages).after > 0 ? 'done' : calls(['request', { to: 'bob', content: 'ok?' }])
  }
  const options = () => ({
    agents: [social[0]!, { name: 'bob' }],
    orchestration: asksAnn,
    models: { default: new FakeModel(answers) },
  })
  const { failures, outcomes } = await rehearse(options, { query: 'go', seeds: 30, faults: ['crash', 'delay'] })
  t.same(failures, [])
  t.equal(outcomes.done, 30)
})

t.test('an agent whose model is thinking is running, for whoever looks and whoever listens', async (t) => {
  const answers: Answers = async ({ clock }) => {
    await clock?.sleep(100)
    return 'ok'
  }
  const { team } = modelTeam(t, answers, [{ name: 'ann' }])
  const said = statusesOf(team, 'ann')
  await team.start()
  const pending = team.execute('go')
  await team.clock.advance(50)
  t.equal(team.getAgentStatus('ann'), 'running')
  t.equal(said.at(-1), 'running')
  await team.clock.advance(50)
  await pending
  t.equal(team.getAgentStatus('ann'), 'idle')
})

t.test('a turn that fails leaves nothing in the conversation', async (t) => {
  const answers: Answers = (_, nth) => (nth === 0 ? [new AgentCrashedError('down')] : 'ok')
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script) {
      await script.request('ann', 'one').catch(() => {})
      return (await script.request('ann', 'two')).content
    },
  }
  const { team, model } = modelTeam(t, answers, [{ name: 'ann' }], { orchestration })
  t.equal((await team.execute('go')).finalOutput, 'ok')
  t.same(
    model.requests[1]?.messages.map(({ role }) => role),
    ['system', 'user'],
  )
})
