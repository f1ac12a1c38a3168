/** Teams written as YAML: what a good file comes to, with classes of its own or ready ones. */

import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { cityDesk } from '../../examples/city-desk/team.ts'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentRole, defineAgent, loadTeam } from '../../src/index.ts'
import { addToEnvironment } from '../../src/shared/environment.ts'
import { testTeam } from '../../src/testing.ts'
import { alphaVantage, stooq } from '../../src/tools/stock-price.ts'
import { pluck } from '../kit/lists.ts'
import { type Answer, calls, FakeModel } from '../models/fake-model.ts'

// Teams written as YAML: what a good file comes to.

const AGENT = "export default { [Symbol.for('dramatis.agent')]: true, receive: () => 'done' }"

/** Document 003's own file. */
const REGISTRY = `agents:
  orchestrator:
    class: OrchestratorAgent
    can_delegate_to: [task_executor]

  task_executor:
    class: TaskExecutorAgent
    can_delegate_to: []
`

const classes: Record<string, AgentRole> = {
  OrchestratorAgent: { name: 'OrchestratorAgent', systemPrompt: 'Plan it.', maxTokens: 4_000 },
  TaskExecutorAgent: { name: 'TaskExecutorAgent', maxRounds: 5 },
}

function folder(t: Test, files: Record<string, string>) {
  const at = t.testdir(files)
  return { at, file: join(at, 'agents.yaml') }
}

t.test('profiles of keys, and who holds them', async (t) => {
  const { file } = folder(t, {
    'agents.yaml':
      'keys: { paid_search: [SEARCH_KEY] }\nagents: { a: { keys: [paid_search] }, b: {} }\nmodels: rehearsal\n',
  })
  t.match(await loadTeam(file), { keys: { paid_search: ['SEARCH_KEY'] }, agents: [{ keys: ['paid_search'] }, {}] })
})

t.test("document 003's files: classes by name, who may give tasks to whom, and what holds for both", async (t) => {
  const { file } = folder(t, {
    'agents.yaml': REGISTRY,
    'agent_config.yaml': `llm:
  model: fast
  temperature: 0.2
  system_prompt: Execute it.
context:
  history_keep: 12
  max_tokens: 8000
rounds:
  max_per_subtask: 12
`,
  })
  const { agents, orchestration } = await loadTeam(file, { agents: classes })
  const shared = { model: 'fast', temperature: 0.2 }
  t.strictSame(agents, [
    {
      name: 'orchestrator',
      ...shared,
      systemPrompt: 'Plan it.',
      maxTokens: 4_000,
      maxRounds: 12,
      canDelegateTo: ['task_executor'],
    },
    {
      name: 'task_executor',
      ...shared,
      systemPrompt: 'Execute it.',
      maxTokens: 8_000,
      maxRounds: 5,
      canDelegateTo: [],
    },
  ])
  t.strictSame(orchestration, { strategy: 'sequential', agentOrder: ['orchestrator'] })
})

t.test('a team of it runs, and holds to its graph', async (t) => {
  const { file } = folder(t, { 'agents.yaml': REGISTRY })
  const executor = defineAgent({ receive: ({ content }) => `did ${content}` })
  const orchestrator = defineAgent({
    receive: async ({ content }, context) => String((await context.delegate('task_executor', content)).result),
  })
  const team = testTeam(await loadTeam(pathToFileURL(file), { agents: classes }), {
    modules: { orchestrator, task_executor: executor },
  })
  t.teardown(() => team.close())
  t.equal((await team.execute('a calculator')).finalOutput, 'did a calculator')
  t.same(pluck(team.listAgents(), 'name'), ['orchestrator', 'task_executor'])
  t.same(team.getDelegationGraph(), { orchestrator: ['task_executor'], task_executor: [] })
  t.equal(team.canDelegate('orchestrator', 'task_executor'), true)
  t.equal(team.canDelegate('task_executor', 'orchestrator'), false)
  t.equal(team.getAgentStatus('orchestrator'), 'idle')
  t.equal(team.getAgent('task_executor')?.role.maxRounds, 5)
  t.match(await team.delegateTask('orchestrator', 'task_executor', 'a test'), {
    status: 'completed',
    result: 'did a test',
  })
  await t.rejects(team.delegateTask('task_executor', 'orchestrator', 'a plan'), { code: 'DELEGATION_REFUSED' })
})

