/** The two desks, as a new user starts them: without a key, and without a network. */
import { existsSync } from 'node:fs'
import { createTeam, type ModelClient, ModelError } from 'dramatis'
import t from 'tap'
import { keywordModel } from '../../examples/city-desk/keyword-model.ts'
import { recordedServices } from '../../examples/city-desk/recorded-services.ts'
import { cityDesk } from '../../examples/city-desk/team.ts'
import { silent } from '../kit/team.ts'
import { start } from './start.ts'

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
