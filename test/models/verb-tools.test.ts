/** Verbs as tools of a model, and teams of models under supervision. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import {
  type AgentContext,
  AgentCrashedError,
  type AgentDefinition,
  type AgentRole,
  defineAgent,
  type OrchestratorContext,
} from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { rehearse, testTeam } from '../../src/testing.ts'
import { where } from '../kit/lists.ts'
import { OpenTeam, silent, statusesOf } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

// Verbs of an agent as tools of its model: what the model calls happens, and it is told what came of it.

type Options = Partial<MultiAgentPatternOptions>

/** A team of models that answer one after the other, each by its list, and of code by its name. */
function teamOf(
  t: Test,
  said: Record<string, readonly Answer[]>,
  roles: Record<string, Partial<AgentRole>>,
  options: Options & { modules?: Record<string, AgentDefinition> } = {},
) {
  const { modules = {}, ...others } = options
  const counts = new Map<string, number>()
  const model = new FakeModel(({ agent = '' }) => {
    const nth = counts.get(agent) ?? 0
    counts.set(agent, nth + 1)
    return said[agent]?.[nth] ?? new Error(`no answer ${nth + 1} of ${agent}`).message
  })
  const names = [...new Set([...Object.keys(roles), ...Object.keys(said), ...Object.keys(modules)])]
  const agents = names.map((name) => ({ name, ...roles[name] }))
  const team = testTeam(
    { agents, orchestration: { strategy: 'sequential' }, logger: silent, ...others },
    { model, modules },
  )
  t.teardown(() => team.close())
  const of = (agent: string) => model.requests.filter((request) => request.agent === agent)
  return { team, of }
}

const script = (run: (orchestrator: OrchestratorContext, query: string) => Promise<string>): Options => ({
  orchestration: { strategy: 'custom', run },
})

const toolsOf = (request: ModelRequest | undefined) => (request?.tools ?? []).map(({ name }) => name)
const lastResult = (request: ModelRequest | undefined) =>
  textOf(request?.messages.findLast(({ role }) => role === 'tool')?.content ?? '')
const prompt = (request: ModelRequest | undefined) =>
  (request?.messages ?? []).map(({ content }) => textOf(content)).join('\n')

const notes = defineAgent({
  initialRunState: { heard: [] as string[] },
  receive: (message, context) => {
    if (message.requiresResponse) return context.runState.heard.join(', ')
    context.setRunState(({ heard }) => void heard.push(`received ${message.content}`))
    return ''
  },
  observe: ({ sender, content }, context) =>
    context.setRunState(({ heard }) => void heard.push(`observed ${content} of ${sender}`)),
})

t.test('send and broadcast reach the other agents, and wait for no answer', async (t) => {
  const { team, of } = teamOf(
    t,
    { ann: [calls(['send', { to: 'bob', content: 'hi' }], ['broadcast', { content: 'all' }]), 'done'] },
    { ann: { tools: ['send', 'broadcast'] } },
    {
      modules: { bob: notes },
      ...script(async (orchestrator) => {
        await orchestrator.request('ann', 'go')
        return (await orchestrator.request('bob', 'what?')).content
      }),
    },
  )
  t.equal((await team.execute('go')).finalOutput, 'received hi, observed all of ann')
  t.same(toolsOf(of('ann')[0]), ['send', 'broadcast'])
  t.match(of('ann')[0]?.messages[0]?.content, /The other agents of your team, by name:\n- bob/)
})

t.test('sync brings what the others brought, and the error of a point that gives up', async (t) => {
  const meets = defineAgent({
    async receive(_message, context) {
      const { data } = await context.sync('plan', { from: 'bob' })
      return JSON.stringify(data)
    },
  })
  const syncPoints = [
    { name: 'plan', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000 },
    { name: 'late', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000, onTimeout: 'abort' as const },
    { name: 'early', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000 },
  ]
  const { team, of } = teamOf(
    t,
    {
      ann: [
        calls(['sync', { point: 'plan', data: 7 }]),
        calls(['sync', { point: 'late' }]),
        calls(['sync', { point: 'early', data: 1 }]),
        'done',
      ],
    },
    { ann: { tools: ['sync'] } },
    {
      modules: { bob: meets },
      syncPoints,
      ...script(async (orchestrator) => {
        const [, bob] = await orchestrator.requestAll(['ann', 'bob'], 'go')
        return bob?.ok ? bob.message.content : ''
      }),
    },
  )
  const pending = team.execute('go')
  await team.clock.advance(10_000)
  t.equal((await pending).finalOutput, '{"ann":7,"bob":{"from":"bob"}}')
  const [, second, third, fourth] = of('ann')
  t.match(JSON.parse(lastResult(second)), { arrived: ['ann', 'bob'], data: { ann: 7, bob: { from: 'bob' } } })
  t.match(lastResult(third), /^Error: .*"late"/)
  t.match(JSON.parse(lastResult(fourth)), { missing: ['bob'], timedOut: true, data: { ann: 1 } })
})

const writer = (key: string) =>
  defineAgent({
    async receive({ content }, context) {
      await context.publish(key, content, 'finding')
      return 'written'
    },
  })