t.test('delegateTask passes on what else the agent is to know: to code, and to a model below the task', async (t) => {
  const { file } = folder(t, { 'agents.yaml': REGISTRY })
  const told: string[] = []
  const model = {
    async *complete({ messages }: ModelRequest) {
      told.push(textOf(messages.at(-1)!.content))
      yield { text: 'done' }
    },
  }
  const code = testTeam(await loadTeam(file, { agents: classes }), {
    modules: { task_executor: defineAgent({ receive: ({ metadata }) => ({ structuredData: { metadata } }) }) },
    model,
  })
  const played = testTeam(await loadTeam(file, { agents: classes }), { model })
  for (const team of [code, played]) t.teardown(() => team.close())
  for (const [context, text] of [
    ['It is for children.', 'Context: It is for children.'],
    [{ files: ['a.py'] }, 'Context: {\n  "files": [\n    "a.py"\n  ]\n}'],
    [0, 'Context: 0'],
    [null, 'Context: null'],
    [undefined, undefined],
  ] as const) {
    const { result } = await code.delegateTask('orchestrator', 'task_executor', 'Write it.', context)
    t.strictSame(result, { metadata: context === undefined ? {} : { context } })
    t.match(await played.delegateTask('orchestrator', 'task_executor', { description: 'Write it.' }, context), {
      result: 'done',
    })
    t.equal(told.at(-1), ['Task from "orchestrator":\nWrite it.', text].filter(Boolean).join('\n\n'))
  }
  const endless: { again?: object } = {}
  endless.again = endless
  for (const wrong of [() => {}, 1n, endless, { at: Number.NaN }])
    await t.rejects(code.delegateTask('orchestrator', 'task_executor', 'Write it.', wrong), {
      code: 'MESSAGE_REJECTED',
    })
})

t.test('a module that is named by its source is found as it is compiled', async (t) => {
  const { file, at } = folder(t, { 'agents.yaml': 'agents:\n  ann:\n    module: ./ann.ts\n', 'ann.js': AGENT })
  t.equal((await loadTeam(file)).agents[0]?.module, pathToFileURL(join(at, 'ann.js')).href)
})

t.test('names of tenants and of models keep their spelling', async (t) => {
  const { file } = folder(t, {
    'agents.yaml': `agents: { ann: { module: ./ann.mjs } }
prices: { currency: EUR, models: { my_model: { input: 1, cached_input: 0.1, output: 2, per_call: 0.01 } } }
budget: { per_tenant: { of: { big_one: { money: 5 } }, period: day, time_zone: Europe/Berlin } }
tenants: { weights: { big_one: 4 }, max_concurrent_runs: 50 }
`,
    'ann.mjs': AGENT,
  })
  const { prices, budget, tenants } = await loadTeam(file)
  t.strictSame(
    { prices, budget, tenants },
    {
      prices: { currency: 'EUR', models: { my_model: { input: 1, cachedInput: 0.1, output: 2, perCall: 0.01 } } },
      budget: { perTenant: { of: { big_one: { money: 5 } }, period: 'day', timeZone: 'Europe/Berlin' } },
      tenants: { weights: { big_one: 4 }, maxConcurrentRuns: 50 },
    },
  )
})

