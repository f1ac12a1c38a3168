/** The loop of model and tools, and one call of a model. */
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { CompletionRequest, ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentContext, ToolTimeoutError } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { localTeam, silent } from '../kit/team.ts'
import { ledger, recordModule } from '../toolbox/desk.ts'
import { adder, doing, toolEvents } from '../toolbox/tools.ts'
import { type Answers, calls, FakeModel, USAGE } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

// The loop of model and tools, and the verbs that a model has as tools.

/** By the agent that asks: its answers, one after the other. */
const byAgent =
  (answers: Record<string, Exclude<Answers, (...given: never[]) => unknown>>): Answers =>
  ({ agent = '' }) => {
    const [next, ...rest] = answers[agent] ?? []
    answers[agent] = rest
    return next ?? 'nothing more'
  }

const lastOf = (request: ModelRequest | undefined): ModelMessage | undefined => request?.messages.at(-1)
const toolNames = (request: ModelRequest | undefined) => request?.tools?.map(({ name }) => name) ?? []

/** A model role that may turn to `bob`, another one. */
const pair = [
  { name: 'ann', systemPrompt: 'Ask bob.', canDelegateTo: ['bob'] },
  {
    name: 'bob',
    systemPrompt: 'Help.',
    description: 'a helper',
    capabilities: ['counting', { name: 'adding', description: 'of whole numbers' }],
  },
]
const asksAnn: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann'] }

t.test('a model asks another agent, and answers with what it was told', async (t) => {
  const answers = byAgent({
    ann: [calls(['request', { to: 'bob', content: 'How many?' }]), 'There are 3.'],
    bob: ['3'],
  })
  const { team, model } = modelTeam(t, answers, pair, { orchestration: asksAnn })
  const result = await team.execute('Count.')
  t.equal(result.finalOutput, 'There are 3.')
  const [first, second, third] = model.requests
  t.equal(
    first?.messages[0]?.content,
    'Ask bob.\n\nThe other agents of your team, by name:\n- bob: a helper; can do: counting, adding (of whole numbers)',
  )
  t.same(toolNames(first), ['request', 'delegate', 'handoff', 'refuse'])
  t.same(toolNames(second), [], 'bob has no rights that are spoken of, so he has no tools')
  t.equal(lastOf(second)?.content, 'Request from "ann":\nHow many?')
  t.match(third?.messages.slice(-2), [
    { role: 'assistant', toolCalls: [{ id: 'call-0', name: 'request' }] },
    { role: 'tool', toolCallId: 'call-0', content: '3' },
  ])
  t.match(result.totalTokenUsage, { calls: 3 })
})

t.test('several requests in one answer are asked at once', async (t) => {
  let open = 0
  let most = 0
  const answers: Answers = async ({ agent, clock, messages }) => {
    if (agent === 'ann')
      return messages.at(-1)?.role === 'tool'
        ? 'done'
        : calls(['request', { to: 'bob', content: '1' }], ['request', { to: 'cid', content: '2' }])
    most = Math.max(most, ++open)
    await clock?.sleep(1_000)
    open -= 1
    return 'ok'
  }
  const agents = [{ name: 'ann', delegationAllowed: true }, { name: 'bob' }, { name: 'cid' }]
  const { team } = modelTeam(t, answers, agents, { orchestration: asksAnn })
  const pending = team.execute('go')
  await team.clock.advance(1_000)
  t.equal((await pending).finalOutput, 'done')
  t.equal(most, 2)
})

t.test('what a verb fails with is told to the model, which goes on', async (t) => {
  const wrong: [name: string, input: object | string, told: RegExp][] = [
    ['request', { to: 'zoe', content: 'hi' }, /^Error: .*zoe/],
    ['delegate', { to: 'cid', task: 'hi' }, /^Error: .*may delegate to "bob" alone/],
    ['request', { to: 'bob' }, /^Error: The tool "request": "content" is missing/],
    ['request', 'not json', /^Error: The tool "request": the input is no JSON\./],
    ['request', '[]', /no JSON object/],
    ['request', { to: 'bob', content: 'x', loud: true }, /it has no "loud"/],
    ['request', { to: 'bob', content: 5 }, /"content" is no string/],
    ['search', { q: 'x' }, /^There is no tool "search"\. There are: request, delegate, handoff, refuse\.$/],
    ['spawn', { name: 'dan', systemPrompt: 'x' }, /^There is no tool "spawn"/],
  ]
  for (const [name, input, told] of wrong) {
    const answers = byAgent({ ann: [calls([name, input]), 'went on'] })
    const { team, model } = modelTeam(t, answers, [...pair, { name: 'cid' }], { orchestration: asksAnn })
    t.equal((await team.execute('go')).finalOutput, 'went on', name)
    t.match(lastOf(model.requests.at(-1)), { role: 'tool', content: told })
  }
})