t.test('a new entry stands in the next prompt of who subscribed: in the same turn, and in a later one', async (t) => {
  const { team, of } = teamOf(
    t,
    {
      ann: [
        calls(['subscribe', { pattern: 'finding.*' }]),
        calls(['request', { to: 'bob', content: 'rain' }]),
        calls(['publish', { key: 'finding.own', value: 1, entryType: 'finding' }]),
        'first',
        'second',
      ],
    },
    { ann: { tools: ['subscribe', 'request', 'publish'] } },
    {
      modules: { bob: writer('finding.1'), cid: writer('finding.2'), dan: writer('note') },
      ...script(async (orchestrator) => {
        await orchestrator.request('cid', 'old')
        await orchestrator.request('ann', 'go')
        await orchestrator.request('cid', 'wind')
        await orchestrator.request('dan', 'else')
        return (await orchestrator.request('ann', 'more')).content
      }),
    },
  )
  t.equal((await team.execute('go')).finalOutput, 'second')
  const seen = of('ann').map((request) => prompt(request).match(/"value": "(\w+)"/g) ?? [])
  const rain = '"value": "rain"'
  t.same(seen, [[], [], [rain], [rain], [rain, '"value": "wind"']])
  t.match(prompt(of('ann')[2]), 'New on the blackboard, from "bob":\nfinding.1')
})

t.test('an entry of a model has all that one of code has, and its history can be read', async (t) => {
  const entry = { key: 'finding.b', value: 2, entryType: 'finding' }
  const { team, of } = teamOf(
    t,
    {
      ann: [
        calls(['publish', { key: 'finding.a', value: 1, entryType: 'finding' }]),
        calls(['publish', { ...entry, confidence: 0.4, supersedes: 'finding.a', references: ['source'] }]),
        calls(['publish', { ...entry, value: 3, confidence: 2 }]),
        calls(['publish', { ...entry, value: 4 }]),
        calls(['blackboard_history', { key: 'finding.b' }]),
        'done',
      ],
    },
    { ann: { tools: ['publish', 'blackboard_history'] } },
  )
  t.same((await team.execute('go')).blackboardState, { 'finding.b': 4 })
  t.match(lastResult(of('ann')[3]), /^Error: .*confidence/)
  t.match(JSON.parse(lastResult(of('ann')[5])), [
    { value: 2, author: 'ann', confidence: 0.4, supersedes: 'finding.a', references: ['source'], version: 1 },
    { value: 4, confidence: 1, supersedes: null, references: [], version: 2 },
  ])
})

t.test('models read and write what agents share, each scope by its own rules', async (t) => {
  const mine = { scope: 'agent_shared', key: 'plan' }
  const { team, of } = teamOf(
    t,
    {
      ann: [
        calls(['write_shared', { ...mine, value: { steps: 3 } }]),
        calls(['write_shared', { scope: 'team_shared', key: 'goal', value: 'a bridge' }]),
        calls(['write_shared', { scope: 'persistent', key: 'lesson', value: 'measure first' }]),
        'first',
      ],
      bob: [
        calls(['read_shared', { ...mine, owner: 'ann' }], ['read_shared', { scope: 'team_shared', key: 'goal' }]),
        calls(['read_shared', { scope: 'persistent', key: 'lesson' }]),
        calls(['read_shared', mine], ['read_shared', { scope: 'elsewhere', key: 'goal' }]),
        'second',
      ],
      cid: [calls(['read_shared', { ...mine, owner: 'ann' }]), 'third'],
    },
    {
      ann: { tools: ['write_shared'], sharedWith: ['bob'] },
      bob: { tools: ['read_shared'] },
      cid: { tools: ['read_shared'] },
    },
    { orchestration: { strategy: 'sequential', earlyTermination: false } },
  )
  t.equal((await team.execute('go')).finalOutput, 'third')
  const results = (agent: string) =>
    (of(agent).at(-1)?.messages ?? []).flatMap(({ role, content }) => (role === 'tool' ? textOf(content) : []))
  t.match(results('bob'), ['{"steps":3}', 'a bridge', 'measure first', 'null', /^Error: .*agent_shared, team_shared/])
  t.match(results('cid'), [/^Error: .*sharedWith/])
})

t.test('finish is the end of the task: who comes after is not asked', async (t) => {
  const { team, of } = teamOf(t, { ann: ['for bob'], bob: [calls(['finish', { answer: 'the end' }])], cid: [] }, {})
  const result = await team.execute('go')
  t.match(result, { success: true, finalOutput: 'the end' })
  t.same(result.orchestrationTrace.decisions.at(-1), {
    ...result.orchestrationTrace.decisions.at(-1),
    question: 'Is the work done?',
    choice: 'yes',
  })
  t.same([of('bob').length, of('cid').length], [1, 0])
  t.same(toolsOf(of('ann')[0]), ['finish'])
})

