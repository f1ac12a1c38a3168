/** Times over HTTP are ISO 8601, in all that the API gives but its streams. */
import t from 'tap'
import { defineAgent } from '../../../src/index.ts'
import { stage } from './stage.ts'

const TIMES = [
  'createdAt',
  'endedAt',
  'askedAt',
  'answerBy',
  'sentAt',
  'at',
  'since',
  'timestamp',
  'startedAt',
  'deadline',
]

/** The times within a value, by their names. */
function timesIn(value: unknown): [name: string, time: unknown][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inside]) =>
    TIMES.includes(name) && inside !== null ? [[name, inside]] : timesIn(inside),
  )
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

t.test('tasks, questions, waits, messages, traces, entries and dead letters have such times', async (t) => {
  const worker = defineAgent({
    async receive({ content }, context) {
      await context.blackboard.write('found', 1, 'fact')
      return content === 'ask' ? context.ask('Which color?') : content
    },
  })
  const { send, team } = stage(t, worker)
  const { body: done } = await send('POST', '/api/tasks', { body: { query: 'go' } })
  const asks = team.launch('ask')
  while (team.questions().length === 0) await new Promise(setImmediate)
  await team.sendMessage({ recipient: 'nobody', content: 'x' }).catch(() => {})
  const found = new Set<string>()
  for (const path of [
    '/api/tasks',
    `/api/tasks/${done.id}`,
    `/api/tasks/${asks.id}`,
    `/api/tasks/${done.id}/messages`,
    `/api/tasks/${done.id}/trace?as=json`,
    `/api/tasks/${done.id}/blackboard`,
    `/api/tasks/${done.id}/blackboard/found/history`,
    '/api/questions',
    '/api/waits',
    '/api/turns',
    '/api/dead-letters',
  ]) {
    const { status, body } = await send('GET', path)
    t.equal(status, 200, path)
    for (const [name, time] of timesIn(body)) {
      found.add(name)
      t.match(time, ISO, `${path}: ${name}`)
    }
  }
  for (const name of ['askedAt', 'at', 'createdAt', 'endedAt', 'sentAt', 'since', 'startedAt', 'timestamp'])
    t.ok(found.has(name), name)
  await asks.answer(team.questions()[0]!.questionId, 'red')
  await asks.result
})
