/** Teams by A2A: tasks by both bindings, URLs that are told how tasks stand, and a service that is killed. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { serve } from '../../../src/service/commands/serve.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { silent } from '../../kit/team.ts'
import { opening, served } from '../chat/desk.ts'
import { ServedShop } from '../chat/served-shop.ts'
import { fakeSurroundings } from '../fake-team.ts'
import { callerOf } from '../http/stage.ts'
import { answerOf, joined, rpc, type Sent, sendTo, stateOf, textMessage } from './client.ts'

// Teams by A2A 1.0: clients of both bindings ask, follow, answer and cancel; strangers get nowhere.

const a2a = true

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
type Any = any

/** The same methods by their paths. */
async function byPath(url: string, method: string, params: Any, given: object = {}): Promise<Sent> {
  const { id, ...rest } = params
  const at: Record<string, [verb: string, path: string]> = {
    SendMessage: ['POST', '/message:send'],
    SendStreamingMessage: ['POST', '/message:stream'],
    GetTask: ['GET', `/tasks/${id}`],
    CancelTask: ['POST', `/tasks/${id}:cancel`],
    SubscribeToTask: ['POST', `/tasks/${id}:subscribe`],
    ListTasks: ['GET', `/tasks?${new URLSearchParams(rest)}`],
    GetExtendedAgentCard: ['GET', '/extendedAgentCard'],
  }
  const [verb, path] = at[method]!
  const { status, data, ids } = await sendTo(url, path, verb === 'POST' ? rest : undefined, { ...given, method: verb })
  const error = data.find((each) => each.error)?.error
  const info = error?.details?.[0].reason
  return { status, ids, rpcIds: ['r1'], results: error ? [] : data, error: error && { ...error, reason: info } }
}

const bindings = { 'JSON-RPC': rpc, paths: byPath }