t.test('the last of a pipeline has no finish, and without earlyTermination nobody', async (t) => {
  const { team, of } = teamOf(t, { ann: ['a'], bob: ['b'] }, {})
  t.equal((await team.execute('go')).finalOutput, 'b')
  t.same([toolsOf(of('ann')[0]), toolsOf(of('bob')[0])], [['finish'], []])
  const whole = teamOf(
    t,
    { ann: [calls(['finish', { answer: 'A' }])], bob: ['b'] },
    { ann: { tools: ['finish'] } },
    { orchestration: { strategy: 'sequential', earlyTermination: false } },
  )
  t.equal((await whole.team.execute('go')).finalOutput, 'b', 'it ends the turn alone')
  t.equal(prompt(whole.of('bob')[0]).includes('A'), true)
})

t.test('what finishes a run with a schema has to fit it, and is asked for once more', async (t) => {
  const { team, of } = teamOf(t, { ann: [calls(['finish', { answer: 'seven' }]), '{"n":7}'], bob: [] }, {})
  const result = await team.execute('go', { output: z.object({ n: z.number() }) })
  t.match(result, { success: true, data: { n: 7 } })
  t.equal(of('bob').length, 0)
})

t.test('a vote counts the answer of who finished, as any other', async (t) => {
  const said = { ann: [calls(['finish', { answer: 'A' }])], bob: ['B'], cid: [calls(['finish', { answer: 'B' }])] }
  const finishing = { tools: ['finish'] }
  const { team } = teamOf(
    t,
    said,
    { ann: finishing, cid: finishing },
    { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' } },
  )
  t.equal((await team.execute('go')).finalOutput, 'B')
})

t.test('with allowSkip a model refuses, and the next works on what was there before', async (t) => {
  const { team, of } = teamOf(
    t,
    { ann: ['for bob'], bob: [calls(['refuse', { reason: 'nothing for me' }])], cid: ['the end'] },
    {},
    { orchestration: { strategy: 'sequential', allowSkip: true, earlyTermination: false } },
  )
  const result = await team.execute('go')
  t.match(result, {
    success: true,
    finalOutput: 'the end',
    failures: [{ agent: 'bob', error: { code: 'TASK_REFUSED' } }],
  })
  t.same(toolsOf(of('cid')[0]), ['refuse'])
})

t.test('a delegated task can be refused by a role without a right to anything', async (t) => {
  const { team, of } = teamOf(
    t,
    { ann: [calls(['refuse', { reason: 'not mine' }])] },
    {},
    script(async (orchestrator) => {
      const error = await orchestrator.delegate('ann', 'dig').catch((refused: unknown) => refused)
      return String(Object(error).code)
    }),
  )
  t.equal((await team.execute('go')).finalOutput, 'TASK_REFUSED')
  t.same(toolsOf(of('ann')[0]), ['refuse'])
})

t.test('a script gives verbs with its question; another agent cannot', async (t) => {
  const asks = defineAgent({
    receive: async (_message, context) =>
      (await context.request('ann', 'again', { metadata: { verbs: ['publish'] } })).content,
  })
  const { team, of } = teamOf(
    t,
    { ann: ['one', 'two', 'three'] },
    { ann: {} },
    {
      modules: { bob: asks },
      ...script(async (orchestrator) => {
        await orchestrator.request('ann', 'go', { metadata: { verbs: ['publish', 'no such'] } })
        return (await orchestrator.request('bob', 'go')).content
      }),
    },
  )
  t.equal((await team.execute('go')).finalOutput, 'two')
  t.same(of('ann').map(toolsOf), [['publish'], []])
})

const BOARD = ['publish', 'read_blackboard', 'subscribe', 'blackboard_history']
const ALL = [
  ...['request', 'send', 'broadcast', 'delegate', 'handoff', 'report', 'refuse', 'finish'],
  ...[...BOARD, 'read_shared', 'write_shared', 'ask_user', 'agent_status'],
  ...['delegate_to_executor', 'get_executor_status'],
]

t.test("verbs: 'all' gives each verb that the role has the rights for", async (t) => {
  const offered = async (role: Partial<AgentRole>, options: Options = {}) => {
    const { team, of } = teamOf(t, { ann: ['done'], bob: ['done'] }, { ann: { verbs: 'all', ...role } }, options)
    await team.execute('go')
    return toolsOf(of('ann')[0]).sort()
  }
  const without = (...names: string[]) => ALL.filter((name) => !names.includes(name)).sort()
  t.same(await offered({}), without())
  t.same(await offered({ delegationAllowed: false }), without('delegate', 'delegate_to_executor', 'handoff'))
  t.same(await offered({ instances: 2 }), without('subscribe'))
  t.same(await offered({}, { enableBlackboard: false }), without(...BOARD))
  const more = { escalateTo: 'bob', trust: 'privileged' } as const
  const syncPoints = [{ name: 'plan', requiredAgents: ['ann'], timeoutMs: 1_000 }]
  t.same(await offered(more, { syncPoints }), [...ALL, 'escalate', 'spawn', 'sync'].sort())
  t.throws(() => teamOf(t, {}, { ann: { verbs: 'all', trust: 'untrusted' } }), {
    code: 'CONFIGURATION',
    details: { path: 'agents[0].verbs' },
  })
})

// Roles without code under supervision: nested turns, detectors, rehearsals, agents that come later.

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
