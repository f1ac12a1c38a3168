/** Teams by A2A 1.0: clients of both bindings ask, follow, answer and cancel; strangers get nowhere. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { httpApi } from '../../../src/service/api/index.ts'
import { serve } from '../../../src/service/commands/serve.ts'
import { opening, served } from '../chat/desk.ts'
import { fakeSurroundings } from '../fake-team.ts'
import { answerOf, joined, rpc, type Sent, sendTo, stateOf, textMessage } from './client.ts'

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
