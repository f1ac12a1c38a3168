/** The desks as a new user starts them, the research desk among them. */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { createTeam, type ModelClient, ModelError } from 'dramatis'
import t from 'tap'
import { keywordModel } from '../../examples/city-desk/keyword-model.ts'
import { recordedServices } from '../../examples/city-desk/recorded-services.ts'
import { cityDesk } from '../../examples/city-desk/team.ts'
import { recordedSearch } from '../../examples/lib/recorded-search.ts'
import { modelsFrom } from '../../examples/research-desk/keys.ts'
import { PAGES, playedModel, QUESTION } from '../../examples/research-desk/session.ts'
import researchTeam, { researchDesk } from '../../examples/research-desk/team.ts'
import desk from '../../examples/served-desk/team.ts'
import { createTeam as servedDeskCreateTeam } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { folderOf } from '../durability/log-folders.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { gate, silent } from '../kit/team.ts'
import { send } from '../service/http/stage.ts'
import { start } from './start.ts'

// The two desks, as a new user starts them: without a key, and without a network.

t.test('the city desk answers a question of three parts, in Chinese', async (t) => {
  const { status, stdout, stderr } = start('city-desk', ['查台積電股價和美金匯率，台北今天會下雨嗎？'])
  t.equal(status, 0, stderr)
  t.match(stdout, /查台積電股價: .*"price":228\.57,"currency":"USD"/)
  t.match(stdout, /美金匯率: .*"rate":31\.913/)
  t.match(stdout, /台北今天會下雨嗎: .*"rainChancePercent":73/)
  t.match(stderr, /^finance <- 查台積電股價$/m)
  t.match(stderr, /^weather <- 台北今天會下雨嗎$/m)
})

t.test('FLOW_MODE makes the city desk one agent with tools, or a fixed flow', async (t) => {
  const question = ['台北今天會下雨嗎？']
  const tools = start('city-desk', question, { FLOW_MODE: 'tools' })
  t.match(tools.stdout, /"rainChancePercent":73/, tools.stderr)
  t.notMatch(tools.stderr, ' <- ', 'nobody is given a part of it')
  const graph = start('city-desk', question, { FLOW_MODE: 'graph' })
  for (const agent of ['weather', 'finance', 'travel']) t.match(graph.stderr, `${agent} <- 台北今天會下雨嗎？`)
  const { status, stderr } = start('city-desk', question, { FLOW_MODE: 'swarm' })
  t.equal(status, 1)
  t.match(stderr, /^FLOW_MODE: got "swarm".*$/m)
  t.notMatch(stderr, /^ +at /m, 'its own words, and no trace of the stack')
})

/** As by keywords, but with an expert, or all of them, that cannot answer. */
const failing = (who: RegExp): ModelClient => ({
  async *complete(request) {
    if (who.test(request.agent ?? '')) throw new ModelError('The model is asleep.', {})
    yield* keywordModel.complete(request)
  },
})

t.test('who fails is named in the answer of the city desk; if all fail it says so', async (t) => {
  const { origin: services, close } = await recordedServices()
  t.teardown(close)
  const ask = async (who: RegExp) => {
    await using team = createTeam({ ...cityDesk({ services, models: { default: failing(who) } }), logger: silent })
    const { finalOutput, error } = await team.execute('台積電股價和台北天氣')
    return finalOutput ?? error?.message
  }
  const partly = await ask(/finance/)
  t.match(partly, /台積電股價: not found out: .*The model is asleep/)
  t.match(partly, /台北天氣: .*"rainChancePercent"/)
  t.equal(await ask(/finance|weather/), '抱歉，這次沒能找到答案，請稍後再試。')
})

t.test('the coding desk plays its session with real files and commands, and leaves nothing behind', async (t) => {
  const { status, stdout, stderr } = start('coding-desk')
  t.equal(status, 0, stderr)
  t.equal(stdout, 'The calculator is done: calculator.js, with tests, which pass. Division by zero throws.\n')
  t.match(stderr, 'asked: Which operations? (+, -, *, / | + and - alone)')
  t.equal(stderr.match(/^ {2}task_executor: run_cmd$/gm)?.length, 2, 'the test ran before the fix, and after it')
  t.match(stderr, /^ {2}task completed: orchestrator: I need a calculator package\.$/m)
  t.notOk(existsSync('workspace'))
})

// The coding desk with a model: a conversation at the terminal. The session that is played without one is above.

/** What resolves when that has been printed since it was asked last. */
function reader(child: ChildProcess, stream: Readable) {
  const over = new AbortController()
  child.once('close', () => over.abort())
  let text = ''
  stream.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  return async (what: RegExp) => {
    while (!what.test(text)) await once(stream, 'data', { signal: over.signal })
    text = ''
  }
}

