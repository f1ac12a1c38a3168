/** Classes that an agents.yaml names without code of its own. */
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { cityDesk } from '../../examples/city-desk/team.ts'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { loadTeam } from '../../src/index.ts'
import { addToEnvironment } from '../../src/shared/environment.ts'
import { testTeam } from '../../src/testing.ts'
import { alphaVantage, stooq } from '../../src/tools/stock-price.ts'
import { type Answer, calls, FakeModel } from '../models/fake-model.ts'

/** Document 003's own file. */
const REGISTRY = `agents:
  orchestrator:
    class: OrchestratorAgent
    can_delegate_to: [task_executor]

  task_executor:
    class: TaskExecutorAgent
    can_delegate_to: []
`

function folder(t: Test, files: Record<string, string>): { at: string; file: string } {
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

t.test("document 003's file as it stands: a conversation, a plan, a file that is written, a report", async (t) => {
  const { at, file } = folder(t, { 'agents.yaml': REGISTRY })
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
    const { file } = folder(t, {
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
  const { file } = folder(t, { 'agents.yaml': REGISTRY, 'agent_config.yaml': 'rounds: { max_per_subtask: 2 }\n' })
  const questions = Array.from({ length: 13 }, (_, i) => calls(['clarify_with_user', { question: `What is ${i}?` }]))
  const { team, asked } = await desk(t, file, { orchestrator: [...questions, 'Now I know it all.'] })
  team.events.subscribe((event) => {
    if (event.type === 'question') void team.getRun(event.runId)?.answer(event.questionId, 'that')
  })
  t.equal((await team.execute('I need a web calculator')).finalOutput, 'Now I know it all.')
  t.equal(asked.orchestrator?.length, 14)
})

t.test('an orchestrator whose model never answers comes to an end', async (t) => {
  const { file } = folder(t, { 'agents.yaml': REGISTRY })
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
    const { at, file } = folder(t, {
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
    const { file } = folder(t, { 'agents.yaml': `agents:\n  ann:\n    ${entry}\n` })
    await t.rejects(loadTeam(file), { code: 'CONFIGURATION', message }, entry)
  }
})

t.test('a class of the caller, or a file beside the agents.yaml, goes before a ready one', async (t) => {
  const { at, file } = folder(t, { 'agents.yaml': 'agents:\n  ann: { class: OrchestratorAgent }\n' })
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
      loadTeam(folder(t, { 'agents.yaml': desk(experts, more) }).file)
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
    const { team, asked } = await desk(t, folder(t, { 'agents.yaml': planned }).file, {
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
    const talks = await loadTeam(folder(t, { 'agents.yaml': agents }).file)
    t.ok(talks.agents[0]?.tools?.includes('delegate_to_executor'), 'elsewhere it is that of document 003')
  },
)

t.test('a travel agent by name answers with sights and their sources', async (t) => {
  const { file } = folder(t, { 'agents.yaml': 'agents:\n  guide: { class: TravelAgent }\n' })
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
  const { file } = folder(t, { 'agents.yaml': 'agents:\n  finder: { class: ResearchAgent }\n' })
  const { team } = await desk(t, file, { finder: [calls(['web_search', { query: 'towers' }]), 'none'] })
  t.equal((await team.execute('Which towers are there?')).finalOutput, 'none')
  t.match(asked, [/^\/search\?.*q=towers/])
})

t.test(
  'a finance agent is told the shares of TSMC by a symbol that its service has, with a key or without',
  async (t) => {
    const { file } = folder(t, { 'agents.yaml': 'agents:\n  bank: { class: FinanceAgent }\n' })
    for (const { agents } of [await loadTeam(file), cityDesk()]) {
      const prompt = agents.map(({ systemPrompt = '' }) => systemPrompt).find((text) => text.includes('TSMC'))
      const [, symbol = ''] = /TSMC are (\S+) /.exec(prompt ?? '') ?? []
      t.equal(stooq.question(symbol, undefined, '').url.searchParams.get('s'), 'tsm.us')
      t.equal(alphaVantage.question(symbol, undefined, 'key').url.searchParams.get('symbol'), 'TSM')
    }
  },
)