for (const [binding, send] of Object.entries(bindings)) {
  t.test(`${binding}: a message is answered as a task, whole or as a stream, and again with its id`, async (t) => {
    const { url, done } = await served(t, { a2a })
    const message = textMessage('use find lamp')
    const first = (await send(url, 'SendMessage', message)).results[0].task
    t.match([stateOf(first), answerOf(first)], ['COMPLETED', 'result: {"done":"lamp"}'])
    const again = await send(url, 'SendStreamingMessage', message)
    t.match([again.results.length, again.results[0].task.id], [1, first.id])
    t.same(done, ['find lamp'])
    const streamed = await send(url, 'SendStreamingMessage', textMessage('say hello big world'))
    t.equal(stateOf(streamed.results[0]).replace('SUBMITTED', 'WORKING'), 'WORKING')
    t.equal(stateOf(streamed.results.at(-1)), 'COMPLETED')
    t.equal(joined(streamed.results).trim(), 'hello big world')
    t.ok(streamed.results.filter((each) => each.artifactUpdate).length > 2, 'words come one by one')
    t.same(streamed.rpcIds, ['r1'])
    const retold = (await send(url, 'SendStreamingMessage', textMessage('use find sofa'))).results
    const pieces = retold.filter(({ artifactUpdate }) => artifactUpdate && !artifactUpdate.lastChunk)
    t.match(pieces[0].artifactUpdate.artifact.parts, [{ text: /Let me see/ }])
    t.equal(joined(pieces), 'result: {"done":"sofa"}', 'words before a call are no part of the answer')
    const { id } = streamed.results[0].task
    t.equal(answerOf((await send(url, 'GetTask', { id })).results[0])?.trim(), 'hello big world')
    const other = await send(url, 'SendMessage', { message: { ...message.message, parts: [{ text: 'other' }] } })
    t.match(other.error.message, /MESSAGE_REJECTED/)
  })

  t.test(`${binding}: a task that asks its caller goes on with the answer, once`, async (t) => {
    const { url, done } = await served(t, { a2a })
    const events = (await send(url, 'SendStreamingMessage', textMessage('use buy lamp'))).results
    t.equal(stateOf(events.at(-1)), 'INPUT_REQUIRED')
    const { taskId, status } = events.at(-1).statusUpdate
    const [words, shown] = status.message.parts
    const { questionId, digest } = shown.data
    t.match([shown.data.kind, status.message.metadata], ['approval', { questionId, digest }])
    const [, code] = /"yes ([\da-f]{8})"/.exec(words.text)!
    const told = async (text: string, more: object = {}) =>
      send(url, 'SendMessage', textMessage(text, { taskId, ...more }))
    t.match((await told('yes')).error.message, /"yes .*agrees to/, 'it may be another approval by now')
    t.match((await told('yes 00000000')).error.message, /"yes .*agrees to/)
    t.same(done, [])
    const yes = (await told(`yes ${code}, please`)).results[0].task
    t.match([stateOf(yes), answerOf(yes)], ['COMPLETED', 'result: {"done":"lamp"}'])
    const data = { questionId, digest, approved: true }
    t.equal(stateOf((await told('', { parts: [{ data }] })).results[0]), 'COMPLETED', 'the answer is sent again')
    t.same(done, ['buy lamp'])
  })

  t.test(`${binding}: a task is seen, listed, cancelled and followed by its caller alone`, async (t) => {
    const gate = opening()
    const { url } = await served(t, { a2a, pause: (word) => (word === 'slowly' ? gate.promise : undefined) })
    const configuration = { returnImmediately: true }
    const begun = await send(url, 'SendMessage', { ...textMessage('say slowly', { contextId: 'talk' }), configuration })
    const { id, contextId, status } = begun.results[0].task
    t.match([contextId, /SUBMITTED|WORKING/.test(status.state)], ['talk', true])
    for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask'])
      for (const [caller, team, of] of [
        ['bob:run', 'shop', id],
        ['ann:run', 'clerk', id],
        ['ann:run', 'shop', 'none'],
      ]) {
        const { error } = await send(url, method, { id: of }, { caller, team })
        const message = error.message.replace(String(of), 'ID')
        t.match(
          [error.code, message],
          [binding === 'paths' ? 404 : -32_001, 'There is no task "ID", or it is not yours.'],
        )
      }
    const stolen = await send(url, 'SendMessage', textMessage('x', { taskId: id }), { caller: 'bob:run' })
    t.match(stolen.error.message, /^There is no task/)
    const listed = async (filter: object, given = {}) => (await send(url, 'ListTasks', filter, given)).results[0]
    t.match(await listed({}), { tasks: [{ id }], totalSize: 1, nextPageToken: '' })
    t.same((await listed({}, { caller: 'bob:run' })).tasks, [])
    t.same((await listed({ status: 'TASK_STATE_COMPLETED' })).tasks, [])
    t.same((await listed({ contextId: 'other' })).tasks, [])
    t.equal((await listed({ status: 'TASK_STATE_UNSPECIFIED' })).totalSize, 1)
    t.match((await send(url, 'ListTasks', { status: 'done' })).error.message, /params\.status/)
    const followed = send(url, 'SubscribeToTask', { id })
    t.equal(stateOf((await send(url, 'CancelTask', { id })).results[0]), 'CANCELED')
    t.equal(stateOf((await followed).results.at(-1)), 'CANCELED')
    t.match((await send(url, 'SubscribeToTask', { id })).error.message, /It is over: get the task/)
    t.match((await send(url, 'SendMessage', textMessage('x', { taskId: id }))).error.message, /takes no more messages/)
    const mixed = textMessage('x', { taskId: id, contextId: 'other' })
    t.match((await send(url, 'SendMessage', mixed)).error.message, /^There is no task/)
    gate.resolve()
    const fine = (await send(url, 'SendMessage', textMessage('say hello', { contextId: 'talk' }))).results[0].task
    t.match((await send(url, 'CancelTask', { id: fine.id })).error.message, 'It is finished.')
    t.match((await listed({ pageSize: 1 })).nextPageToken, fine.id)
    t.match((await listed({ pageSize: 1, pageToken: fine.id, includeArtifacts: true })).tasks, [{ id }])
  })

  t.test(`${binding}: nonsense has an error that says what is wrong`, async (t) => {
    const { url } = await served(t, { a2a })
    const { message } = textMessage('say hello')
    const table: [params: object, error: RegExp][] = [
      [{}, /^CONFIGURATION: params\.message: /],
      [{ message: { ...message, messageId: '' } }, /messageId/],
      [{ message: { ...message, role: 'ROLE_AGENT' } }, /message\.role/],
      [{ message: { ...message, parts: [] } }, /message\.parts/],
      [{ message: { ...message, parts: Array(101).fill({ text: 'a' }) } }, /message\.parts/],
      [{ message: { ...message, parts: [{ text: ' ' }] } }, /no words/],
      [{ message: { ...message, parts: [{ url: 'file:///etc/passwd' }] } }, /parts\[0\]/],
      [{ message: { ...message, parts: [{}] } }, /one of text, data, raw and url/],
      [{ message: { ...message, taskId: 'none' } }, /There is no task "none"/],
    ]
    for (const [params, error] of table) t.match((await send(url, 'SendMessage', params)).error.message, error)
    for (const version of ['0.3', '2.0', 'x']) {
      const { error } = await send(url, 'SendMessage', { message }, { headers: { 'a2a-version': version } })
      t.match(error.message, `A2A-Version: "${version}" is not served. Served is 1.0.`)
    }
    t.equal((await send(url, 'SendMessage', { message }, { headers: { 'a2a-version': '1.0' } })).results.length, 1)
  })
}

t.test('what is no request of JSON-RPC has an error with its id', async (t) => {
  const { url } = await served(t, { a2a, limits: { bodyBytes: 1_000 } })
  const table: [body: unknown, code: number, id: unknown, status?: number][] = [
    ['{', -32_700, null],
    ['[]', -32_600, null],
    [[{ jsonrpc: '2.0', id: 1, method: 'GetTask' }], -32_600, null],
    [{ jsonrpc: '2.0', id: 7, method: 3 }, -32_600, 7],
    [{ jsonrpc: '2.0', id: { a: 1 }, method: 'GetTask' }, -32_600, null],
    [{ jsonrpc: '1.0', id: 7, method: 'GetTask' }, -32_600, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'constructor' }, -32_601, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'message/send' }, -32_009, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'CreateTaskPushNotificationConfig' }, -32_003, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'GetTask' }, -32_602, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'SendStreamingMessage', params: {} }, -32_602, 7],
    [{ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 'x'.repeat(2_000) } }, -32_602, null],
  ]
  for (const [body, code, id] of table) {
    const { data } = await sendTo(url, '', body)
    t.match([data[0].id, data[0].error.code], [id, code], JSON.stringify(body))
  }
  const { status, data } = await sendTo(url, '', {}, { headers: { 'content-type': 'text/plain' } })
  t.match([status, data[0].error.code], [200, -32_005])
  t.equal((await sendTo(url, '/nothing', {})).status, 404)
  t.equal((await sendTo(url, '', {}, { caller: '' })).status, 401)
  t.equal((await sendTo(url, '', {}, { caller: 'eve:watch' })).status, 403)
  t.equal((await sendTo(url, '', {}, { team: 'none' })).status, 404)
})