t.test('a model that calls nothing but tools that do not exist is a ModelError', async (t) => {
  const { team, model } = modelTeam(t, () => calls(['serch', {}]), pair, { orchestration: asksAnn })
  t.match((await team.execute('go')).error, { message: /only tools that do not exist, 3 times in a row: serch/ })
  t.equal(model.requests.length, 3)
})

t.test('refuse ends the turn, and what comes after it in the answer is not done', async (t) => {
  const answers = byAgent({
    ann: [calls(['refuse', { reason: 'not mine' }], ['request', { to: 'bob', content: 'hi' }])],
  })
  const { team, model } = modelTeam(t, answers, pair, { orchestration: asksAnn })
  t.match((await team.execute('go')).error, { code: 'TASK_REFUSED', message: /not mine/ })
  t.equal(model.requests.length, 1)
})

t.test('what another agent refuses is told to the model', async (t) => {
  const answers = byAgent({
    ann: [calls(['delegate', { to: 'bob', task: 'dig' }]), 'then I dig'],
    bob: [calls(['refuse', { reason: 'I have no spade' }])],
  })
  const { team, model } = modelTeam(t, answers, [pair[0]!, { name: 'bob', tools: ['refuse'] }], {
    orchestration: asksAnn,
  })
  t.equal((await team.execute('go')).finalOutput, 'then I dig')
  t.match(lastOf(model.requests[2])?.content, /^Error: .*I have no spade/)
})

t.test('after a handoff the other one answers, and the model is not asked again', async (t) => {
  const answers = byAgent({
    ann: [calls(['handoff', { to: 'bob', task: 'dig on', summary: 'half is dug' }])],
    bob: ['all is dug'],
  })
  const { team, model } = modelTeam(t, answers, pair, { orchestration: asksAnn })
  t.equal((await team.execute('go')).finalOutput, 'all is dug')
  t.equal(model.requests.length, 2)
  t.equal(lastOf(model.requests[1])?.content, 'ann has handed this conversation to you: dig on. half is dug.')
})

t.test('the blackboard is a tool where the team says that it has one', async (t) => {
  const answers = byAgent({
    ann: [
      calls(['publish', { key: 'fact.one', value: { n: 1 }, entryType: 'fact' }]),
      calls(['read_blackboard', { entryType: 'fact' }]),
      'done',
    ],
  })
  const { team, model } = modelTeam(t, answers, [{ name: 'ann' }], { enableBlackboard: true })
  const result = await team.execute('go')
  t.same(result.blackboardState, { 'fact.one': { n: 1 } })
  t.equal(lastOf(model.requests[1])?.content, 'Written: "fact.one", version 1.')
  t.match(JSON.parse(textOf(lastOf(model.requests[2])!.content)), [{ key: 'fact.one', value: { n: 1 }, author: 'ann' }])
})

t.test('a privileged role makes agents, and asks them', async (t) => {
  const answers = byAgent({
    ann: [
      calls(['spawn', { name: 'dan', systemPrompt: 'You are new.' }]),
      calls(['request', { to: 'dan', content: 'who?' }]),
      'dan is new',
    ],
    dan: ['I am new'],
  })
  const agents = [{ name: 'ann', trust: 'privileged' as const, tools: ['request'] }]
  const { team, model } = modelTeam(t, answers, agents)
  t.equal((await team.execute('go')).finalOutput, 'dan is new')
  t.equal(model.requests[2]?.messages[0]?.content, 'You are new.')
})

t.test('a role names verbs as tools that its rights do not speak of', async (t) => {
  const answers = byAgent({ ann: [calls(['agent_status', {}]), 'seen'] })
  const agents = [{ name: 'ann', tools: ['agent_status'] }, { name: 'bob' }]
  const { team, model } = modelTeam(t, answers, agents, { orchestration: asksAnn })
  await team.execute('go')
  t.same(toolNames(model.requests[0]), ['agent_status'])
  t.same(JSON.parse(textOf(lastOf(model.requests[1])!.content)), [{ name: 'bob', status: 'idle' }])
})