t.test('options of a team and of a role, in snake_case and in camelCase', async (t) => {
  const { file, at } = folder(t, {
    'agents.yaml': `# a team
agents:
  ann: &ann
    module: ./ann.mjs
    system_prompt: |
      Be kind.
    limits: { maxHeapMb: 64, turn_timeout_ms: false }
    capabilities: [{ name: sums, input_types: [text] }]
    weight: .nan
    data: { some_key: { other_key: 1 } }
  bob:
    module: ./ann.mjs
    supervision: *sup
orchestration: { strategy: custom, module: ./script.mjs, config: { max_rounds: 3 } }
max_concurrent_agents: 2
communication:
  response_timeout_ms: 5e3
sync_points:
  - { name: met, required_agents: [ann, bob], timeout_ms: 50 }
`.replace('supervision: *sup', 'supervision: { max_restarts: 1 }'),
    'ann.mjs': AGENT,
    'script.mjs': 'export default {}',
  })
  const { href } = pathToFileURL(join(at, 'ann.mjs'))
  const { registry: _, ...options } = await loadTeam(file)
  t.strictSame(options, {
    resolveFrom: pathToFileURL(file),
    agents: [
      {
        canDelegateTo: [],
        systemPrompt: 'Be kind.\n',
        limits: { maxHeapMb: 64, turnTimeoutMs: false },
        capabilities: [{ name: 'sums', inputTypes: ['text'] }],
        weight: Number.NaN,
        data: { some_key: { other_key: 1 } },
        name: 'ann',
        module: href,
      },
      { canDelegateTo: [], supervision: { maxRestarts: 1 }, name: 'bob', module: href },
    ],
    orchestration: {
      strategy: 'custom',
      module: pathToFileURL(join(at, 'script.mjs')).href,
      config: { max_rounds: 3 },
    },
    maxConcurrentAgents: 2,
    communication: { responseTimeoutMs: 5_000 },
    syncPoints: [{ name: 'met', requiredAgents: ['ann', 'bob'], timeoutMs: 50 }],
  })
})

t.test('a class is found in a file beside the team, under each of its spellings', async (t) => {
  for (const name of ['MyAgent.mjs', 'my_agent.js', 'my-agent.mts']) {
    const { file, at } = folder(t, { 'agents.yaml': 'agents: { ann: { class: MyAgent } }', [name]: AGENT })
    const { agents } = await loadTeam(file)
    t.equal(agents[0]!.module, pathToFileURL(join(at, name)).href)
  }
})