async function talk(child: ChildProcessWithoutNullStreams): Promise<void> {
  const said = reader(child, child.stdout)
  const shown = reader(child, child.stderr)
  await shown(/> $/)
  child.stdin.write('I need a calculator.\n')
  await shown(/Which operations\? \(all \| plus alone\) $/)
  child.stdin.write('plus alone\n')
  await said(/^Plus it is\.\n$/)
  child.stdin.write('Why?\n')
  await said(/^You said so\.\n$/)
  child.stdin.end()
}

t.test('it asks what is unclear, goes on with the answer, and remembers what was said', async (t) => {
  const server = await modelServer(t)
  const question = { question: 'Which operations?', choices: ['all', 'plus alone'] }
  server.answer({ toolCalls: [{ name: 'clarify_with_user', input: question }] }, 'Plus it is.', 'You said so.')
  const env = { ...process.env, OPENAI_API_KEY: 'a-key', OPENAI_BASE_URL: server.baseURL, DRAMATIS_MODEL: 'small' }
  const child = spawn(process.execPath, ['dist/examples/coding-desk/main.js'], { env: { ...env, TMPDIR: t.testdir() } })
  t.teardown(() => child.kill())
  const ended = once(child, 'exit')
  await talk(child)
  t.same(await ended, [0, null])
  const said = server.calls.map(({ body }) => body.messages.map(({ role, content }) => `${role}: ${content}`).slice(1))
  t.same(said[0], ['user: I need a calculator.'])
  t.equal(said[1]?.at(-1), 'tool: plus alone')
  t.same(
    [said[2]?.[0], said[2]?.at(-2), said[2]?.at(-1)],
    ['user: I need a calculator.', 'assistant: Plus it is.', 'user: Why?'],
  )
})

// The desk whose process is killed three times, as a new user starts it.

t.test('a process that is killed three times loses nothing, and does nothing twice', async (t) => {
  const folder = folderOf(t)
  const { status, stdout, stderr } = start('night-desk', [], { TMPDIR: folder })
  t.equal(status, 0, stderr)
  const deaths = stderr.match(/SIGKILL: .*/g) ?? []
  t.strictSame(deaths, [
    'SIGKILL: a model was asked, and the desk had no answer yet.',
    'SIGKILL: a refund was booked, and the desk did not know it yet.',
    'SIGKILL: a question to a person was open.',
  ])
  t.match(stderr, /Process 4:\n {2}It goes on with the log\.\n {2}Order A-1043 .* A person says yes\./)
  const orders = stdout.match(/^Order .*$/gm) ?? []
  t.strictSame(orders, [
    'Order A-1041: broken, 89.00 EUR refunded.',
    'Order A-1042: unwanted, 40.50 EUR refunded.',
    'Order A-1043: broken, 1299.00 EUR refunded.',
    'Order A-1044: late, 23.00 EUR refunded.',
    'Order A-1045: broken, 67.00 EUR refunded.',
    'Order A-1046: unwanted, 143.10 EUR refunded.',
  ])
  t.match(stdout, /14 requests, each answered once/)
  t.match(stdout, /Model calls that were made: 7; \d came twice, .* The log has 7 answers,/)
  t.match(stdout, /Refunds that were booked: 6, for 6 entries in the ledger; \d came twice,/)
  t.same(readdirSync(folder), [], 'its log is gone')
})

// The desk that `npm run serve` serves: it asks, crashes, goes on, and tells all of it over HTTP.

t.test('a task asks a person, survives the crash of its clerk, and tells both', async (t) => {
  const team = servedDeskCreateTeam({ ...desk, logger: silent })
  const authorize = () => ({ id: 'me', may: ['run', 'watch', 'approve'] as const })
  const api = httpApi({ teams: { desk: team }, authorize, approveOwn: true, logger: silent })
  t.teardown(() => api.close({ teams: true }))
  const begun = await send(api, 'POST', '/api/tasks', {
    body: { query: 'Furnish my office.' },
    headers: { prefer: 'respond-async' },
  })
  const path = begun.headers.get('location')!
  const events = team.getRun(begun.body.id)!.events({ types: ['question'] })
  for await (const _question of events) break
  const { questions } = (await send(api, 'GET', '/api/questions')).body
  t.match(questions, [{ agent: 'buyer', text: /buy.*lamp/s }])
  const answer = { questionId: questions[0].questionId, answer: 'yes', digest: questions[0].digest }
  t.equal((await send(api, 'POST', `${path}/answers`, { body: answer })).status, 204)
  const { body: task } = await send(api, 'GET', `${path}?wait=60`)
  t.match(task, { status: 'finished', rehearsed: true, answer: /bought: lamp, 49 EUR/ }) // the tool has run
  t.match((await send(api, 'GET', `${path}/messages?agent=buyer&type=response`)).body.messages, [{ sender: 'buyer' }])
  t.equal((await send(api, 'GET', `${path}/blackboard?type=offer`)).body.entries.length, 3)
  const { body: stream } = await send(api, 'GET', `${path}/events?types=agent.crashed`)
  t.match(stream, /"agent":"clerk"/)
})

// The research desk of document 001, as a new user starts it.