t.test('agent_status says how the tasks of the others stand', async (t) => {
  const task = 'x'.repeat(300)
  const answers = byAgent({
    ann: [calls(['delegate', { to: 'bob', task }]), calls(['agent_status', {}]), 'seen'],
    bob: ['done'],
  })
  const agents = [{ name: 'ann', canDelegateTo: ['bob'], tools: ['agent_status'] }, { name: 'bob' }]
  const { team, model } = modelTeam(t, answers, agents, { orchestration: asksAnn })
  await team.execute('go')
  t.same(JSON.parse(textOf(lastOf(model.requests.at(-1))!.content)), [
    { name: 'bob', status: 'idle', tasks: [{ description: `${'x'.repeat(200)} ...`, status: 'completed' }] },
  ])
})

t.test('a model asks the user, who may have choices; what is no question is told to it', async (t) => {
  const asks = [
    calls(['ask_user', { question: 'Which?', choices: [] }]),
    calls(['clarify_with_user', { question: 'Which?', choices: ['a', 'b'] }]),
  ]
  const answers = byAgent({ ann: [...asks, 'thanks'] })
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: ['ask_user', 'clarify_with_user'] }], {
    orchestration: asksAnn,
  })
  team.events.subscribe((event) => {
    if (event.type === 'question') void team.getRun(event.runId)?.answer(event.questionId, 'b')
  })
  t.match(await team.execute('go'), { finalOutput: 'thanks' })
  t.match(lastOf(model.requests[1])?.content, /ask: choices is an empty list/)
  t.equal(lastOf(model.requests[2])?.content, 'b')
})

t.test('a round in which a person answered does not count, until there are too many', async (t) => {
  const play = async (questions: number) => {
    const asks = Array.from({ length: questions }, (_, i) => calls(['ask_user', { question: `Which ${i}?` }]))
    const answers = byAgent({ ann: [...asks, calls(['agent_status', {}]), 'thanks'] })
    const { team } = modelTeam(t, answers, [{ name: 'ann', maxRounds: 2, tools: ['ask_user', 'agent_status'] }], {
      orchestration: asksAnn,
    })
    const rounds: unknown[] = []
    team.events.subscribe((event) => {
      if (event.type !== 'question') return
      rounds.push(team.getAgent('ann')?.getProgress()?.round)
      void team.getRun(event.runId)?.answer(event.questionId, 'b')
    })
    return { ...(await team.execute('go')), rounds }
  }
  const { finalOutput, rounds } = await play(5)
  t.equal(finalOutput, 'thanks')
  t.same(rounds, [1, 1, 1, 1, 1])
  t.match((await play(203)).error, { code: 'TASK_REFUSED', message: /after 2 rounds/ })
})

