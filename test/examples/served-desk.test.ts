/** The desk that `npm run serve` serves: it asks, crashes, goes on, and tells all of it over HTTP. */
import t from 'tap'
import desk from '../../examples/served-desk/team.ts'
import { createTeam } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { send } from '../service/http/stage.ts'

t.test('a task asks a person, survives the crash of its clerk, and tells both', async (t) => {
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const team = createTeam({ ...desk, logger: silent })
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
