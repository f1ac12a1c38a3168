/** Words to a task while it works, over HTTP: who may say them, what is refused, and what the task shows of them. */
import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../../src/actors/definition/content.ts'
import type { MultiAgentPatternOptions } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate, silent } from '../../kit/team.ts'
import { FakeModel } from '../../models/fake-model.ts'
import { callerOf, send } from './stage.ts'

/** A desk whose model answers once it may. */
async function desk(t: Test, options: Partial<MultiAgentPatternOptions> = {}) {
  const [asked, held] = [gate(), gate()]
  const model = new FakeModel(async (_request, nth) => {
    asked.open()
    await held.opened
    return `answer ${nth}`
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent, ...options },
    { model },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent })
  t.teardown(async () => {
    held.open()
    await api.close()
    await team.close()
  })
  const ask = (method: string, path: string, body?: unknown, caller = 'joe:run') =>
    send(api, method, path, { ...(body !== undefined && { body }), caller, headers: { prefer: 'respond-async' } })
  const task = (await ask('POST', '/api/tasks', { query: 'How long?', threadId: 'joe' })).body
  const path = `/api/tasks/${task.id}`
  await asked.opened
  return { ask, path, held, model }
}

t.test('words are taken, and the task shows who has read them', async (t) => {
  const { ask, path, held, model } = await desk(t)
  const sent = await ask('POST', `${path}/steer`, { words: 'In metres.', id: 'a' })
  t.match(sent, { status: 202, body: { id: 'a', text: 'In metres.', to: null, by: 'joe', readBy: [], settled: null } })
  t.equal((await ask('POST', `${path}/steer`, { words: 'In metres.', id: 'a' })).body.at, sent.body.at)
  held.open()
  const { body } = await ask('GET', `${path}?wait=30`)
  t.match(body, { status: 'finished', answer: 'answer 1', steers: [{ id: 'a', readBy: ['ann'], settled: 'read' }] })
  t.equal(textOf(model.requests[1]!.messages.at(-1)!.content), 'In metres.')
  t.match(await ask('POST', `${path}/steer`, { words: 'In feet.' }), {
    status: 409,
    body: {
      code: 'RUN_ENDED',
      detail: 'The task has ended; send it as the next message of thread "joe".',
    },
  })
})

t.test('those of others take the right to operate', async (t) => {
  const { ask, path } = await desk(t)
  const words = { words: 'Stop.' }
  t.equal((await ask('POST', `${path}/steer`, words, 'eve:run')).status, 404)
  t.equal((await ask('POST', `${path}/steer`, words, 'eve:watch')).status, 403)
  t.match(await ask('POST', `${path}/steer`, words, 'eve:operate'), { status: 202, body: { by: 'eve' } })
})

t.test('an interruption cuts the call, and what cannot be said is refused', async (t) => {
  const input = [{ name: 'bombs', check: (text: string) => (text.includes('bomb') ? { refuse: 'No.' } : undefined) }]
  const { ask, path, held, model } = await desk(t, { guardrails: { input } })
  t.match(await ask('POST', `${path}/steer`, { words: 'a bomb' }), { status: 422, body: { code: 'GUARDRAIL' } })
  t.match(await ask('POST', `${path}/steer`, { words: 'x', to: 'eve' }), {
    status: 422,
    body: { code: 'UNKNOWN_AGENT' },
  })
  for (const body of [{}, { words: '' }, { words: 'x', when: 'now' }, { words: 'x', by: 'eve' }])
    t.equal((await ask('POST', `${path}/steer`, body)).status, 422)
  t.equal((await ask('POST', `${path}/steer`, { words: 'Stop: metres!', when: 'interrupt' })).status, 202)
  held.open()
  t.match((await ask('GET', `${path}?wait=30`)).body, { status: 'finished', steers: [{ settled: 'read' }] })
  t.match(model.requests.length, 2)
})

t.test('events tell of words and who has read them', async (t) => {
  const { ask, path, held } = await desk(t)
  await ask('POST', `${path}/steer`, { words: 'In metres.' })
  held.open()
  await ask('GET', `${path}?wait=30`)
  const { body } = await ask('GET', `${path}/events?types=steer,steer.read,steer.unread`)
  t.same(
    [...body.matchAll(/^event: (.*)$/gm)].map(([, type]) => type),
    ['steer', 'steer.read'],
  )
  t.match(body, /"text":"In metres."/)
})