t.test('guidance of the manager is told to the model once, then it has as many rounds again', async (t) => {
  const asks = calls(['request', { to: 'bob', content: 'again' }])
  const agents = [{ ...pair[0]!, maxRounds: 2, escalateTo: 'boss' }, pair[1]!, { name: 'boss' }]
  const play = async (ann: Answers) => {
    let nth = 0
    const answers: Answers = (request) => {
      if (request.agent === 'boss') return 'Say "enough".'
      if (request.agent === 'bob') return `no ${nth}`
      return typeof ann === 'function' ? ann(request, nth++) : ann[nth++]!
    }
    const { team, model } = modelTeam(t, answers, agents, { orchestration: asksAnn })
    return { result: await team.execute('go'), model }
  }
  const { result, model } = await play([asks, asks, asks, 'enough'])
  t.equal(result.finalOutput, 'enough')
  const told = model.requests.findLast(({ agent }) => agent === 'ann')?.messages ?? []
  t.equal(told.filter(({ content }) => /2 rounds without an answer.*Say "enough"\./.test(textOf(content))).length, 1)
  const escalated = model.requests.find(({ agent }) => agent === 'boss')
  t.match(lastOf(escalated)?.content, /escalation: .*"done": \[\s+"model",\s+"request to bob"/s)
  const refused = await play(() => asks)
  t.match(refused.result.error, { code: 'TASK_REFUSED', message: /after 4 rounds.*with the guidance of its manager/ })
  t.equal(refused.model.requests.filter(({ agent }) => agent === 'ann').length, 4)
})

t.test('without a manager the turn refuses after its rounds', async (t) => {
  const agents = [{ ...pair[0]!, maxRounds: 2 }, pair[1]!]
  const answers: Answers = ({ agent }) => (agent === 'bob' ? 'no' : calls(['request', { to: 'bob', content: 'x' }]))
  const { team } = modelTeam(t, answers, agents, { orchestration: asksAnn })
  t.match((await team.execute('go')).error, {
    code: 'TASK_REFUSED',
    message: /no answer after 2 rounds.*has no manager/,
  })
})

t.test('a manager who takes the task over has answered it', async (t) => {
  const boss = async () => ({ content: 'I did it.', structuredData: { decision: 'take_over' } })
  const model = new FakeModel(({ agent }) => (agent === 'bob' ? 'no' : calls(['request', { to: 'bob', content: 'x' }])))
  const cast = {
    boss,
    bob: async () => 'no',
    ann: (_: unknown, context: AgentContext) => context.think('go').then(({ text }) => text),
  }
  const team = localTeam(t, cast, {
    models: { default: model },
    roles: { ann: { maxRounds: 1, escalateTo: 'boss', delegationAllowed: true } },
    orchestration: asksAnn,
  })
  t.equal((await team.execute('go')).finalOutput, 'I did it.')
  t.equal(model.requests.length, 1)
})

t.test('think in code has an output schema, tools by name and rounds of its own', async (t) => {
  const { value, model } = await played(
    t,
    [calls(['agent_status', {}]), '{"n":"x"}', '{"n":1}'],
    (context) =>
      context.think({ prompt: 'n?', output: z.object({ n: z.number() }), tools: ['agent_status'], maxRounds: 2 }),
    { role: { systemPrompt: 'Count.', delegationAllowed: true } },
  )
  t.match(value, { output: { n: 1 }, text: '{"n":1}', finishReason: 'stop', usage: { calls: 3 } })
  t.same(model.requests.map(toolNames), [['agent_status'], ['agent_status'], ['agent_status']])
  t.match(model.requests[2]?.messages, [
    { role: 'system', content: 'Count.' },
    { role: 'user', content: 'n?' },
    { role: 'assistant' },
    { role: 'tool' },
    { role: 'assistant', content: '{"n":"x"}' },
    { role: 'user', content: /misses the JSON schema/ },
  ])
})

t.test('a wrong request to think is refused by the field', async (t) => {
  for (const [request, path] of [
    [{ prompt: 'a', tools: ['nothing'] }, 'tools[0]'],
    [{ prompt: 'a', tools: 'request' }, 'tools'],
    [{ prompt: 'a', maxRounds: 0 }, 'maxRounds'],
    [{ prompt: 'a', rounds: 1 }, 'rounds'],
    [null, 'request'],
  ] as const) {
    const { error } = await played(t, [], (context) => context.think(request as never))
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path } }, path)
  }
})

t.test('what a role without code hears it remembers, and nobody is asked', async (t) => {
  const model = new FakeModel(() => 'ok')
  const team = testTeam(
    {
      agents: [{ name: 'ann', systemPrompt: 'Listen.' }],
      logger: silent,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await script.broadcast('It rains.')
          return (await script.request('ann', 'So?')).content
        },
      },
    },
    { model },
  )
  t.teardown(() => team.close())
  await team.execute('go')
  t.same(
    model.requests.map(({ messages }) => messages.map(({ content }) => content)),
    [['Listen.', 'It rains.', 'So?']],
  )
})

t.test('several instances share no conversation: each message stands alone', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'ann', systemPrompt: 'Hi.', instances: 2 }], {
    orchestration: {
      strategy: 'custom',
      async run(script) {
        await script.request('ann', 'one')
        return (await script.request('ann', 'two')).content
      },
    },
  })
  t.equal((await team.execute('go')).finalOutput, 'ok')
  t.same(
    model.requests.map(({ messages }) => messages.length),
    [2, 2],
  )
})

// The tools of a role in the hands of its model: offered, called, answered in words, and called once whatever dies.

