/** The research desk of document 001, as a new user starts it. */
import { createTeam, type ModelClient } from 'dramatis'
import t from 'tap'
import { recordedSearch } from '../../examples/lib/recorded-search.ts'
import { modelsFrom } from '../../examples/research-desk/keys.ts'
import { PAGES, playedModel, QUESTION } from '../../examples/research-desk/session.ts'
import desk, { researchDesk } from '../../examples/research-desk/team.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { gate } from '../kit/team.ts'
import { send } from '../service/http/stage.ts'
import { start } from './start.ts'

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
  t.same(Object.keys(desk), Object.keys(options), 'the team file has the same desk')
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
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
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const team = createTeam({ ...desk, logger: silent })
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
