/** Document 004's supervisor, and document 001's: a plan, experts side by side, partial results, one answer. */
import t from 'tap'
import { z } from 'zod'
import {
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  defineTool,
  type MultiAgentResult,
} from '../../src/index.ts'
import { apologyFor } from '../../src/protocols/apologize.ts'
import type { SubTask, SupervisorConfig } from '../../src/protocols.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { after, echo, refuses, says, stage, type Test, throws } from '../team/stage.ts'

type Config = Partial<Omit<SupervisorConfig, 'strategy'>>
type Experts = Record<string, AgentDefinition>

/** A desk whose supervisor is played by a script, and its experts by code. */
function desk(
  t: Test,
  script: Script[],
  experts: Experts,
  config: Config = {},
  instances = 1,
  models: AgentRole[] = [],
) {
  const names = Object.keys(experts)
  const agents = names.map((name) => ({ name, description: `knows ${name}`, instances }))
  const model = scriptedModel(script)
  const orchestration = { strategy: 'supervisor' as const, supervisor: 'chief', experts: names, ...config }
  const options = { agents: [{ name: 'chief' }, ...agents, ...models], orchestration, logger: silent }
  const team = testTeam<string>(options, { model, modules: experts })
  t.teardown(() => team.close())
  return { team, model }
}

