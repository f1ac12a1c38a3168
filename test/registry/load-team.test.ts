/** Teams written as YAML: what a good file comes to. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentRole, defineAgent, loadTeam } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'

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