t.test('an approval of others is none for the one who asked, by hand-made requests too', async (t) => {
  const { url, team, done } = await served(t, { a2a: { waitMs: 50 } })
  const { id } = (await rpc(url, 'SendMessage', textMessage('use pay lamp'))).results[0].task
  while (team.questions(id).length === 0) await new Promise(setImmediate)
  const [task] = (await rpc(url, 'GetTask', { id })).results
  t.equal(stateOf(task), 'WORKING')
  t.match(JSON.stringify(task), /waits for people other than you/)
  t.notMatch(JSON.stringify(task), /questionId|digest|lamp/)
  const [{ questionId, digest, text }] = team.questions(task.id) as [Any]
  const { id: taskId } = task
  const parts = [{ data: { questionId, digest, approved: true } }]
  const refused = await rpc(url, 'SendMessage', textMessage('', { taskId, parts }))
  t.match(refused.error.message, /^ANSWER_REFUSED: /)
  const named = textMessage('yes', { taskId, metadata: { questionId, digest } })
  t.match((await rpc(url, 'SendMessage', named)).error.message, /^ANSWER_REFUSED: /)
  t.match((await rpc(url, 'SendMessage', textMessage('yes', { taskId }))).error.message, /people other than you/)
  const stranger = await rpc(url, 'SendMessage', named, { caller: 'bob:run,approve' })
  t.match(stranger.error.message, /There is no task/)
  t.same(done, [])
  const followed = rpc(url, 'SubscribeToTask', { id: taskId })
  await team
    .getRun(taskId)!
    .answer(questionId, 'yes', { by: { id: 'eve', groups: [] }, approveOwn: false, digest } as Any)
  t.equal(stateOf((await followed).results.at(-1)), 'COMPLETED')
  t.same([done, text.includes('lamp')], [['pay lamp'], true])
})