t.test('a file that exports its class by name, for nobody, is refused with what to do', async (t) => {
  const load = (code: string) =>
    loadTeam(folder(t, { 'agents.yaml': 'agents: { ann: { class: MyAgent } }', 'my_agent.js': code }).file)
  const fields = "{ systemPrompt: 'You are MyAgent.', contextStrategy: { strategy: 'hierarchical' } }"
  for (const code of [
    `export const MyAgent = ${fields}\n${AGENT}`,
    `// MyAgent\n${AGENT}\nexport const MyAgent = {\n  name: 'MyAgent',\n}`,
    `export const MyAgent: Partial<AgentRole> = ${fields}\n${AGENT}`,
    `export class MyAgent {}\n${AGENT}`,
  ])
    await t.rejects(
      load(code),
      {
        code: 'CONFIGURATION',
        message:
          /agents\.yaml:1:25: agents\.ann\.class: .*my_agent\.js exports MyAgent.*loadTeam\(file, \{ agents: \{ MyAgent/,
      },
      code,
    )
  for (const code of [
    `export const MyAgent = { receive: () => 'done' }\nexport default MyAgent`,
    `export const MyAgent = defineAgent({})\n${AGENT}`,
    `export const MyAgents = ${fields}\n${AGENT}`,
    `/*\nexport const MyAgent = ${fields}\n*/\n${AGENT}`,
  ])
    t.match((await load(code)).agents[0]?.module, /my_agent\.js$/, code)
})

t.test('what was given by name goes before a file of that name', async (t) => {
  const { file } = folder(t, { 'agents.yaml': 'agents: { ann: { class: MyAgent } }', 'MyAgent.js': AGENT })
  const { agents } = await loadTeam(file, { agents: { MyAgent: { name: 'any', description: 'given' } } })
  t.strictSame(agents, [{ canDelegateTo: [], name: 'ann', description: 'given' }])
})

t.test('aliases repeat what they name', async (t) => {
  const { file } = folder(t, {
    'agents.yaml': 'agents:\n  ann:\n    limits: &small { max_heap_mb: 16 }\n  bob:\n    limits: *small\n',
  })
  const { agents } = await loadTeam(file)
  t.same(agents[1]!.limits, { maxHeapMb: 16 })
})

t.test('a path is relative to the working directory, and modules to the file', async (t) => {
  const { at } = folder(t, {})
  mkdirSync(join(at, 'team'))
  writeFileSync(join(at, 'team', 'agents.yaml'), 'agents: { ann: { module: ../ann.mjs } }')
  writeFileSync(join(at, 'ann.mjs'), AGENT)
  const { agents } = await loadTeam(join(at, 'team', 'agents.yaml'))
  t.equal(agents[0]!.module, pathToFileURL(join(at, 'ann.mjs')).href)
})

t.test('a schema of answers, of the team and of a role, in the file or beside it', async (t) => {
  const schema = { type: 'object', properties: { snake_case: { type: 'string' } }, required: ['snake_case'] }
  const { file } = folder(t, {
    'reply.json': JSON.stringify(schema),
    'agents.yaml': `output: ./reply.json
agents:
  output:
    can_delegate_to: []
    output: { type: object, properties: { snake_case: { type: string } }, required: [snake_case] }
  other:
    output: reply.json
`,
  })
  const { output, agents } = await loadTeam(file)
  t.strictSame([output, ...agents.map((role) => role.output)], [schema, schema, schema])
  const missing = folder(t, { 'agents.yaml': 'agents:\n  ann:\n    output: ./none.json\n' })
  await t.rejects(loadTeam(missing.file), { code: 'CONFIGURATION', details: { path: 'agents.ann.output', line: 3 } })
})

// Classes that an agents.yaml names without code of its own.

function readyClassesFolder(t: Test, files: Record<string, string>): { at: string; file: string } {
  const at = t.testdir(files)
  return { at, file: join(at, 'agents.yaml') }
}

/** A team of that file, whose models answer as the scripts of their agents say. */
async function desk(t: Test, file: string, scripts: Record<string, Answer[]>) {
  const asked: Record<string, ModelRequest[]> = {}
  const model = new FakeModel((request) => {
    const { agent = '' } = request
    asked[agent] = [...(asked[agent] ?? []), request]
    return scripts[agent]?.shift() ?? 'nothing more'
  })
  const team = testTeam(await loadTeam(file), { model })
  t.teardown(() => team.close())
  return { team, asked }
}

const toolsOf = (request: ModelRequest | undefined) => request?.tools?.map(({ name }) => name).sort()

t.test('a conversation that agents hand on', async (t) => {
  const { file } = readyClassesFolder(t, {
    'agents.yaml': `orchestration: { strategy: handoff, start: triage, history: task }
max_handoffs: 1
agents:
  triage: { can_handoff_to: [billing] }
  billing: { can_handoff_to: [triage] }
`,
  })
  const hands = (to: string) => calls(['handoff', { to, task: 'Look at the invoice.' }])
  const { team, asked } = await desk(t, file, { triage: [hands('billing')], billing: ['It is wrong.'] })
  t.match(await team.execute('My invoice?'), { finalOutput: 'It is wrong.', speaker: 'billing' })
  t.same(toolsOf(asked.triage?.[0]), ['handoff', 'refuse'])
  t.same(toolsOf(asked.billing?.[0]), ['refuse'], 'the bound is reached')
})

t.test("document 003's file as it stands: a conversation, a plan, a file that is written, a report", async (t) => {
  const { at, file } = readyClassesFolder(t, { 'agents.yaml': REGISTRY })
  const { team, asked } = await desk(t, file, {
    orchestrator: [
      calls(['clarify_with_user', { question: 'Which operations?' }]),
      calls(['create_task_plan', { goal: 'a calculator', tasks: ['write it'] }]),
      calls(['delegate_to_executor', { task: 'Write calc.py.' }]),
      'I am at it.',
      'calc.py is there.',
    ],
    task_executor: [
      calls(['decompose_task', { subtasks: ['write it'] }]),
      calls(['write_file', { path: 'calc.py', content: 'print(1 + 1)\n' }]),
      calls(['mark_subtask_complete', {}]),
      'written',
    ],
  })
  team.events.subscribe((event) => {
    if (event.type === 'question') void team.getRun(event.runId)?.answer(event.questionId, 'plus')
  })
  t.equal((await team.execute('I need a web calculator')).finalOutput, 'calc.py is there.')
  t.equal(readFileSync(join(at, 'workspace', 'calc.py'), 'utf8'), 'print(1 + 1)\n')
  t.same(toolsOf(asked.orchestrator?.[0]), [
    'clarify_with_user',
    'create_task_plan',
    'delegate_to_executor',
    'get_executor_status',
  ])
  t.match(asked.orchestrator?.[0]?.messages[0]?.content, /^You are an orchestrator agent that helps users plan and/)
  t.equal(asked.orchestrator?.[1]?.messages.at(-1)?.content, 'plus')
  t.same(
    toolsOf(asked.task_executor?.[0])?.filter((name) => !['escalate', 'refuse'].includes(name)),
    ['decompose_task', 'list_dir', 'mark_subtask_complete', 'read_file', 'run_cmd', 'write_file'],
  )
  t.match(textOf(asked.orchestrator!.at(-1)!.messages.at(-1)!.content), /"task_executor" has done it: written/)
})

t.test(
  'agent_config.yaml holds for both, the executor works by its prompt, and asks who gave it the task',
  async (t) => {
    const { file } = readyClassesFolder(t, {
      'agents.yaml': REGISTRY,
      'agent_config.yaml':
        'llm: { model: fast, system_prompt: Execute it. }\ncontext: { history_keep: 5, max_tokens: 8000 }\nrounds: { max_per_subtask: 7 }\n',
    })
    const { agents } = await loadTeam(file)
    t.match(agents, [
      {
        systemPrompt: /^You are an orchestrator agent/,
        model: 'fast',
        maxTokens: 8_000,
        maxRounds: 200,
        contextStrategy: { strategy: 'append_until_full', threshold: 0.8, keepRecent: 20 },
      },
      {
        systemPrompt: 'Execute it.',
        maxRounds: 7,
        contextStrategy: { strategy: 'hierarchical', historyKeep: 5 },
        escalateTo: 'orchestrator',
      },
    ])
    t.notOk('maxTokens' in agents[1]!, 'the limit of the orchestrator is not the window of the executor')
  },
)

t.test('rounds of a sub-task do not bound a conversation with the user', async (t) => {
  const { file } = readyClassesFolder(t, {
    'agents.yaml': REGISTRY,
    'agent_config.yaml': 'rounds: { max_per_subtask: 2 }\n',
  })
  const questions = Array.from({ length: 13 }, (_, i) => calls(['clarify_with_user', { question: `What is ${i}?` }]))
  const { team, asked } = await desk(t, file, { orchestrator: [...questions, 'Now I know it all.'] })
  team.events.subscribe((event) => {
    if (event.type === 'question') void team.getRun(event.runId)?.answer(event.questionId, 'that')
  })
  t.equal((await team.execute('I need a web calculator')).finalOutput, 'Now I know it all.')
  t.equal(asked.orchestrator?.length, 14)
})

t.test('an orchestrator whose model never answers comes to an end', async (t) => {
  const { file } = readyClassesFolder(t, { 'agents.yaml': REGISTRY })
  const plans = Array.from({ length: 250 }, (_, i) => calls(['create_task_plan', { goal: `plan ${i}`, tasks: ['go'] }]))
  const { team, asked } = await desk(t, file, { orchestrator: plans })
  t.match((await team.execute('go')).error, { message: /no answer after 200 rounds/ })
  t.equal(asked.orchestrator?.length, 201, 'its rounds, and the summary of what it escalates')
})

t.test('the workspace is beside the file, or where the entry says', async (t) => {
  for (const [entry, place] of [
    ['', 'workspace'],
    ['workspace: work/here', 'work/here'],
    ['workspace: { root: "w#1 %20", allow: [node], timeout_ms: 5000 }', 'w#1 %20'],
    ['workspace: { allow: [node] }', 'workspace'],
  ] as const) {
    const { at, file } = readyClassesFolder(t, {
      'agents.yaml': `agents:\n  hand:\n    class: TaskExecutorAgent\n    ${entry}\n`,
    })
    const { team } = await desk(t, file, { hand: [calls(['write_file', { path: 'a.txt', content: 'a' }]), 'done'] })
    t.equal((await team.execute('go')).finalOutput, 'done', entry)
    t.ok(existsSync(join(at, place, 'a.txt')), entry)
    t.same(await team.reload(), { added: [], regranted: [], outdated: [] }, 'the same entry is the same role')
    writeFileSync(file, `${readFileSync(file, 'utf8')}  other: { class: TaskExecutorAgent }\n`)
    t.same(await team.reload(), { added: ['other'], regranted: [], outdated: [] }, entry)
  }
})

t.test('what is wrong about a class or its workspace is told with its place', async (t) => {
  for (const [entry, message] of [
    ['class: TaskExecutorAgnet', /agents\.yaml:3:12: agents\.ann\.class: .*Did you mean "TaskExecutorAgent"/],
    ['class: TaskExecutorAgent\n    workspace: /', /agents\.yaml:4:16: agents\.ann\.workspace: .*the whole machine/],
    [
      'class: TaskExecutorAgent\n    workspace: { alow: [node] }',
      /agents\.yaml:4:\d+: agents\.ann\.workspace.*no option "alow"/,
    ],
    ['class: TaskExecutorAgent\n    workspace: 3', /agents\.yaml:4:16: agents\.ann\.workspace: got 3/],
    ['class: OrchestratorAgent\n    workspace: work', /agents\.yaml:4:16: agents\.ann\.workspace: .*TaskExecutorAgent/],
    ['system_prompt: hi\n    workspace: work', /agents\.yaml:4:16: agents\.ann\.workspace: .*TaskExecutorAgent/],
  ] as const) {
    const { file } = readyClassesFolder(t, { 'agents.yaml': `agents:\n  ann:\n    ${entry}\n` })
    await t.rejects(loadTeam(file), { code: 'CONFIGURATION', message }, entry)
  }
})

t.test('a class of the caller, or a file beside the agents.yaml, goes before a ready one', async (t) => {
  const { at, file } = readyClassesFolder(t, { 'agents.yaml': 'agents:\n  ann: { class: OrchestratorAgent }\n' })
  const given = await loadTeam(file, { agents: { OrchestratorAgent: { name: 'x', systemPrompt: 'mine' } } })
  t.equal(given.agents[0]?.systemPrompt, 'mine')
  mkdirSync(at, { recursive: true })
  writeFileSync(join(at, 'orchestrator_agent.mjs'), 'export default {}')
  t.match((await loadTeam(file)).agents[0]?.module, /orchestrator_agent\.mjs$/)
})

t.test(
  'experts by name have their tools, and a supervisor of those of document 004 gives each 10 seconds',
  async (t) => {
    const EXPERTS = {
      WeatherAgent: ['weather'],
      FinanceAgent: ['exchange_rate', 'stock_price'],
      TravelAgent: ['weather', 'sights'],
      GeneralAgent: [],
      ResearchAgent: ['web_search', 'read_webpage'],
      UtilityAgent: ['calculator', 'convert', 'run_code'],
    }
    const desk = (experts: readonly string[], more = '') => `agents:
  chief: {}
${Object.keys(EXPERTS)
  .map((name) => `  ${name.toLowerCase()}: { class: ${name} }\n`)
  .join(
    '',
  )}orchestration: { strategy: supervisor, supervisor: chief, experts: [${experts.join(', ').toLowerCase()}]${more} }
`
    const ofCity = ['WeatherAgent', 'FinanceAgent', 'TravelAgent', 'GeneralAgent']
    const loaded = async (experts: readonly string[], more?: string) =>
      loadTeam(readyClassesFolder(t, { 'agents.yaml': desk(experts, more) }).file)
    const { agents, orchestration } = await loaded(ofCity)
    for (const [name, tools] of Object.entries(EXPERTS)) {
      const role = agents.find((each) => each.name === name.toLowerCase())
      t.same(role?.tools?.map((tool) => Object(tool).name) ?? [], tools, name)
      t.type(role?.description, 'string')
    }
    t.match(orchestration, { timeoutPerAgentMs: 10_000 })
    t.match((await loaded(ofCity, ', timeout_per_agent_ms: 3000')).orchestration, { timeoutPerAgentMs: 3_000 })
    t.notOk('timeoutPerAgentMs' in (await loaded([...ofCity, 'ResearchAgent'])).orchestration)
  },
)

t.test(
  "document 001's three classes: the orchestrator plans for the workers, and delegates by its plan alone",
  async (t) => {
    const workers = '  research: { class: ResearchAgent }\n  utility: { class: UtilityAgent }\n'
    const agents = `agents:\n  chief: { class: OrchestratorAgent }\n${workers}`
    const planned = `${agents}orchestration: { strategy: supervisor, supervisor: chief, experts: [research, utility] }\n`
    const { team, asked } = await desk(t, readyClassesFolder(t, { 'agents.yaml': planned }).file, {
      chief: [
        '{"tasks":[{"agent":"utility","task":"6 * 7","tool":"calculator","input":{"expression":"6*7"}}],"reasoning":"sum"}',
        'It is 42.',
      ],
      utility: ['42'],
    })
    t.equal((await team.execute('What is 6 times 7?')).finalOutput, 'It is 42.')
    t.same(asked.chief?.map(toolsOf), [undefined, undefined])
    t.match(asked.chief?.[0]?.messages[0]?.content, /^You coordinate/)
    t.match(asked.utility?.[0]?.messages.at(-1)?.content, /Its result:\n\n42/)
    const talks = await loadTeam(readyClassesFolder(t, { 'agents.yaml': agents }).file)
    t.ok(talks.agents[0]?.tools?.includes('delegate_to_executor'), 'elsewhere it is that of document 003')
  },
)

t.test('a travel agent by name answers with sights and their sources', async (t) => {
  const { file } = readyClassesFolder(t, { 'agents.yaml': 'agents:\n  guide: { class: TravelAgent }\n' })
  const { team, asked } = await desk(t, file, { guide: [calls(['sights', { city: '台北' }]), '台北101'] })
  t.equal((await team.execute('台北有什麼景點？')).finalOutput, '台北101')
  t.match(asked.guide?.[1]?.messages.at(-1)?.content, /"Taipei 101".*https:\/\/en\.wikipedia\.org\/wiki\/Taipei_101"/)
})

t.test('a ready class has the variables that the command line has read from a file', async (t) => {
  const asked: (string | undefined)[] = []
  const server = createServer(({ url }, response) => {
    asked.push(url)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"results":[]}')
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  addToEnvironment({ SEARXNG_URL: `http://127.0.0.1:${port}` })
  const { file } = readyClassesFolder(t, { 'agents.yaml': 'agents:\n  finder: { class: ResearchAgent }\n' })
  const { team } = await desk(t, file, { finder: [calls(['web_search', { query: 'towers' }]), 'none'] })
  t.equal((await team.execute('Which towers are there?')).finalOutput, 'none')
  t.match(asked, [/^\/search\?.*q=towers/])
})

t.test(
  'a finance agent is told the shares of TSMC by a symbol that its service has, with a key or without',
  async (t) => {
    const { file } = readyClassesFolder(t, { 'agents.yaml': 'agents:\n  bank: { class: FinanceAgent }\n' })
    for (const { agents } of [await loadTeam(file), cityDesk()]) {
      const prompt = agents.map(({ systemPrompt = '' }) => systemPrompt).find((text) => text.includes('TSMC'))
      const [, symbol = ''] = /TSMC are (\S+) /.exec(prompt ?? '') ?? []
      t.equal(stooq.question(symbol, undefined, '').url.searchParams.get('s'), 'tsm.us')
      t.equal(alphaVantage.question(symbol, undefined, 'key').url.searchParams.get('symbol'), 'TSM')
    }
  },
)