type Task = { agent: string; task: string; tool?: string; input?: object; dependsOn?: number[] }
const plan = (...tasks: Task[]): Script => ({ agent: 'chief', reply: { tasks, reasoning: 'one thing each' } })
const word = (reply: string): Script => ({ agent: 'chief', when: /# Results/, reply })

async function asked(
  t: Test,
  script: Script[],
  experts: Experts,
  config: Config = {},
  query = 'What?',
  models: AgentRole[] = [],
) {
  const { team, model } = desk(t, script, experts, config, 1, models)
  const pending = team.execute(query)
  await team.clock.advance(100_000)
  const result = await pending
  model.assertDone()
  return { result, model }
}

const choices = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions.map(({ choice }) => choice)
const sent = ({ messageHistory }: MultiAgentResult, to: string) =>
  messageHistory.filter(({ type, recipient }) => type === 'request' && recipient === to)
const lastPrompt = ({ calls }: { calls: { prompt: string }[] }) => calls.at(-1)?.prompt ?? ''

t.test('the example of document 004: two tasks for one expert, side by side, and an answer in Chinese', async (t) => {
  const query = '查台積電股價和美金匯率'
  const finance = defineAgent({
    async receive({ content }, context) {
      await context.sleep(100)
      return content.includes('股價') ? '台積電 1,085 元' : '1 美元 = 31.9 台幣'
    },
  })
  const script = [
    plan({ agent: 'finance', task: '查台積電股價' }, { agent: 'finance', task: '查美金匯率' }),
    word('台積電股價為 1,085 元，1 美元可換 31.9 元台幣。'),
  ]
  const { team, model } = desk(t, script, { weather: echo, finance }, {}, 2)
  const pending = team.execute(query)
  await team.clock.advance(1_000)
  const result = await pending
  t.equal(result.finalOutput, '台積電股價為 1,085 元，1 美元可換 31.9 元台幣。')
  t.equal(result.executionTimeMs, 100, 'two instances share the tasks of their role')
  t.same(choices(result), ['2 tasks', 'finance', 'finance'])
  t.match(result.orchestrationTrace.decisions, [
    { reason: 'one thing each' },
    { question: /查台積電股價/ },
    { question: /查美金匯率/ },
  ])
  t.match(
    model.calls[0]?.prompt,
    /查台積電股價和美金匯率\n\n# Experts\n\n- weather: knows weather\n- finance: knows finance/,
  )
  t.match(
    lastPrompt(model),
    /## 1\. 查台積電股價 \(by finance\)\n\n台積電 1,085 元\n\n## 2\. 查美金匯率 \(by finance\)\n\n1 美元 = 31\.9 台幣/,
  )
  model.assertDone()
})

t.test('the plan is asked for by function calling, and the answer by the schema of the run', async (t) => {
  const server = await modelServer(t)
  const planned = (agent: string) => ({
    toolCalls: [{ name: 'create_plan', input: { tasks: [{ agent, task: 'Rain?' }], reasoning: `${agent} knows` } }],
  })
  server.answer(planned('weather'), planned('general'), '{"answers":["rain"]}')
  const models = { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key' } }
  const orchestration = {
    strategy: 'supervisor' as const,
    supervisor: 'chief',
    experts: ['weather'],
    fallback: 'general',
    maxReplans: 1,
  }
  const agents = [{ name: 'chief' }, { name: 'weather' }, { name: 'general' }]
  const team = testTeam<string>(
    { agents, orchestration, models, logger: silent },
    { modules: { weather: throws('no network'), general: echo } },
  )
  t.teardown(() => team.close())
  const result = await team.execute('Umbrella?', { output: z.object({ answers: z.array(z.string()) }) })
  t.match(result, { success: true, data: { answers: ['rain'] } })
  t.match(result.orchestrationTrace.decisions[0], { choice: '1 task', reason: 'weather knows' })
  const task = { type: 'object', properties: { agent: { type: 'string', enum: ['weather', 'general'] } } }
  const bodies = server.calls.map(({ body }) => body)
  for (const body of bodies.slice(0, 2)) {
    const parameters = {
      type: 'object',
      properties: { tasks: { type: 'array', items: task }, reasoning: { type: 'string' } },
      required: ['tasks', 'reasoning'],
    }
    t.match(body, { tools: [{ function: { name: 'create_plan', parameters } }], tool_choice: 'required' })
    t.notOk(body.response_format)
  }
  t.match(bodies[2]?.response_format, { type: 'json_schema' })
  t.notOk(bodies[2]?.tools)
})

t.test('a plan without its reasoning is sent back once, and taken the second time', async (t) => {
  const tasks = [{ agent: 'a', task: 'A' }]
  const { result, model } = await asked(t, [{ agent: 'chief', reply: { tasks } }, plan(...tasks), word('Done.')], {
    a: echo,
  })
  t.match(model.calls[1]?.prompt, /reasoning: it is missing/)
  t.match(result.orchestrationTrace.decisions[0], { reason: 'one thing each' })
  const twice = await asked(
    t,
    [{ agent: 'chief', reply: { tasks } }, { agent: 'chief', reply: { tasks, reasoning: null } }, word('Done.')],
    { a: echo },
  )
  t.match(twice.result.orchestrationTrace.decisions[0], { reason: '"chief" gave no reason.' })
})

t.test('a name in another case is asked for again, and the input of a tool may be JSON in a text', async (t) => {
  const task = { task: 'Rain?', tool: 'look' }
  const script = [
    plan({ ...task, agent: 'Weather' }),
    { agent: 'chief', reply: { tasks: [{ ...task, agent: 'weather', input: '{"at":"one"}' }], reasoning: null } },
    word('Rain.'),
  ]
  const { result, model } = await asked(t, script, { weather: echo })
  t.match(model.calls[1]?.prompt, /"Weather" is none of weather/)
  t.match(sent(result, 'weather')[0]?.structuredData, { toolName: 'look', subTaskInput: { at: 'one' } })
})

t.test('a plan may have the names that the fields of a sub-task have, and loses nothing by it', async (t) => {
  const tasks = [
    { assignedAgentRole: 'weather', task: 'Rain?', toolName: 'look', subTaskInput: { at: 'one' } },
    {
      assigned_agent_role: 'weather',
      task: 'Snow?',
      tool_name: 'feel',
      sub_task_input: { at: 'two' },
      depends_on: [1],
    },
    { agent: 'weather', task: 'Hail?', tool: 'hear', toolName: 'look', input: null, subTaskInput: { at: 'three' } },
  ]
  const script = [{ agent: 'chief', reply: { tasks, reasoning: 'so' } }, word('None.')]
  const { result } = await asked(t, script, { weather: echo })
  const [rain, hail, snow] = sent(result, 'weather').map(({ structuredData }) => structuredData)
  t.match(rain, { assignedAgentRole: 'weather', toolName: 'look', subTaskInput: { at: 'one' } })
  t.match(hail, { toolName: 'hear', subTaskInput: { at: 'three' } })
  t.match(snow, { toolName: 'feel', subTaskInput: { at: 'two' }, contextSummary: /Rain\?/ })
})

t.test('a script gives a plan as the call of its function, too', async (t) => {
  const input = { tasks: [{ agent: 'a', task: 'A' }], reasoning: 'one thing' }
  const { result } = await asked(t, [{ toolCall: { name: 'create_plan', input } }, word('Done.')], { a: echo })
  t.equal(result.finalOutput, 'Done.')
  t.match(result.agentOutputs.chief?.[0], { content: JSON.stringify(input), structuredData: input })
})

t.test('an expert gets the task with its tool and input, and what came of those that it builds on', async (t) => {
  const { result } = await asked(
    t,
    [
      plan(
        { agent: 'utility', task: 'Add.', tool: 'calculator', input: { expression: '2+2' } },
        { agent: 'research', task: 'Look it up.', dependsOn: [1] },
      ),
      word('Four.'),
    ],
    { utility: says({ structuredData: { sum: 4 } }), research: echo },
  )
  const { runId } = result
  t.match(sent(result, 'utility'), [
    {
      content: 'Add.',
      structuredData: {
        subTaskId: `${runId}.1`,
        parentTaskId: runId,
        assignedAgentRole: 'utility',
        toolName: 'calculator',
        subTaskInput: { expression: '2+2' },
      },
    },
  ])
  t.match(sent(result, 'research'), [{ structuredData: { contextSummary: '## 1. Add. (by utility)\n\n{"sum":4}' } }])
})

t.test('an expert has a minute; who is late or fails is missing, and the others are shown', async (t) => {
  const script = [
    plan({ agent: 'slow', task: 'A' }, { agent: 'broken', task: 'B' }, { agent: 'fast', task: 'C' }),
    word('C, and no A and B.'),
  ]
  const experts = { slow: after(60_001), broken: throws('no network'), fast: after(59_999, 'Cc') }
  const { result, model } = await asked(t, script, experts)
  t.match(result, { success: true, finalOutput: 'C, and no A and B.' })
  t.same(result.failures.map(({ agent, error }) => [agent, error.code]).sort(), [
    ['broken', 'AGENT_FAILED'],
    ['slow', 'REQUEST_TIMEOUT'],
  ])
  t.match(lastPrompt(model), /\(sub-task 1 was late: .*60000 ms.*\(sub-task 2 failed: .*no network.*\(by fast\)\n\nCc/s)
  t.match(result.failures.find(({ agent }) => agent === 'slow')?.error.message, /timeoutPerAgentMs/, 'what to raise')
  const own = await asked(
    t,
    [plan({ agent: 'slow', task: 'A' }), word('A.')],
    { slow: after(60_001) },
    { timeoutPerAgentMs: 120_000 },
  )
  t.match(own.result, { success: true, failures: [] })
  t.equal(choices(own.result)[0], '1 task')
})

t.test('if all fail the run does, with a text of the aggregator that knows no reason', async (t) => {
  const failing = { a: throws('no network at 10.0.0.7:443'), b: refuses('not mine'), c: after(60_001) }
  const tasks = Object.keys(failing).map((agent) => ({ agent, task: `Task ${agent.toUpperCase()}` }))
  const script = [plan(...tasks), { agent: 'chief', when: /# What was tried/, reply: 'Sorry, nothing today.' }]
  const { result, model } = await asked(t, script, failing)
  t.match(result, { success: false, error: { code: 'AGENT_FAILED', message: 'Sorry, nothing today.' } })
  t.match(result.error?.details, {
    results: [
      { status: 'FAILED' },
      { errorDetails: { type: 'TASK_REFUSED' } },
      { errorDetails: { type: 'REQUEST_TIMEOUT' } },
    ],
  })
  t.same(result.failures.map(({ agent }) => agent).sort(), ['a', 'b', 'c'])
  const prompt = lastPrompt(model)
  t.match(prompt, /Task A \(it failed\)\n- Task B \(it failed\)\n- Task C \(it took too long\)$/)
  t.notMatch(prompt, /10\.0\.0\.7|not mine/)
})

const questions: [question: string, answer: RegExp, late: RegExp][] = [
  ['What?', /^Sorry, I could not/, /^Sorry, this took too long/],
  ['Quel temps fait-il ?', /^Sorry/, /^Sorry/],
  ['查台積電股價和美金匯率', /^抱歉，這次/, /^抱歉，處理時間過長/],
  ['查 TSMC 股價', /^抱歉，這次/, /^抱歉，處理時間過長/],
  ['今天上海的天气怎么样？', /^抱歉，这次/, /^抱歉，处理时间过长/],
  ['東京の天気は？', /^申し訳/, /時間/],
  ['서울 날씨 어때?', /^죄송합니다/, /시간/],
  ['Какая погода в Москве?', /^Извините/, /времени/],
  ['ما هو الطقس في القاهرة؟', /^عذر/, /وقت/],
  ['What does 你好 mean in English?', /^Sorry/, /^Sorry/],
  ['123 ?!', /^Sorry/, /^Sorry/],
]
t.test('where no model can say it, a fixed sentence by the script of the question does', async (t) => {
  for (const [question, failed, late] of questions) {
    t.match(apologyFor(question, false), failed)
    t.match(apologyFor(question, true), late)
  }
  const script = [plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B' })]
  const code = { aggregator: 'a' }
  const { result } = await asked(t, script, { a: throws('no network'), b: refuses('not mine') }, code)
  t.match(result.error?.message, /^Sorry, I could not find an answer this time/)
  const late = await asked(t, script, { a: after(60_001), b: after(60_001) }, code)
  t.match(late.result.error?.message, /^Sorry, this took too long/)
  const own = await asked(t, script, { a: throws(), b: throws() }, { prompts: { apology: '抱歉，請稍後再試。' } })
  t.equal(own.result.error?.message, '抱歉，請稍後再試。')
})

t.test('what is for none of the experts is for the fallback', async (t) => {
  const given = plan({ agent: 'poet', task: 'A rhyme.' }, { agent: 'general', task: 'Hello.' })
  const script = [given, given, word('Done.')]
  const { result } = await asked(
    t,
    script,
    { weather: echo, general: echo },
    { experts: ['weather'], fallback: 'general' },
  )
  t.same(pluck(sent(result, 'general'), 'content'), ['A rhyme.', 'Hello.'])
  t.match(result.orchestrationTrace.decisions[1], {
    choice: 'general',
    reason: /"poet", whom the plan names, is none of weather, general/,
  })
})

t.test('who has left the team is no expert any more: the fallback gets what was for it', async (t) => {
  const experts = { weather: echo, general: echo }
  const given = plan({ agent: 'weather', task: 'Rain?' })
  const script = [given, given, word('Perhaps.')]
  const { team, model } = desk(t, script, experts, { experts: ['weather'], fallback: 'general' })
  await team.removeAgent('weather')
  const result = await team.execute('What?')
  t.match(result, { finalOutput: 'Perhaps.', failures: [] })
  t.notMatch(model.calls[0]?.prompt, 'weather')
  t.same(pluck(sent(result, 'general'), 'content'), ['Rain?'])
  await team.removeAgent('general')
  t.match((await team.execute('What?')).error, {
    code: 'UNKNOWN_AGENT',
    message: 'None of the experts is in the team any more: weather, general. Add one with addAgent().',
  })
  t.equal(model.calls.length, 3, 'and nobody is asked')
})

t.test('without a fallback such a task fails alone', async (t) => {
  const given = plan({ agent: 'poet', task: 'A rhyme.' }, { agent: 'weather', task: 'Rain?' })
  const { result, model } = await asked(t, [given, given, word('Rain.')], { weather: echo })
  t.equal(result.finalOutput, 'Rain.')
  t.match(lastPrompt(model), /\(by poet\)\n\n\(sub-task 1 failed: "poet", whom the plan names, is none of weather\.\)/)
})

const useless: [what: string, reply: object | string, reason: RegExp][] = [
  ['in prose', 'Ask the weather expert.', /no JSON/],
  ['empty', { tasks: [], reasoning: 'nothing to do' }, /The plan of "chief" has no task/],
  ['of blanks', { tasks: [{ agent: 'a', task: ' ' }], reasoning: '' }, /tasks.*task: /],
  [
    'of ten thousand tasks',
    { tasks: Array.from({ length: 10_000 }, (_, i) => ({ agent: 'a', task: `${i}` })) },
    /tasks: .*100/,
  ],
  [
    'in a circle',
    {
      tasks: [
        { agent: 'a', task: 'A', dependsOn: [2] },
        { agent: 'a', task: 'B', dependsOn: [1] },
      ],
    },
    /in a circle, 1 -> 2 -> 1/,
  ],
]

for (const [what, reply, reason] of useless)
  t.test(`a plan ${what} is sent back once; then the fallback gets the query, or the run fails`, async (t) => {
    const script = Array.from({ length: what === 'empty' ? 1 : 2 }, () => ({ agent: 'chief', reply }))
    const lost = await asked(t, script, { a: echo })
    const failures = [{ agent: 'chief', code: 'REPLY_INVALID', message: reason }]
    const message = /^Sorry, I could not/
    t.match(lost.result, { success: false, error: { code: 'AGENT_FAILED', message, details: { failures } } })
    t.match(lost.result.orchestrationTrace.decisions, [{ choice: 'nothing', reason }])
    const { result } = await asked(t, script, { a: echo, general: echo }, { experts: ['a'], fallback: 'general' })
    t.equal(result.finalOutput, 'general: What?')
    t.match(result.orchestrationTrace.decisions, [{ choice: 'general', reason }])
  })

t.test('a dependency on a task that is not there is none', async (t) => {
  const script = [
    plan({ agent: 'a', task: 'A', dependsOn: [7] }, { agent: 'a', task: 'B', dependsOn: [1, 9] }),
    word('AB'),
  ]
  const { result } = await asked(t, script, { a: echo })
  t.equal(result.finalOutput, 'AB')
  t.match(result.orchestrationTrace.decisions.slice(0, 2), [
    { choice: 'nothing', reason: 'There is no 7.' },
    { choice: '1', reason: 'There is no 9.' },
  ])
})

t.test('null and an empty input say nothing, and a dependency that is named twice is one', async (t) => {
  const nothing = { tool: null, input: {}, dependsOn: null }
  const tasks = [
    { ...nothing, agent: 'a', task: 'A' },
    { ...nothing, agent: 'a', task: 'B', dependsOn: [1, 1] },
    { ...nothing, agent: 'a', task: 'C', tool: 'clock' },
  ]
  const { result } = await asked(t, [{ agent: 'chief', reply: { tasks, reasoning: '' } }, word('AB')], { a: echo })
  t.match(sent(result, 'a')[0]?.structuredData, { subTaskInput: { task: 'A' } })
  t.match(sent(result, 'a')[1]?.structuredData, { toolName: 'clock', subTaskInput: {} })
  t.match(sent(result, 'a')[2]?.structuredData, { contextSummary: /^## 1\. A \(by a\)\n\na: A$/ })
})

t.test('a failed task alone is planned again, so often and no more, then told with its reason', async (t) => {
  const replan = (task: string): Script => ({
    agent: 'chief',
    when: /A task of your plan has failed/,
    reply: { tasks: [{ agent: 'a', task }], reasoning: 'in other words' },
  })
  const script = [plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B' }), replan('A!'), word('B alone.')]
  const { result, model } = await asked(t, script, { a: throws('the tool is broken'), b: echo }, { maxReplans: 1 })
  t.equal(result.finalOutput, 'B alone.')
  t.same(pluck(sent(result, 'a'), 'content'), ['A', 'A!'])
  t.same(pluck(sent(result, 'b'), 'content'), ['B'])
  t.match(
    model.calls[1]?.prompt,
    /# The task that failed\n\nA \(by a\)\n\n# Why\n\n.*the tool is broken.*\n\n# Experts\n\n- a: knows a/s,
  )
  t.match(
    lastPrompt(model),
    /## 1\. A! \(by a\)\n\n\(sub-task 1 failed: .*the tool is broken.*## 2\. B \(by b\)\n\nb: B/s,
  )
  t.ok(choices(result).includes('A!'))

  const never = await asked(t, [plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B' }), word('B.')], {
    a: throws(),
    b: echo,
  })
  t.equal(sent(never.result, 'a').length, 1, 'by default nothing is planned again')
})

t.test('a tool that fails twice costs one task, planned again once, and its sibling nothing', async (t) => {
  let calls = 0
  const calculator = defineTool({
    name: 'calculator',
    description: 'Calculates.',
    input: z.object({ expression: z.string() }),
    run() {
      throw new Error(`out of order, ${++calls}`)
    },
  })
  const calculates = defineAgent({
    async receive({ structuredData }: AgentMessage<SubTask>, context) {
      const { toolName = '', subTaskInput } = structuredData
      return String(await context.tool(toolName, subTaskInput))
    },
  })
  const sum = { agent: 'utility', task: 'Add.', tool: 'calculator', input: { expression: '2+2' } }
  const chief = defineAgent({
    receive({ content }) {
      if (content.includes('# Results')) return content
      const tasks = content.includes('has failed') ? [sum] : [sum, { agent: 'research', task: 'Look it up.' }]
      return { structuredData: { tasks, reasoning: 'it has to be' } }
    },
  })
  const cast = { chief, utility: { code: calculates, tools: [calculator] }, research: echo }
  const orchestration = { strategy: 'supervisor' as const, supervisor: 'chief', experts: ['utility', 'research'] }
  const team = stage<string>(t, cast, { orchestration: { ...orchestration, maxReplans: 1 }, logger: silent })
  const { finalOutput, failures } = await team.execute('2+2?')
  t.equal(calls, 2)
  t.match(finalOutput, /\(sub-task 1 failed: .*out of order, 2.*\).*research: Look it up\./s)
  t.same(pluck(failures, 'agent'), ['utility', 'utility'])
})

t.test('a task that is planned again may succeed elsewhere, and those that build on it are run', async (t) => {
  const script: Script[] = [
    plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B', dependsOn: [1] }),
    { agent: 'chief', reply: { tasks: [{ agent: 'b', task: 'A, please' }], reasoning: 'b can, too' } },
    word('AB'),
  ]
  const { result } = await asked(t, script, { a: throws(), b: echo }, { maxReplans: 3 })
  t.same(pluck(sent(result, 'b'), 'content'), ['A, please', 'B'])
  t.match(sent(result, 'b')[0]?.structuredData, { subTaskId: `${result.runId}.1` })
})

t.test('a task in the place of one that builds on others builds on the same, whatever the new plan says', async (t) => {
  const again: Script = {
    agent: 'chief',
    when: /has failed/,
    reply: { tasks: [{ agent: 'a', task: 'B!', dependsOn: [1, 7] }], reasoning: 'a can, too' },
  }
  const script = [plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B', dependsOn: [1] }), again, word('AB')]
  const { result } = await asked(t, script, { a: echo, b: throws() }, { maxReplans: 1 })
  t.match(sent(result, 'a')[1], {
    content: 'B!',
    structuredData: { subTaskId: `${result.runId}.2`, contextSummary: '## 1. A (by a)\n\na: A' },
  })
  t.notOk(choices(result).includes('nothing'))
})

t.test('two tasks in the place of one are sent back', async (t) => {
  const again = (...tasks: Task[]): Script => ({
    agent: 'chief',
    when: /has failed/,
    reply: { tasks, reasoning: 'so' },
  })
  const [a, b] = [
    { agent: 'b', task: 'A1' },
    { agent: 'b', task: 'A2' },
  ]
  const script = [plan({ agent: 'a', task: 'A' }), again(a, b), again(b), word('A2.')]
  const { result } = await asked(t, script, { a: throws(), b: echo }, { maxReplans: 1 })
  t.same(pluck(sent(result, 'b'), 'content'), ['A2'])
})

t.test('where the supervisor knows no other task, or fails, the task has failed', async (t) => {
  const none: Script = { agent: 'chief', reply: { tasks: [], reasoning: 'hopeless' } }
  for (const again of [
    [none],
    [
      { agent: 'chief', reply: 'Sorry!' },
      { agent: 'chief', reply: 'Sorry!' },
    ] as Script[],
  ]) {
    const script = [plan({ agent: 'a', task: 'A' }, { agent: 'b', task: 'B' }), ...again, word('B.')]
    const { result } = await asked(t, script, { a: throws(), b: echo }, { maxReplans: 5 })
    t.equal(result.finalOutput, 'B.')
    t.match(result.orchestrationTrace.decisions.at(-1), { choice: 'nothing', reason: /hopeless|No plan: / })
  }
})

t.test('an aggregator of its own makes the answer, of code or of a model', async (t) => {
  const editor = defineAgent({
    receive({ structuredData }) {
      const { query, results } = structuredData as { query: string; results: { task: string; resultData: string }[] }
      return `${query} ${results.map(({ task, resultData }) => `${task}=${resultData}`)}`
    },
  })
  const { result } = await asked(
    t,
    [plan({ agent: 'a', task: 'A' })],
    { a: echo, editor },
    { experts: ['a'], aggregator: 'editor' },
  )
  t.equal(result.finalOutput, 'What? A=a: A')
})

t.test('without an answer of the aggregator what was found is the answer, and it is a failure', async (t) => {
  const { result } = await asked(
    t,
    [plan({ agent: 'a', task: 'A' })],
    { a: echo, editor: throws('no ink') },
    { experts: ['a'], aggregator: 'editor' },
  )
  t.match(result, { success: true, finalOutput: '## a\n\na: A' })
  t.match(result.failures, [{ agent: 'editor', error: { code: 'AGENT_FAILED', message: /no ink/ } }])
  t.match(result.orchestrationTrace.decisions.at(-1), { choice: 'nobody', reason: /^"editor" failed.*no ink/ })
  t.ok(result.messageHistory.some(({ sender, content }) => sender === 'a' && content === 'a: A'))
})

t.test('the fallback has as long for the query as for a task', async (t) => {
  const useless: Script[] = [
    { agent: 'chief', reply: 'No plan.' },
    { agent: 'chief', reply: 'No plan.' },
  ]
  const config = { experts: ['a'], fallback: 'general', timeoutPerAgentMs: 10_000 }
  const { result } = await asked(t, useless, { a: echo, general: after(10_001) }, config)
  t.match(result.error?.details.failures, [
    { agent: 'chief', code: 'REPLY_INVALID' },
    { agent: 'general', code: 'REQUEST_TIMEOUT', message: /"general" .*within 10000 ms/ },
  ])
  const alone = await asked(t, [], { a: echo, general: after(10_001) }, { ...config, flow: 'tools' })
  t.equal(alone.result.finalOutput, 'done', 'who answers alone by the flow has the time of any request')
})

t.test('a task without tool, input or context is one text for a model, and a sub-task for code', async (t) => {
  const script: Script[] = [
    plan({ agent: 'weather', task: '台北今天會下雨嗎？' }, { agent: 'weather', task: '帶傘嗎？', dependsOn: [1] }),
    { agent: 'weather', reply: '會' },
    { agent: 'weather', reply: '要' },
    word('要帶傘。'),
  ]
  const { result, model } = await asked(t, script, {}, { experts: ['weather'] }, undefined, [{ name: 'weather' }])
  t.match(sent(result, 'weather')[0]?.structuredData, { subTaskInput: { task: '台北今天會下雨嗎？' } })
  t.equal(model.calls[1]?.prompt.split('台北今天會下雨嗎？').length, 2)
  t.notMatch(model.calls[1]?.prompt, 'subTaskId')
  t.match(model.calls[2]?.prompt, /帶傘嗎？\n\n.*"contextSummary".*會/s)
})

t.test('in the flow graph nobody plans: each expert gets the query', async (t) => {
  const { result } = await asked(t, [word('All.')], { a: echo, b: throws() }, { flow: 'graph', maxReplans: 2 })
  t.equal(result.finalOutput, 'All.')
  t.same(pluck([...sent(result, 'a'), ...sent(result, 'b')], 'content'), ['What?', 'What?'])
})

t.test('in the flow tools one agent answers alone', async (t) => {
  const alone = await asked(t, [{ agent: 'chief', reply: 'I know.' }], { a: echo }, { flow: 'tools' })
  t.equal(alone.result.finalOutput, 'I know.')
  const general = await asked(t, [], { a: echo, general: echo }, { flow: 'tools', experts: ['a'], fallback: 'general' })
  t.equal(general.result.finalOutput, 'general: What?')
})