t.test('the desk plans, researches, calculates, replans what fails, and answers', async (t) => {
  const { status, stdout, stderr } = start('research-desk')
  t.equal(status, 0, stderr)
  for (const version of [20, 22]) {
    t.match(stderr, `ResearchAgent: web_search {"query":"Node.js ${version} end of life"}`)
    t.match(stderr, new RegExp(`ResearchAgent: read_webpage .*/releases/${version}"`))
  }
  t.match(stderr, /calculator failed: .*servers is not known.*What is done in the place of sub-task 4 /s)
  const [subTasks = '', results = ''] = stdout.match(/(?<=# (Sub-tasks|Results)\n\n)(\{.*\}\n)+/g) ?? []
  t.same(subTasks.match(/(?<="assignedAgentRole":")\w+/g)?.sort(), [
    'ResearchAgent',
    'ResearchAgent',
    'UtilityAgent',
    'UtilityAgent',
    'UtilityAgent',
  ])
  t.match(subTasks, /"toolName":"run_code".*"contextSummary":".*2026-04-30.*2027-04-30/)
  t.equal(results.match(/"status":"COMPLETED"/g)?.length, 4)
  t.match(results, /"workerAgentRole":"UtilityAgent","status":"COMPLETED","resultData":"365"/)
  t.match(
    stdout,
    /# Answer\n\nSupport of Node\.js 20 ends on 2026-04-30.* 365 days, and takes 8\.4 hours for 14 servers\.\n$/,
  )
})

t.test('two researchers work at the same time', async (t) => {
  const web = await recordedSearch(PAGES)
  t.teardown(() => web.close())
  const played = playedModel(web.origin)
  const both = gate()
  let arrived = 0
  const research: ModelClient = {
    async *complete(request) {
      arrived += 1
      if (arrived === 2) both.open()
      await both.opened // the first one is not answered before the second one has come
      yield* played.complete(request)
    },
  }
  const models = { orchestrator: played, research }
  const options = researchDesk({ searchUrl: web.origin, readable: [new URL(web.origin).host], models })
  await using team = createTeam(options)
  const { finalOutput, error } = await team.execute(QUESTION)
  t.equal(error, null)
  t.match(finalOutput, /gains 365 days/)
  played.assertDone()
})

t.test('each role has the key that is named for it, and no key is in what the team is told', async (t) => {
  const own = { ORCHESTRATOR_GEMINI_API_KEY: 'one', RESEARCH_AGENT_GEMINI_API_KEY: 'two' }
  t.match(modelsFrom(own), {
    orchestrator: { apiKeyEnv: 'ORCHESTRATOR_GEMINI_API_KEY' },
    research: { apiKeyEnv: 'RESEARCH_AGENT_GEMINI_API_KEY' },
  })
  t.match(modelsFrom({ ORCHESTRATOR_GEMINI_API_KEY: 'one' }), {
    research: { apiKeyEnv: 'ORCHESTRATOR_GEMINI_API_KEY' },
  })
  t.match(modelsFrom({ OPENAI_API_KEY: 'three', DRAMATIS_MODEL: 'small' }), {
    orchestrator: { model: 'small', apiKeyEnv: 'OPENAI_API_KEY' },
  })
  t.equal(modelsFrom({}), undefined)
})

t.test('the desk answers over HTTP as it does in a program', async (t) => {
  const web = await recordedSearch(PAGES)
  t.teardown(() => web.close())
  const played = playedModel(web.origin)
  const models = { orchestrator: played, research: played }
  const options = researchDesk({ searchUrl: web.origin, readable: [new URL(web.origin).host], models })
  t.same(Object.keys(researchTeam), Object.keys(options), 'the team file has the same desk')
  const team = createTeam({ ...options, logger: silent })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run'] }), logger: silent })
  t.teardown(() => api.close({ teams: true }))
  const { body } = await send(api, 'POST', '/api/tasks', { body: { query: QUESTION } })
  t.match(body, { status: 'finished', answer: /gains 365 days/ })
  const { body: history } = await send(api, 'GET', `/api/tasks/${body.id}/messages?agent=UtilityAgent`)
  t.match(history.messages, [{}, {}])
  played.assertDone()
})

t.test('served without a key it answers by its tools, and says what it did not look up', async (t) => {
  const team = createTeam({ ...researchTeam, logger: silent })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run', 'watch'] }), logger: silent })
  t.teardown(() => api.close({ teams: true }))
  for (const [query, answer] of [
    ['What is 1000 * 1.05 ^ 2, and who discovered helium?', /: 1102\.5\n.*helium: Without a key/],
    ['12 + 30', /12 \+ 30: 42$/],
    ['Who discovered helium?', /nothing is looked up/],
    ['3 - x, (1 + 1', /^\[without a model\]\n/],
  ] as const) {
    const { status, body } = await send(api, 'POST', '/api/process-multi-agent-task', { body: { query } })
    t.equal(status, 200, query)
    t.match(body, { status: 'finished', answer }, query)
  }
})