t.test('questions, forms and refusals of approvals have their answers', async (t) => {
  const table: [team: string, query: string, answer: object[], said: RegExp][] = [
    ['clerk', 'ask', [{ text: 'red' }], /^you said red$/],
    ['shop', 'use ship lamp', [{ data: { street: 'Main Street' } }], /Main Street/],
    ['shop', 'use ship parcel', [{ text: '{"answer":"left","floor":2}' }], /left.*floor.*2/],
    ['shop', 'use buy sofa', [{ text: 'no CODE' }], /did not agree/],
    [
      'shop',
      'use buy sofa',
      [{ data: { questionId: 'ID', digest: 'DIGEST', reason: 'too dear' } }],
      /did not agree.*too dear/,
    ],
    ['shop', 'use buy sofa', [{ data: { questionId: 'ID', digest: 'DIGEST', answer: 'whatever' } }], /did not agree/],
  ]
  const { url, done } = await served(t, { a2a })
  for (const [team, query, answer, expected] of table) {
    const asked = (await rpc(url, 'SendMessage', textMessage(query), { team })).results[0].task
    const [words, { data }] = asked.status.message.parts
    const code = /"yes ([\da-f]{8})"/.exec(words.text)?.[1] ?? ''
    const parts = JSON.parse(
      JSON.stringify(answer)
        .replace('CODE', code)
        .replace('"ID"', `"${data.questionId}"`)
        .replace('DIGEST', data.digest),
    )
    const { results, error } = await rpc(url, 'SendMessage', textMessage('', { taskId: asked.id, parts }), { team })
    t.match(answerOf(results[0]) ?? error, expected, query)
  }
  t.same(done, [])
  const failed = (await rpc(url, 'SendMessage', textMessage('fail'), { team: 'clerk' })).results[0].task
  t.match([stateOf(failed), failed.status.message.parts[0].text], ['FAILED', /no ink/])
  const form = (await rpc(url, 'SendMessage', textMessage('use ship parcel'))).results[0].task
  const wrong = await rpc(url, 'SendMessage', textMessage('', { taskId: form.id, parts: [{ data: { floor: 0 } }] }))
  t.match(wrong.error.message, /^CONFIGURATION: /)
  t.equal(stateOf((await rpc(url, 'GetTask', { id: form.id })).results[0]), 'INPUT_REQUIRED', 'it still asks')
})

t.test('a stream goes on behind the last event that its client has seen', async (t) => {
  const { url } = await served(t, { a2a })
  const { ids, results } = await rpc(url, 'SendStreamingMessage', textMessage('use buy lamp'))
  const { id } = results[0].task
  const more = await rpc(url, 'SubscribeToTask', { id }, { headers: { 'last-event-id': ids.at(-1)! } })
  t.match(
    more.results.map((each) => Object.keys(each)[0]),
    ['task', 'statusUpdate'],
  )
  const wrong = await rpc(url, 'SubscribeToTask', { id }, { headers: { 'last-event-id': 'x' } })
  t.match([wrong.error.code, wrong.rpcIds], [-32_602, ['r1']])
})

t.test('a context is a conversation of its caller', async (t) => {
  const { url } = await served(t, { a2a })
  const say = async (text: string, more: object, given = {}) =>
    (await rpc(url, 'SendMessage', textMessage(text, more), given)).results[0]?.task
  const first = await say('say one', {})
  t.equal(first.contextId, first.id)
  const { contextId } = first
  t.match(answerOf(await say('recall', { contextId })), /say one\|recall/)
  t.equal(await say('recall', { contextId }, { caller: 'bob:run' }), undefined)
})