t.test('a model is offered the tools of the team and of its role, and told what they give', async (t) => {
  const { tool, calls: made } = adder()
  const text = doing(() => 'in words', { name: 'text' })
  const nothing = doing(() => undefined, { name: 'nothing' })
  const answers: Answers = [calls(['add', { a: 2, b: 3 }], ['text', ''], ['nothing', {}]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [text, nothing] }], { tools: [tool] })
  const events = toolEvents(team)
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.match(model.requests[0]!.tools, [
    { name: 'add', description: 'Adds two numbers.', inputSchema: { type: 'object', required: ['a'] } },
    { name: 'text' },
    { name: 'nothing' },
  ])
  t.match(model.requests[1]!.messages.slice(-3), [
    { role: 'tool', toolCallId: 'call-0', content: '{"sum":5}' },
    { role: 'tool', toolCallId: 'call-1', content: 'in words' },
    { role: 'tool', toolCallId: 'call-2', content: '' },
  ])
  t.equal(made.length, 1)
  t.match(events[0], { type: 'tool.started', agent: 'ann', tool: 'add', input: { a: 2, b: 3 } })
})

t.test('wrong input, failures and time limits go back to the model, not to the user', async (t) => {
  const { tool, calls: made } = adder()
  const fails = doing(
    () => {
      throw new Error('the disk is full')
    },
    { name: 'fails' },
  )
  const late = doing(
    () => {
      throw new ToolTimeoutError('the service is late', { tool: 'late' })
    },
    { name: 'late' },
  )
  const answers: Answers = [
    calls(['add', { a: 'two' }], ['add', '{"a": 2'], ['fails', {}], ['late', {}]),
    calls(['add', { a: 2 }]),
    'done',
  ]
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [tool, fails, late] }])
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.match(pluck(model.requests[1]!.messages.slice(-4), 'content'), [
    /misses its schema: a: /,
    /is no JSON/,
    /failed: Error: the disk is full/,
    /^Error: the service is late/,
  ])
  t.equal(made.length, 1)
})

t.test('a model whose thread dies after each call of a tool calls each once', async (t) => {
  const { tool, calls: made } = adder()
  const { file, runs } = ledger(t)
  const steps = [calls(['add', { a: 1 }]), calls(['record', { file }]), calls(['add', { a: 2 }]), 'done']
  const agents = [{ name: 'ann', tools: [tool, { module: recordModule }] }]
  const { team, model } = modelTeam(t, steps, agents, { supervision: { poisonAttempts: 10, maxRestarts: 10 } })
  await team.start()
  let crashes = 0
  team.events.subscribe((event) => {
    if (event.type !== 'tool.finished' || crashes === 3) return
    crashes += 1
    queueMicrotask(() => team.crash('ann'))
  })
  const result = await finished(team, team.execute('go'))
  t.match(result, { success: true, finalOutput: 'done' })
  t.equal(crashes, 3)
  t.same([made.length, runs(), model.requests.length], [2, 1, 4])
})

/** In virtual time that does not run ahead of what a new life imports. */
async function finished<T>(team: { clock: { advance(ms: number): Promise<void> } }, promise: Promise<T>): Promise<T> {
  let open = true
  const done = () => {
    open = false
  }
  promise.then(done, done)
  while (open) {
    await team.clock.advance(1)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return promise
}

// `context.complete`: one call of a model.

const Point = z.object({ x: z.number(), y: z.number() })

t.test('an answer has its text, its usage and why it has ended', async (t) => {
  const { value, model } = await played(t, [[{ text: 'two ' }, { text: 'words' }]], (context) =>
    context.complete({ prompt: 'Say two words.', temperature: 0.5, maxOutputTokens: 9 }),
  )
  t.same(value, { text: 'two words', output: undefined, usage: USAGE, finishReason: 'stop', rehearsed: false })
  t.match(model.requests[0], {
    model: 'default',
    agent: 'ann',
    temperature: 0.5,
    maxOutputTokens: 9,
    messages: [{ role: 'user', content: 'Say two words.' }],
  })
})

t.test('a prompt is said in the role; messages are said as they are', async (t) => {
  const role = { systemPrompt: 'Be brief.', model: 'default', temperature: 1, maxOutputTokens: 7 }
  const ask = async (request: CompletionRequest) =>
    (await played(t, ['ok'], (context) => context.complete(request), { role })).model.requests[0]
  t.match(await ask({ prompt: 'hi' }), {
    temperature: 1,
    maxOutputTokens: 7,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ],
  })
  t.strictSame((await ask({ messages: [{ role: 'user', content: 'hi' }] }))?.messages, [
    { role: 'user', content: 'hi' },
  ])
})

t.test('why an answer has ended reaches the caller', async (t) => {
  for (const finishReason of ['length', 'content_filter'] as const) {
    const { value } = await played(t, [[{ text: 'half' }, { finishReason }]], (context) =>
      context.complete({ prompt: 'go' }),
    )
    t.match(value, { text: 'half', finishReason })
  }
})

t.test('an answer by a schema is parsed and checked, also out of a code fence', async (t) => {
  for (const text of ['{"x":1,"y":2}', 'Here it is:\n```json\n{"x":1,"y":2}\n```\nDone.']) {
    const { value, model } = await played(t, [text], (context) => context.complete({ prompt: 'where?', output: Point }))
    t.match(value, { text, output: { x: 1, y: 2 } })
    t.match(model.requests[0]?.jsonSchema, { type: 'object', required: ['x', 'y'] })
  }
})

t.test('an answer that misses its schema is asked for once more, with what is wrong', async (t) => {
  const { value, model } = await played(t, ['{"x":1}', '{"x":1,"y":2}'], (context) =>
    context.complete({ prompt: 'where?', output: Point }),
  )
  t.match(value, { output: { x: 1, y: 2 }, usage: { totalTokens: 30, calls: 2 } })
  t.match(model.requests[1]?.messages, [
    { role: 'user', content: 'where?' },
    { role: 'assistant', content: '{"x":1}' },
    { role: 'user', content: /y: .*Answer again, with JSON alone/ },
  ])
})

t.test('the second answer that misses it is a ModelError', async (t) => {
  const { error, model } = await played(t, ['no', [{ text: '{"x":' }, { finishReason: 'length' }]], (context) =>
    context.complete({ prompt: 'where?', output: Point }),
  )
  t.match(error, {
    code: 'MODEL',
    message: /twice.*cut off before its end \(maxOutputTokens\)/,
    details: { agent: 'ann' },
  })
  t.equal(model.requests.length, 2)
})

t.test('a model that calls a tool though it has none is a ModelError', async (t) => {
  const { error } = await played(t, [[{ toolCall: { id: '1', name: 'search', input: '{}' } }]], (context) =>
    context.complete({ prompt: 'go' }),
  )
  t.match(error, { code: 'MODEL', message: /called the tool "search".*context\.think/ })
})

t.test('with stream: true the pieces are emitted as they come', async (t) => {
  const { events } = await played(t, [[{ text: 'a' }, { text: '' }, { text: 'b' }]], (context) =>
    context.complete({ prompt: 'go', stream: true }),
  )
  const chunks = events.flatMap((event) => (event.type === 'output.delta' ? [event] : []))
  t.match(chunks, [
    { agent: 'ann', chunk: 'a', final: false },
    { agent: 'ann', chunk: 'b' },
  ])
  t.equal(chunks.length, 2)
})

t.test('a wrong request is refused by the field, and no model is asked', async (t) => {
  const wrong: [request: unknown, path: string][] = [
    [undefined, 'request'],
    ['hi', 'request'],
    [{}, 'prompt'],
    [{ prompt: 1 }, 'prompt'],
    [{ prompt: 'a', messages: [{ role: 'user', content: 'b' }] }, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'boss', content: 'b' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ prompt: 'a', model: '' }, 'model'],
    [{ prompt: 'a', output: {} }, 'output'],
    [{ prompt: 'a', output: z.custom(() => true) }, 'output'],
    [{ prompt: 'a', temperature: 3 }, 'temperature'],
    [{ prompt: 'a', maxOutputTokens: 0 }, 'maxOutputTokens'],
    [{ prompt: 'a', stream: 'yes' }, 'stream'],
    [{ prompt: 'a', signal: {} }, 'signal'],
    [{ prompt: 'a', tools: [] }, 'tools'],
  ]
  for (const [request, path] of wrong) {
    const { error, model } = await played(t, [], (context) => context.complete(request as CompletionRequest))
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path } }, path)
    t.equal(model.requests.length, 0)
  }
})

t.test('a model that the team does not have is named, with those that it has', async (t) => {
  const { error } = await played(t, [], (context) => context.complete({ prompt: 'a', model: 'huge' }))
  t.match(error, { code: 'CONFIGURATION', message: /no model of this team is named "huge"; there are default/ })
})