t.test('a stranger reads what a team is called, and a caller who its agents are', async (t) => {
  const { url } = await served(t, { a2a: { url: 'https://agents.example.com/' } })
  const card = async (path: string, caller?: string): Promise<Any> =>
    (await fetch(`${url}${path}`, { headers: { ...(caller && { 'x-caller': caller }) } })).json()
  const open = await card('/.well-known/agent-card.json')
  t.match(open, {
    name: 'shop',
    supportedInterfaces: [
      { url: 'https://agents.example.com/a2a/shop', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { protocolBinding: 'HTTP+JSON' },
    ],
    capabilities: { streaming: true, extensions: undefined },
    skills: [{ id: 'shop' }],
  })
  t.equal(open.skills.length, 1)
  t.match((await card('/a2a/clerk/.well-known/agent-card.json', 'ann:run')).skills, [
    { id: 'clerk' },
    { id: 'clerk.clerk' },
  ])
  t.equal((await card('/a2a/shop/.well-known/agent-card.json', 'eve:watch')).skills.length, 1)
  t.match((await rpc(url, 'GetExtendedAgentCard', {})).results, [{ skills: [{ id: 'shop' }, { id: 'shop.shop' }] }])
})

t.test('a team that cannot be served is named', async (t) => {
  const { team } = await served(t, {})
  const api = (a2a: object) => httpApi({ teams: { shop: team }, authorize: () => null, a2a })
  t.throws(() => api({ teams: ['desk'] }), { code: 'CONFIGURATION', message: /a2a\.teams.*"desk"/ })
  t.throws(() => api({ wait: 1 }), { code: 'CONFIGURATION', message: /a2a\.wait/ })
  const { url } = await served(t, {})
  t.equal((await fetch(`${url}/.well-known/agent-card.json`)).status, 404)
})

t.test('without a token a client of `dramatis serve --a2a` approves its own calls only by --approve-own', async (t) => {
  process.env.EFFECTS = t.testdir()
  const file = fileURLToPath(new URL('../../fixtures/mcp/shop-team.js', import.meta.url))
  for (const approveOwn of [false, true]) {
    const { surroundings, stderr } = fakeSurroundings()
    const closing = opening()
    const flags = { port: 0, host: '127.0.0.1', a2a: true, drain: 0, approveOwn }
    const over = serve([`shop=${file}`], flags, surroundings, { begun: closing.promise, stop() {} })
    while (!/By A2A.*\n.*approve.*\n/.test(stderr())) await new Promise(setImmediate)
    t.equal(stderr().includes('by A2A it may not'), !approveOwn)
    const url = /serves shop at (\S+)/.exec(stderr())![1]!
    const configuration = { returnImmediately: true }
    const begun = await rpc(url, 'SendMessage', { ...textMessage('use pay rent'), configuration })
    const { id: taskId } = begun.results[0].task
    const asked = async (): Promise<Any> => {
      const task = (await (await fetch(`${url}/api/tasks/${taskId}`)).json()) as { questions: Any[] }
      return task.questions[0] ?? asked()
    }
    const { questionId, digest, refusal } = await asked()
    t.equal(refusal, null, 'the person at the dashboard may')
    const seen = (await rpc(url, 'GetTask', { id: taskId })).results[0]
    t.equal(stateOf(seen), approveOwn ? 'INPUT_REQUIRED' : 'WORKING')
    const parts = [{ data: { questionId, digest, approved: true } }]
    const { results, error } = await rpc(url, 'SendMessage', textMessage('', { taskId, parts }))
    t.match(
      approveOwn ? stateOf(results[0]) : error.message,
      approveOwn ? 'COMPLETED' : /^ANSWER_REFUSED: "a2a" may not/,
    )
    closing.resolve()
    await over
  }
})

// Push notifications of A2A: URLs are told how their tasks stand, also after crashes, and nobody else is.

/** A program that is told of tasks, and answers as it is said: with 200 behind that. */
async function receiver(t: Test, answers: (number | 'hang up')[] = []) {
  const got: { headers: Any; path: string; task: Any }[] = []
  const tries: string[] = []
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('')
    const status = answers.shift() ?? 200
    tries.push(request.url!)
    if (status === 'hang up') return request.socket.destroy()
    if (status === 200) got.push({ headers: request.headers, path: request.url!, ...JSON.parse(body) })
    response.writeHead(status, { location: '/elsewhere' }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const states = () => got.map(({ task }) => stateOf(task))
  const until = async (isSo: (states: string[]) => boolean) => {
    while (!isSo(states())) await nextTurn()
  }
  return { got, tries, origin, until, states }
}

/** The same methods by their paths. */
async function pushByPath(url: string, method: string, { taskId, id, ...body }: Any, given = {}): Promise<Sent> {
  const [verb, path] = (
    {
      SendMessage: ['POST', '/message:send'],
      CreateTaskPushNotificationConfig: ['POST', `/tasks/${taskId}/pushNotificationConfigs`],
      ListTaskPushNotificationConfigs: ['GET', `/tasks/${taskId}/pushNotificationConfigs`],
      GetTaskPushNotificationConfig: ['GET', `/tasks/${taskId}/pushNotificationConfigs/${id}`],
      DeleteTaskPushNotificationConfig: ['DELETE', `/tasks/${taskId}/pushNotificationConfigs/${id}`],
    } as Record<string, [string, string]>
  )[method]!
  const whole = method.startsWith('Create') && id ? { ...body, id } : body
  const { status, data, ids } = await sendTo(url, path, verb === 'POST' ? whole : undefined, { ...given, method: verb })
  const error = data.find((each) => each.error)?.error
  return { status, ids, rpcIds: [], results: error ? [] : data, error }
}

for (const [binding, send] of Object.entries({ 'JSON-RPC': rpc, paths: pushByPath })) {
  t.test(`${binding}: a URL is told what its task asks, and its end, with what it knows it by`, async (t) => {
    const { got, origin, until, states } = await receiver(t)
    const { url } = await served(t, { a2a: { push: [origin] } })
    const taskPushNotificationConfig = {
      url: `${origin}/hook?a=1`,
      token: 'opaque',
      authentication: { scheme: 'Bearer', credentials: 'sesame' },
    }
    const begun = await send(url, 'SendMessage', {
      ...textMessage('use buy lamp'),
      configuration: { returnImmediately: true, taskPushNotificationConfig },
    })
    const { id: taskId } = begun.results[0].task
    await until((seen) => seen.includes('INPUT_REQUIRED'))
    const asked = got.at(-1)!
    t.match(asked.headers, {
      'content-type': 'application/a2a+json',
      authorization: 'Bearer sesame',
      'x-a2a-notification-token': 'opaque',
    })
    t.match([asked.path, asked.task.id], ['/hook?a=1', taskId])
    const { questionId, digest } = asked.task.status.message.metadata
    const listed = (await send(url, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs
    t.match(listed, [{ taskId, url: taskPushNotificationConfig.url, authentication: { scheme: 'Bearer' } }])
    t.notMatch(JSON.stringify(listed), 'sesame')
    const data = { questionId, digest, approved: true }
    await send(url, 'SendMessage', textMessage('', { taskId, parts: [{ data }] }))
    await until((seen) => seen.includes('COMPLETED'))
    t.equal(answerOf(got.at(-1)!.task), 'result: {"done":"lamp"}')
    t.same(
      states().filter((state) => state !== 'SUBMITTED' && state !== 'WORKING'),
      ['INPUT_REQUIRED', 'COMPLETED'],
    )
    t.same(
      states().filter((state, at) => state === states()[at - 1]),
      [],
      'each once, where nothing fails',
    )
    while ((await send(url, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs.length > 0)
      await nextTurn()
  })

  t.test(`${binding}: configs are made, read, replaced and deleted by the task's caller alone`, async (t) => {
    const { got, origin, until } = await receiver(t)
    const { url } = await served(t, { a2a: { push: [origin] } })
    const task = (await send(url, 'SendMessage', textMessage('use buy lamp'))).results[0].task
    const taskId = task.id
    const create = (given: object, more = {}) =>
      send(url, 'CreateTaskPushNotificationConfig', { taskId, url: `${origin}/one`, ...given }, more)
    t.match((await create({ id: 'a' })).results, [{ id: 'a', taskId, url: `${origin}/one` }])
    await until((seen) => seen.length === 1)
    t.match((await create({ id: 'a', url: `${origin}/two` })).results, [{ id: 'a', url: `${origin}/two` }])
    const unnamed = (await create({})).results[0]
    t.equal((await create({})).results[0].id, unnamed.id, 'the same again is no other one')
    await until((seen) => seen.length >= 3)
    t.match((await send(url, 'GetTaskPushNotificationConfig', { taskId, id: 'a' })).results, [{ url: `${origin}/two` }])
    const bob = { caller: 'bob:run' }
    for (const method of ['List', 'Get', 'Delete', 'Create']) {
      const params = { taskId, id: 'a', ...(method === 'Create' && { url: origin }) }
      const name = `${method}TaskPushNotificationConfig${method === 'List' ? 's' : ''}`
      t.match((await send(url, name, params, bob)).error.message, /no task/, `${method} of somebody else`)
    }
    t.same((await send(url, 'DeleteTaskPushNotificationConfig', { taskId, id: 'a' })).error, undefined)
    t.same((await send(url, 'DeleteTaskPushNotificationConfig', { taskId, id: unnamed.id })).error, undefined)
    t.match((await send(url, 'GetTaskPushNotificationConfig', { taskId, id: 'a' })).error.message, /no task/)
    const told = got.length
    await rpc(url, 'CancelTask', { id: taskId })
    const next = (
      await send(url, 'SendMessage', {
        ...textMessage('use find sofa'),
        configuration: { taskPushNotificationConfig: { url: `${origin}/next` } },
      })
    ).results[0].task
    await until(() => got.some(({ task }) => task.id === next.id && stateOf(task) === 'COMPLETED'))
    t.same(
      got.slice(told).filter(({ task }) => task.id === taskId),
      [],
      'what was deleted is told no more',
    )
  })
}

t.test('what may not be told anything is refused by its field, and nothing begins', async (t) => {
  const { url: plain } = await served(t, { a2a: true })
  const { url: anywhere, done } = await served(t, { a2a: { push: true } })
  const { url: listed } = await served(t, { a2a: { push: ['https://hooks.example.com', 'http://127.0.0.1:1'] } })
  const rows: [url: string, config: object, RegExp][] = [
    [plain, { url: 'https://example.com' }, /not served here \(a2a\.push\)/],
    [anywhere, { url: 'http://93.184.216.34/' }, /is no https URL/],
    [anywhere, { url: 'https://127.0.0.1/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://[::1]:8443/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://localhost/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://2130706433/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://10.1.2.3/' }, /leads to an address of a private network/],
    [anywhere, { url: 'https://169.254.169.254/latest' }, /leads to a link-local address/],
    [anywhere, { url: 'https://[::ffff:10.0.0.1]/' }, /leads to an IPv4 address within/],
    [anywhere, { url: 'https://ann:secret@93.184.216.34/' }, /has a user name or a password/],
    [anywhere, { url: 'https://nobody.invalid/' }, /cannot be resolved/],
    [anywhere, { url: 'file:///etc/passwd' }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: 'no URL' }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: `https://example.com/${'x'.repeat(3_000)}` }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: 'https://93.184.216.34/', token: 'a\r\nx: y' }, /taskPushNotificationConfig\.token: visible/],
    [anywhere, { url: 'https://93.184.216.34/', authentication: { scheme: 'a b' } }, /authentication\.scheme: /],
    [anywhere, { url: 'https://93.184.216.34/', id: 'x'.repeat(300) }, /taskPushNotificationConfig\.id: /],
    [listed, { url: 'https://example.com/' }, /is none of those that may be told/],
    [listed, { url: 'https://hooks.example.com.evil.example/' }, /is none of those that may be told/],
    [listed, { url: 'http://hooks.example.com/' }, /is none of those that may be told/],
  ]
  for (const [url, taskPushNotificationConfig, error] of rows) {
    const sent = await rpc(url, 'SendMessage', {
      ...textMessage('use find lamp'),
      configuration: { taskPushNotificationConfig },
    })
    t.match(sent.error?.message, error, JSON.stringify(taskPushNotificationConfig).slice(0, 80))
  }
  t.same(done, [], 'nothing has begun')
  const cards = [plain, anywhere].map(async (url) => (await fetch(`${url}/.well-known/agent-card.json`)).json())
  t.match(await Promise.all(cards), [
    { capabilities: { pushNotifications: false } },
    { capabilities: { pushNotifications: true } },
  ])
  const { id: taskId } = (await rpc(listed, 'SendMessage', textMessage('use buy lamp'))).results[0].task
  const create = (id: number) =>
    rpc(listed, 'CreateTaskPushNotificationConfig', { taskId, id: `${id}`, url: 'http://127.0.0.1:1/' })
  for (let id = 0; id < 10; id++) t.equal((await create(id)).error, undefined)
  t.match((await create(10)).error.message, /up to 10/)
  await t.rejects(served(t, { a2a: { push: ['example.com'] } }), /a2a\.push/)
})

t.test('a receiver that fails is told again, one that is gone is not, and no redirect is followed', async (t) => {
  const warned: object[] = []
  const logger = { ...silent, warn: (fields: object) => warned.push(fields) }
  const poor = await receiver(t, [500])
  const { url, api: first, team } = await served(t, { a2a: { push: [poor.origin] } })
  const taskPushNotificationConfig = { url: `${poor.origin}/hook` }
  const send = () =>
    rpc(url, 'SendMessage', { ...textMessage('use find lamp'), configuration: { taskPushNotificationConfig } })
  await send()
  await poor.until((seen) => seen.includes('COMPLETED'))
  t.ok(poor.tries.length > 1 && poor.tries.every((path) => path === '/hook'))

  const gone = await receiver(t, [410])
  const open = (push: string[]) => httpApi({ teams: { shop: team }, authorize: callerOf, logger, a2a: { push } })
  const second = open([gone.origin])
  const ask = (api: typeof second, method: string, params: object) =>
    rpc('http://localhost', method, params, { fetch: (to, init) => api.fetch(new Request(to as string, init)) })
  const { results } = await ask(second, 'SendMessage', { ...textMessage('use find sofa'), configuration: { taskPushNotificationConfig: { url: gone.origin } } }) // biome-ignore format: one line
  const taskId = results[0].task.id
  while (warned.length === 0) await nextTurn()
  t.match([warned, gone.got], [[{ task: taskId, error: /410/ }], []])
  t.same((await ask(second, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs, [])

  // Each new service tries once at once; behind the seventh try it is given up.
  warned.length = 0
  const dead = await receiver(t, [302, 'hang up', 500, 404, 302, 503, 500])
  const config = { url: `${dead.origin}/hook` }
  let api = open([dead.origin])
  await second.close()
  await first.close()
  await ask(api, 'SendMessage', {
    ...textMessage('use find bed'),
    configuration: { taskPushNotificationConfig: config },
  })
  for (let tried = 1; tried < 7; tried++) {
    while (dead.tries.length < tried) await nextTurn()
    await team.flush()
    await nextTurn()
    const next = open([dead.origin])
    await api.close()
    api = next
  }
  while (warned.length === 0) await nextTurn()
  t.match(warned, [{ error: /answered with status 500/ }])
  t.same([dead.tries.every((path) => path === '/hook'), dead.got], [true, []])
  await api.close()
})

t.test('the service is killed at random moments: the end of each task is told', async (t) => {
  const { got, origin, until } = await receiver(t)
  const shop = new ServedShop(t, 'chat/served-shop', origin)
  for (let seed = 1; seed <= howMany(2, 50); seed++) {
    const dice = new Dice(seed)
    const message = {
      ...textMessage('use find lamp'),
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url: `${origin}/${seed}` } },
    }
    const killed = shop.killBehind(dice.upTo(200))
    let sent: Sent | undefined
    while (!sent?.results.length) {
      sent = await rpc('http://shop', 'SendMessage', message, { fetch: shop.fetch }).catch(() => undefined)
      await nextTurn()
    }
    await killed
    const { id } = sent.results[0].task
    await until(() => got.some(({ path, task }) => path === `/${seed}` && stateOf(task) === 'COMPLETED'))
    const told = got.filter(({ path }) => path === `/${seed}`)
    t.ok(
      told.every(({ task }) => task.id === id && stateOf(task) !== 'CANCELED'),
      `seed ${seed}`,
    )
  }
})

t.test('a team that closes tells no end that is none: the next process goes on', async (t) => {
  const { got, origin, until } = await receiver(t)
  const state = { path: t.testdir() }
  const held = opening()
  const first = await served(t, { a2a: { push: [origin] }, state, pause: () => held.promise } as Any)
  const { results } = await rpc(first.url, 'SendMessage', {
    ...textMessage('use buy lamp'),
    configuration: { returnImmediately: true, taskPushNotificationConfig: { url: origin } },
  })
  const { id } = results[0].task
  await until((seen) => seen.includes('INPUT_REQUIRED'))
  await first.close()
  held.resolve()
  const store = new FileStore(state.path)
  await compactLog(store, { keep: { runs: 0, days: 30, bytes: 2 ** 30 }, logger: silent })
  await store.close()
  const second = await served(t, { a2a: { push: [origin] }, state } as Any)
  await second.team.start()
  await until((seen) => seen.at(-1) === 'INPUT_REQUIRED')
  const { metadata } = got.at(-1)!.task.status.message
  await rpc(second.url, 'SendMessage', textMessage('yes', { taskId: id, metadata }))
  await until((seen) => seen.includes('COMPLETED'))
  t.notMatch(JSON.stringify(got), 'CANCELED')
})

// The service is killed between any two requests of a client: each message is one task, and its effect is there once.

t.test('the service is killed at random moments, also while it asks', async (t) => {
  const shop = new ServedShop(t)
  /** Tries until it works: nobody knows what has become of a request whose connection broke. */
  const send = async (method: string, params: object): Promise<Sent> => {
    for (;;) {
      const sent = await rpc('http://shop', method, params, { fetch: shop.fetch }).catch(() => undefined)
      if (sent?.error) throw new Error(JSON.stringify(sent.error))
      if (sent && sent.results.length > 0) return sent
      await new Promise(setImmediate)
    }
  }
  for (let seed = 1; seed <= howMany(3, 200); seed++) {
    const dice = new Dice(seed)
    const isStreamed = dice.pick([true, false])
    const message = textMessage('use buy lamp')
    const killed = shop.killBehind(dice.upTo(250))
    const ids = new Set<string>()
    let task: { id: string; status: { message?: { metadata: object } } }
    do {
      const { results } = await send(isStreamed ? 'SendStreamingMessage' : 'SendMessage', message) // at any time again
      ids.add(results[0].task.id)
      task = (await send('GetTask', { id: results[0].task.id })).results[0]
      if (stateOf(task) === 'INPUT_REQUIRED')
        await send('SendMessage', textMessage('yes', { taskId: task.id, metadata: task.status.message!.metadata }))
    } while (stateOf(task) !== 'COMPLETED')
    await killed
    t.equal(ids.size, 1, `seed ${seed}: it is one task`)
    t.equal(answerOf(task), 'result: {"done":"lamp"}')
    t.equal(shop.effects.length, seed, 'it was bought once')
  }
})
