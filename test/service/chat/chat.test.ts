/** Teams behind chats: of the AI SDK, of AG-UI, and over connections that break. */
import type { UIMessage } from 'ai'
import t, { type Test } from 'tap'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { Dice } from '../../dice.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { howMany } from '../../how-many.ts'
import { silent } from '../../kit/team.ts'
import { answerIn, type Chat, openChat, opening, served } from './desk.ts'
import { ServedShop } from './served-shop.ts'

// A chat of the AI SDK has a team as its other side: what `useChat` sends is taken, and what it is sent is shown.

t.test('a message is shown as it is written, and its words are the answer of the run', async (t) => {
  const gate = opening()
  const { team, chat } = await served(t, { pause: (word) => (word === 'there' ? gate.promise : undefined) })
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'say Hello there' })
  await talk.until((shown) => shown.endsWith('text streaming: Hello '))
  gate.resolve()
  await sent
  t.same([talk.answer, talk.status, talk.errors], ['Hello there ', 'ready', []])
  t.equal(talk.answer, await finalOf(team))
  await talk.sendMessage({ text: 'think twice' })
  t.same(talk.shown.slice(-2), ['reasoning done: about twice', 'text done: thought'])
  await talk.sendMessage({ text: 'recall' })
  t.equal(talk.answer, 'say Hello there|think twice|recall ', 'the chat is one conversation')
})

t.test('calls of tools are shown with what they return, and words before them are not the answer', async (t) => {
  const { team, chat } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'use find lamp' })
  t.same(talk.shown.slice(2), [
    'text done: Let me see. ',
    'data-superseded {"reason":"tool_calls"}',
    'find output-available: {"done":"lamp"}',
    'text done: result: {"done":"lamp"}',
  ])
  t.equal(talk.answer, await finalOf(team))
  await talk.sendMessage({ text: 'use find nothing' })
  t.match(talk.shown.at(-2), /^find output-error: .*there is nothing/)
})

t.test('a run that fails is an error of the chat, which goes on', async (t) => {
  const { clerkChat } = await served(t)
  const talk = clerkChat('c')
  await talk.sendMessage({ text: 'fail' })
  t.match([talk.status, talk.errors], ['error', [/no ink/]])
})

t.test('an approval that is the callers own is offered: the call runs once, or not at all', async (t) => {
  const { team, done, chat } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'use buy lamp' })
  t.equal(talk.shown.at(-1), 'buy approval-requested: {"what":"lamp"}')
  t.same(done, [])
  await talk.approve(true)
  t.same(done, ['buy lamp'])
  t.equal(talk.messages.length, 2)
  t.equal(talk.shown.filter((part) => part.startsWith('buy ')).join(), 'buy output-available: {"done":"lamp"}')
  t.equal(talk.answer, await finalOf(team))
  await talk.sendMessage({ text: 'use buy car' })
  await talk.approve(false, 'too dear')
  t.same(done, ['buy lamp'])
  t.equal(talk.shown.filter((part) => part.startsWith('buy ')).join(), 'buy output-denied: {"what":"car"}')
  t.match(talk.answer, /too dear/)
})

t.test('an approval of others is told and not offered, and the answer comes when they have given theirs', async (t) => {
  const { team, done, chat, ask } = await served(t)
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'use pay rent' })
  await talk.until((shown) => shown.includes('data-approval'))
  t.match(talk.shown.at(-2), /^pay input-available/)
  t.match(talk.shown.at(-1), /"state":"waiting".*somebody else who may approve/)
  t.equal(talk.approval, undefined)
  const { runId, questionId, digest } = team.questions()[0]!
  const answer = { body: { questionId, answer: 'yes', digest }, caller: 'bob:approve' }
  t.equal((await ask('POST', `/api/tasks/${runId}/answers`, answer)).status, 204)
  await sent
  t.match(talk.shown.at(-2), /"state":"approved","by":\["bob"\]/)
  t.same([talk.answer, done], ['result: {"done":"rent"}', ['pay rent']])
})

t.test('who has asked answers no approval of others, by whatever request', async (t) => {
  const { team, done, chat, ask, url } = await served(t)
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'use pay rent' })
  await talk.until((shown) => shown.includes('data-approval'))
  const { runId, questionId, digest } = team.questions()[0]!
  const [user, message] = structuredClone(talk.messages) as [object, { parts: object[] }]
  const metadata = { dramatis: { runId, after: `${team.logName}.0` } }
  const approval = { id: `${questionId}.${digest}`, approved: true }
  const call = message.parts.find((part) => 'toolCallId' in part)!
  const last = (part: object) => ({ ...message, metadata, parts: [part] })
  const bodies = [
    { messages: [user, last({ ...call, state: 'approval-responded', approval })] },
    { messages: [last({ ...call, state: 'approval-responded', approval: { ...approval, approved: false } })] },
    { messages: [last(call)], answers: [{ questionId, answer: 'yes', digest }] },
    { messages: [last(call)], answers: [{ questionId, answer: { approved: true, input: { what: 'less' } }, digest }] },
  ]
  for (const caller of ['ann:run', 'ann:run,approve', 'ann:run,watch,operate,approve'])
    for (const body of bodies) {
      const { status, text } = await ask('POST', '/api/chat', { caller, body: { id: 'c', ...body } })
      t.match([status, text], [403, /ann began this run and cannot approve it|takes the right approve/])
    }
  for (const body of bodies)
    t.equal((await ask('POST', '/api/chat', { caller: 'bob:run,approve', body: { id: 'c', ...body } })).status, 404)
  const given = last({ ...call, state: 'output-available', output: { done: 'rent' } })
  const other = openChat(`${url}/api/chat`, 'c', { messages: [user, given] as never })
  void other.sendMessage()
  await other.until((shown) => shown.includes('data-approval'))
  await other.stop()
  t.same([done, team.questions().length], [[], 1])
  await ask('DELETE', '/api/chat/c')
  await sent
  t.same(done, [])
})

t.test('an answer is to what was shown', async (t) => {
  const { team, done, chat, ask } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'use buy lamp' })
  const { questionId } = team.questions()[0]!
  const answered = (id: string) => {
    const message = structuredClone(talk.lastMessage) as { parts: { state?: string; approval?: object }[] }
    const part = message.parts.find(({ state }) => state === 'approval-requested')!
    Object.assign(part, { state: 'approval-responded', approval: { id, approved: true } })
    return ask('POST', '/api/chat', { body: { id: 'c', messages: [message] } })
  }
  t.equal((await answered(questionId)).status, 422, 'without the digest of what was shown')
  t.equal((await answered(`${questionId}.${'0'.repeat(64)}`)).status, 409)
  t.equal((await answered('nothing.0')).status, 404)
  t.same(done, [])
  const bare = { ...talk.lastMessage, metadata: {} }
  const { status, text } = await ask('POST', '/api/chat', { body: { id: 'c', messages: [bare] } })
  t.match([status, text], [400, /messages\[0\]\.metadata\.dramatis\.after/])
})

t.test('a question is a data part, and its answer goes with the next request', async (t) => {
  const { clerkChat } = await served(t)
  const talk = clerkChat('c')
  await talk.sendMessage({ text: 'color' })
  const [question] = talk.lastMessage!.parts.filter(({ type }) => type === 'data-question')
  t.match(question, { data: { agent: 'clerk', text: 'Red or blue?', choices: ['red', 'blue'], state: 'open' } })
  const answers = [{ questionId: Reflect.get(question!, 'id'), answer: 'blue' }]
  await talk.sendMessage(undefined, { body: { answers } })
  t.same([talk.answer, talk.messages.length], ['you said blue', 2])
  t.match(talk.shown[2], /data-question .*"state":"answered","answer":"blue"/)
})

t.test('a question of a tool has its form, and another answer leaves it open', async (t) => {
  const { chat } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'use ship lamp' })
  const question = talk.lastMessage!.parts.find(({ type }) => type === 'data-question')
  t.match(question, { data: { form: { required: ['street'] }, choices: null, state: 'open' } })
  const send = (answer: string) =>
    talk.sendMessage(undefined, { body: { answers: [{ questionId: Reflect.get(question!, 'id'), answer }] } })
  await send('{"city":"Rome"}')
  t.match([talk.status, talk.errors], ['error', [/street/]])
  await send('{"street":"Main Street"}')
  t.match([talk.status, talk.answer], ['ready', /Main Street/])
})

t.test('a request that is sent again joins: nothing is done, answered or shown twice', async (t) => {
  const { team, done, chat, ask } = await served(t)
  const messages = [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'use buy lamp' }] }]
  const body = { id: 'c', messages }
  const asked = await Promise.all([1, 2, 3].map(() => ask('POST', '/api/chat', { body })))
  t.equal(new Set(asked.map(({ text }) => text)).size, 1)
  const talk = chat('c', { messages: JSON.parse((await ask('GET', '/api/chat/c')).text).messages })
  await talk.approve(true)
  const message = structuredClone(talk.lastMessage) as { metadata: object; parts: { toolCallId?: string }[] }
  const { runId, after } = JSON.parse(asked[0]!.text.split('data: ').find((line) => line.includes('"after"'))!)
    .messageMetadata.dramatis
  const approval = { id: /"approvalId":"([^"]+)"/.exec(asked[0]!.text)![1], approved: true }
  const call = message.parts.find(({ toolCallId }) => toolCallId)
  const answered = {
    ...message,
    metadata: { dramatis: { runId, after } },
    parts: [{ ...call, state: 'approval-responded', approval }],
  }
  const again = await ask('POST', '/api/chat', { body: { id: 'c', messages: [answered] } })
  t.match([again.status, again.text], [200, /"output":\{"done":"lamp"\}/])
  t.notMatch(again.text, /tool-input-available|Let me see/, 'the client has the call')
  t.same([done, (await team.listRuns()).length], [['buy lamp'], 1])
  const other = await ask('POST', '/api/chat', { body, caller: 'bob:run' })
  t.equal(other.status, 404, 'the thread of somebody else')
})

t.test('a stream that was cut is resumed without a gap, and without anything twice', async (t) => {
  const gate = opening()
  const { team, chat, ask } = await served(t, { pause: (word) => (word === 'four' ? gate.promise : undefined) })
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'say one two three four five' })
  await talk.until((shown) => shown.endsWith('three '))
  await talk.stop()
  await sent
  const loaded = chat('c', { messages: JSON.parse((await ask('GET', '/api/chat/c')).text).messages })
  t.equal(loaded.answer, 'one two three ')
  const resumed = [talk, loaded, chat('c', { messages: talk.messages.slice(0, 1) })]
  const all = resumed.map((each) => each.resumeStream())
  for (const each of resumed) await each.until((shown) => /^streaming .*three $/.test(shown))
  gate.resolve()
  await Promise.all(all)
  for (const each of resumed)
    t.same([each.answer, each.messages.length, each.shown.length], ['one two three four five ', 2, 3])
  t.equal(talk.answer, await finalOf(team))
  const none = chat('c', { messages: talk.messages })
  await none.resumeStream()
  t.same([none.answer, none.shown, none.errors], [talk.answer, talk.shown, []], 'the end is given again')
  t.equal((await ask('GET', '/api/chat/unknown/stream')).status, 204)
  const later = await served(t, { limits: { disconnectGraceMs: 0 } })
  await later.chat('c').sendMessage({ text: 'say one' })
  t.equal((await later.ask('GET', '/api/chat/c/stream')).status, 204, 'nothing is under way any more')
  t.equal((await ask('GET', '/api/chat/c', { caller: 'bob:run,watch,operate' })).status, 404)
  t.equal((await ask('GET', '/api/chat/c/stream', { caller: 'bob:run' })).status, 204)
})

t.test('a message that is answered anew, or was changed, goes on from what was said before it', async (t) => {
  const { team, chat, ask } = await served(t)
  const talk = chat('c')
  const texts = () =>
    talk.messages.map(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? part.text : [])).join())
  const loaded = async () => JSON.parse((await ask('GET', '/api/chat/c')).text).messages as object[]
  for (const text of ['say one', 'say two', 'recall']) await talk.sendMessage({ text })
  t.equal(talk.answer, 'say one|say two|recall ')
  await talk.regenerate()
  t.equal(talk.answer, 'say one|say two|recall ', 'the first answer is not among what it goes on from')
  t.equal((await team.listRuns()).length, 4)
  await talk.sendMessage({ text: 'recall', messageId: talk.messages[2]!.id })
  t.same(texts(), ['say one', 'one ', 'recall', 'say one|recall '])
  await talk.sendMessage({ text: 'recall' })
  t.equal(talk.answer, 'say one|recall|recall ')
  t.same(await loaded(), JSON.parse(JSON.stringify(talk.messages)))
  await talk.regenerate()
  t.equal(talk.answer, 'say one|recall|recall ', 'also in what was answered anew before')
  await talk.regenerate({ messageId: talk.messages[1]!.id })
  t.same(texts(), ['say one', 'one '])
  await talk.sendMessage({ text: 'recall' })
  t.same([talk.answer, (await loaded()).length], ['say one|recall ', 4])
  const { messages } = JSON.parse((await ask('GET', '/api/chat/c?limit=3')).text)
  t.same(messages, await loaded(), 'nothing that was replaced')
})

t.test('a stranger takes no branch of a chat, and what is refused claims no thread', async (t) => {
  const { chat, ask } = await served(t, { limits: { tasksPerCaller: 1 } })
  const talk = chat('pub')
  await talk.sendMessage({ text: 'recall' })
  for (const threadId of ['pub~1', 'chat~1'])
    await ask('POST', '/api/tasks', { caller: 'eve:run', body: { query: 'say x', threadId } })
  await talk.regenerate()
  t.same([talk.status, talk.answer], ['ready', 'recall '])
  await talk.sendMessage({ text: 'use buy lamp' })
  const flood = chat('flood')
  await flood.sendMessage({ text: 'say x' })
  t.match(flood.errors, [/tasksPerCaller/])
  const bob = chat('flood', { caller: 'bob:run' })
  await bob.sendMessage({ text: 'say free' })
  t.same([bob.errors, bob.answer], [[], 'free '])
})

t.test('an answer that is given again costs one look, and a question takes one answer', async (t) => {
  const { chat, ask } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'use buy lamp' })
  const last = structuredClone(talk.lastMessage) as { parts: { state?: string; approval?: object }[] }
  const part = last.parts.find(({ state }) => state === 'approval-requested')!
  const given = { ...part, state: 'approval-responded', approval: { id: talk.approval, approved: true } }
  for (const [length, said] of [
    [2, /answered twice/],
    [101, /101 answers/],
  ] as const) {
    const messages = [{ ...last, parts: Array.from({ length }, () => given) }]
    const { status, text } = await ask('POST', '/api/chat', { body: { id: 'c', messages } })
    t.match([status, text], [400, said])
  }
})

t.test('to answer anew what is being answered joins it', async (t) => {
  const gate = opening()
  const { team, chat } = await served(t, { pause: (word) => (word === 'two' ? gate.promise : undefined) })
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'say one two' })
  await talk.until((shown) => shown.endsWith('one '))
  await talk.stop()
  await sent
  const again = talk.regenerate()
  await talk.until((shown) => /^streaming .*one $/.test(shown))
  gate.resolve()
  await again
  t.same([talk.answer, talk.messages.length, (await team.listRuns()).length], ['one two ', 2, 1])
})

t.test('a chat that is stopped ends its run, which to close a connection does not', async (t) => {
  const { team, chat, ask } = await served(t, { pause: (word) => (word === 'two' ? new Promise(() => {}) : undefined) })
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'say one two' })
  await talk.until((shown) => shown.endsWith('one '))
  t.equal((await ask('DELETE', '/api/chat/c', { caller: 'bob:run,operate' })).status, 204)
  t.equal((await team.listRuns())[0]!.status, 'running', 'it is not the chat of bob')
  t.equal((await ask('DELETE', '/api/chat/c')).status, 204)
  await sent
  t.equal((await team.listRuns())[0]!.status, 'aborted')
  t.equal((await ask('DELETE', '/api/chat/c')).status, 204)
  const buying = chat('buying')
  await buying.sendMessage({ text: 'use buy lamp' })
  await buying.sendMessage({ text: 'use buy car', messageId: buying.messages[0]!.id })
  t.equal(team.questions().length, 2)
  await ask('DELETE', '/api/chat/buying')
  t.same(team.questions(), [], 'what was replaced cannot be approved either')
})

t.test('a client that reads a message twice has left when both are closed', async (t) => {
  const gate = opening()
  const { chat, url, ask } = await served(t, {
    onDisconnect: 'cancel',
    limits: { disconnectGraceMs: 0 },
    pause: (word) => (word === 'two' ? gate.promise : undefined),
  })
  const talk = chat('c')
  const sent = talk.sendMessage({ text: 'say one two' })
  await talk.until((shown) => shown.endsWith('one '))
  const leaving = new AbortController()
  const { body } = await fetch(`${url}/api/chat/c/stream`, {
    headers: { 'x-caller': 'ann:run' },
    signal: leaving.signal,
  })
  await body!.getReader().read()
  leaving.abort()
  for (let turn = 0; turn < 10; turn++) await ask('GET', '/livez')
  gate.resolve()
  await sent
  t.same([talk.answer, talk.errors], ['one two ', []])
})

t.test('a message that another log has numbered is given as a whole', async (t) => {
  const { chat, ask } = await served(t)
  const talk = chat('c')
  await talk.sendMessage({ text: 'say one' })
  const last = { ...talk.lastMessage, metadata: { dramatis: { after: 'other.999999' } } }
  const { text } = await ask('POST', '/api/chat', { body: { id: 'c', messages: [last] } })
  t.match(text, /"delta":"one ".*"type":"finish"/s)
})

t.test('a chat stays in its branch when the run that began it is forgotten', async (t) => {
  const path = folderOf(t)
  const stateOf = () => ({ store: new FileStore(path, { segmentBytes: 4096 }) })
  const first = await served(t, { state: stateOf() })
  const talk = first.chat('c')
  await talk.sendMessage({ text: 'say before' })
  await talk.sendMessage({ text: 'say 0', messageId: talk.messages[0]!.id })
  for (const n of [1, 2, 3]) await talk.sendMessage({ text: `say ${n}` })
  await first.close()
  const { store } = stateOf()
  await compactLog(store, { keep: { runs: 2, days: 30, bytes: 2 ** 30 }, logger: silent })
  await store.close()
  const second = await served(t, { state: stateOf() })
  t.equal((await second.team.listRuns()).length, 2)
  const later = second.chat('c')
  await later.sendMessage({ text: 'recall' })
  t.equal(later.answer, 'say 0|say 1|say 2|say 3|recall ')
})

t.test('a chat has no more branches than a client may ask for', async (t) => {
  const { ask } = await served(t)
  const messages = [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'say x' }] }]
  const send = () => ask('POST', '/api/chat', { body: { id: 'c', messages, trigger: 'regenerate-message' } })
  for (let branch = 0; branch <= 50; branch++) t.equal((await send()).status, 200)
  t.match(await send(), { status: 409, text: /Begin another chat/ })
})

t.test('a chat goes on after a restart of the service, where a person has to answer', async (t) => {
  const state = { path: folderOf(t) }
  const first = await served(t, { state })
  const talk = first.chat('c')
  await talk.sendMessage({ text: 'use buy lamp' })
  await first.close()
  const second = await served(t, { state })
  const { messages } = JSON.parse((await second.ask('GET', '/api/chat/c')).text)
  const partsOf = (all: { parts: object[] }[]) => all.map(({ parts }) => parts)
  t.same(partsOf(messages), JSON.parse(JSON.stringify(partsOf(talk.messages))))
  const later = second.chat('c', { messages })
  await later.approve(true)
  t.same([later.answer, second.done, first.done], ['result: {"done":"lamp"}', ['buy lamp'], []])
  await later.sendMessage({ text: 'recall' })
  t.equal(later.answer, 'use buy lamp|recall ')
})

t.test('what no team takes is refused by its name', async (t) => {
  const { ask } = await served(t)
  const said = (parts: object[], more: object = {}) => ({
    id: 'c',
    messages: [{ id: 'm', role: 'user', parts }],
    ...more,
  })
  const table: [body: unknown, status: number, detail: RegExp][] = [
    [{ id: 'c', messages: [] }, 422, /messages/],
    [said([], { answers: Array.from({ length: 101 }, () => ({ questionId: 'q', answer: 'x' })) }), 422, /answers/],
    [{ ...said([{ type: 'text', text: 'x' }]), id: `chat~${'0'.repeat(36)}` }, 404, /thread/],
    [said([]), 400, /messages\[0\]: It has no words/],
    [said([{ type: 'text', text: { toString: 1 } }]), 400, /parts\[0\]\.text: A text/],
    [said([{ type: 'file', url: 'data:,x', mediaType: { toString: 1 } }]), 400, /parts\[0\]\.mediaType: A text/],
    [said([{ type: 'x', deep: JSON.parse(`${'['.repeat(2000)}${']'.repeat(2000)}`) }]), 400, /nested deeper/],
    [said([{ type: 'file', mediaType: 'image/png', url: 'data:nonsense' }]), 400, /messages\[0\]\.parts\[0\]/],
    [{ id: 'c', messages: [{ id: 'm', role: 'system', parts: [] }] }, 400, /messages\[0\]\.role/],
    [{ id: 'c', messages: [{ id: 'msg_x', role: 'assistant', parts: [] }] }, 400, /metadata\.dramatis\.after/],
  ]
  for (const [body, status, detail] of table) {
    const sent = await ask('POST', '/api/chat', { body })
    t.match([sent.status, sent.text], [status, detail])
  }
  t.equal((await ask('POST', '/api/chat?team=nobody', { body: said([{ type: 'text', text: 'x' }]) })).status, 404)
  t.equal((await ask('POST', '/api/chat', { caller: 'ann:watch,approve', body: said([]) })).status, 403)
})

type Team = Awaited<ReturnType<typeof served>>['team']

async function finalOf(team: Team): Promise<string | null> {
  const [run] = await team.listRuns()
  return (await team.getRun(run!.id)!.result).finalOutput
}

// The events of AG-UI: what its client asks is answered in order, and interrupts are answered by who may.

interface Event {
  readonly type: string
  readonly [field: string]: unknown
}
type Service = Awaited<ReturnType<typeof served>>

const user = (id: string, content: string) => ({ id, role: 'user', content })

/** Sends a request of AG-UI. Resolves to its events. */
async function run({ ask }: Service, body: object, caller = 'ann:run'): Promise<Event[]> {
  const { status, text } = await ask('POST', '/ag-ui/shop', { caller, body: { threadId: 'c', runId: 'r', ...body } })
  if (status !== 200) throw new Error(`${status} ${text}`)
  return text.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [JSON.parse(frame.slice(6))] : []))
}

const shown = (events: Event[]) =>
  events
    .filter(({ type }) => type !== 'CUSTOM')
    .map(({ type, delta, content }) => `${type} ${delta ?? content ?? ''}`.trim())

const interruptsIn = (events: Event[]): { id: string; message: string; toolCallId: string }[] =>
  Object(events.at(-1)!.outcome).interrupts

t.test('words, thoughts and calls of tools are events in their order', async (t) => {
  const service = await served(t)
  const said = await run(service, { messages: [user('1', 'think twice')] })
  t.same(shown(said), [
    'RUN_STARTED',
    'REASONING_START',
    'REASONING_MESSAGE_START',
    'REASONING_MESSAGE_CONTENT about twice',
    'REASONING_MESSAGE_END',
    'REASONING_END',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT thought',
    'TEXT_MESSAGE_END',
    'RUN_FINISHED',
  ])
  t.match(said.at(-1), { threadId: 'c', runId: 'r', outcome: { type: 'success' }, result: 'thought' })
  const found = await run(service, { messages: [user('2', 'use find lamp')] })
  t.same(shown(found).slice(4, 8), [
    'TOOL_CALL_START',
    'TOOL_CALL_ARGS {"what":"lamp"}',
    'TOOL_CALL_END',
    'TOOL_CALL_RESULT {"done":"lamp"}',
  ])
  const again = await run(service, {
    messages: [user('2', 'use find lamp'), { id: 'x', role: 'assistant', content: 'par' }],
  })
  t.same(
    [again[1], service.done],
    [{ type: 'MESSAGES_SNAPSHOT', messages: [user('2', 'use find lamp')] }, ['find lamp']],
  )
  t.same(shown(again).slice(2), shown(found).slice(1), 'what is sent again joins')
})

t.test('an approval is an interrupt, which the next run answers', async (t) => {
  const service = await served(t)
  const messages = [user('1', 'use buy lamp')]
  const asked = await run(service, { messages })
  const [interrupt] = interruptsIn(asked)
  t.match(interrupt, { message: /buy.*lamp/, reason: 'tool_call' })
  t.equal(asked.find(({ type }) => type === 'TOOL_CALL_START')!.toolCallId, interrupt!.toolCallId)
  const resume = (payload: unknown, status = 'resolved') => [{ interruptId: interrupt!.id, status, payload }]
  const bought = await run(service, { runId: 's', messages, resume: resume({ approved: true }) })
  t.same(shown(bought), [
    'RUN_STARTED',
    'TOOL_CALL_RESULT {"done":"lamp"}',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT result: {"done":"lamp"}',
    'TEXT_MESSAGE_END',
    'RUN_FINISHED',
  ])
  const again = await run(service, { runId: 's', messages, resume: resume({ approved: true }) })
  t.same([shown(again), service.done], [shown(bought), ['buy lamp']], 'what is sent again joins')
})

t.test('whatever does not agree to a call is a no', async (t) => {
  const service = await served(t)
  for (const [at, [status, payload]] of [
    ['resolved', undefined],
    ['resolved', 'yes'],
    ['resolved', { approved: 'true' }],
    ['cancelled', { approved: true }],
  ].entries()) {
    const messages = [user(`${at}`, 'use buy lamp')]
    const [interrupt] = interruptsIn(await run(service, { messages }))
    const denied = await run(service, { messages, resume: [{ interruptId: interrupt!.id, status, payload }] })
    t.match(shown(denied)[1], /^TOOL_CALL_RESULT It was not approved/)
  }
  t.same(service.done, [])
})

t.test('a question with a form is an interrupt that takes its object', async (t) => {
  const service = await served(t)
  const messages = [user('1', 'use ship lamp')]
  const [interrupt] = interruptsIn(await run(service, { messages }))
  t.match(interrupt, { reason: 'input_required', responseSchema: { required: ['street'] } })
  const resume = (payload: unknown) => [{ interruptId: interrupt!.id, status: 'resolved', payload }]
  await t.rejects(run(service, { messages, resume: resume({ city: 'Rome' }) }), /^422 .*street/)
  const shipped = await run(service, { messages, resume: resume({ street: 'Main Street' }) })
  t.match(shown(shipped).join(), /TOOL_CALL_RESULT .*Main Street/)
})

t.test('who has asked answers no approval of others, by whatever request', async (t) => {
  const service = await served(t)
  const { team, done, ask } = service
  const messages = [user('1', 'use pay rent')]
  const sent = run(service, { messages })
  while (team.questions().length === 0) await new Promise(setImmediate)
  const { runId, questionId, digest } = team.questions()[0]!
  for (const caller of ['ann:run', 'ann:run,approve', 'ann:run,watch,operate,approve'])
    for (const payload of [{ approved: true }, { approved: true, input: { what: 'less' } }, { approved: false }]) {
      const resume = [{ interruptId: `${runId}.0.${questionId}.${digest}`, status: 'resolved', payload }]
      await t.rejects(run(service, { messages, resume }, caller), /^403 .*(cannot approve it|right approve)/)
      await t.rejects(run(service, { messages, resume }, caller.replace('ann', 'bob')), /^404 /)
    }
  t.same([done, team.questions().length], [[], 1])
  const answer = { questionId, answer: 'yes', digest }
  t.equal((await ask('POST', `/api/tasks/${runId}/answers`, { caller: 'bob:approve', body: answer })).status, 204)
  const events = await sent
  t.match(
    events.filter(({ name }) => /waiting|answered/.test(`${name}`)),
    [{ name: 'dramatis.waiting', value: { waitsFor: /somebody else/ } }, { name: 'dramatis.answered' }],
  )
  t.same([interruptsIn(events), done], [undefined, ['pay rent']], 'nothing was offered')
})

t.test('what no team takes is refused by its name', async (t) => {
  const service = await served(t)
  const table: [body: object, said: RegExp][] = [
    [{ messages: [] }, /400 .*messages: There is none of a user/],
    [{ messages: [user('1', ' ')] }, /400 .*messages\[0\]\.content: It has no words/],
    [
      { messages: [{ ...user('1', ''), content: [{ type: 'image' }] }] },
      /400 .*messages\[0\]\.content\[0\]: Only text/,
    ],
    [{ messages: [{ ...user('1', ''), content: [null] }] }, /400 .*messages\[0\]\.content\[0\]: Only text/],
    [{ messages: [], resume: [{ interruptId: 'x', status: 'resolved', payload: 'x' }] }, /404/],
    [{ messages: [], resume: [{ interruptId: 'x', status: 'resolved' }] }, /400 .*resume\[0\]\.payload: A question/],
    [{ messages: [], resume: Array(101).fill({ interruptId: 'x', status: 'cancelled' }) }, /422 .*resume/],
    [{ messages: [], resume: Array(2).fill({ interruptId: 'x', status: 'cancelled' }) }, /400 .*answered twice/],
  ]
  for (const [body, said] of table) await t.rejects(run(service, body), said)
  t.equal(
    (await service.ask('POST', '/ag-ui/nobody', { body: { threadId: 'c', runId: 'r', messages: [user('1', 'x')] } }))
      .status,
    404,
  )
})

// Connections break and the service is killed at random moments: no word is lost or shown twice, nothing is done
// twice.

const ANN = { 'x-caller': 'ann:run' }
const WORDS = Array.from({ length: 24 }, (_, n) => `w${n}`)
const QUERIES = [`say ${WORDS.join(' ')}`, 'use find lamp', 'use buy lamp', 'think twice']

/** Fetches, and breaks the connection behind that many bytes of the answer. */
const cutBehind =
  (bytes: () => number): typeof fetch =>
  async (...request) => {
    const response = await fetch(...request)
    let left = bytes()
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        if (piece.byteLength > left) controller.error(new TypeError('the connection was cut'))
        else controller.enqueue(piece)
        left -= piece.byteLength
      },
    })
    const body = response.body?.pipeThrough(cut) ?? null
    return new Response(body, { status: response.status, headers: response.headers })
  }

/** Plays a message until its answer is complete, as a page does that is opened again whenever something breaks. */
async function play(chat: Chat, text: string): Promise<void> {
  const has = chat.messages.length
  await chat.sendMessage({ text })
  for (;;) {
    const { after } = Object(Object(chat.lastMessage?.metadata).dramatis) as { after?: string }
    const isWhole = chat.lastMessage?.role === 'assistant' && after !== undefined && chat.status === 'ready'
    if (isWhole && chat.approval === undefined) return
    chat.errors.length = 0
    if (isWhole) await chat.approve(true)
    else if (chat.messages.length === has + 1)
      await chat.sendMessage() // nobody knows whether it has arrived
    else await chat.resumeStream()
  }
}

/** Checks a chat when all has been said: against the runs, and against what its page is given anew. */
async function check(t: Test, chat: Chat, url: string): Promise<void> {
  const { messages } = (await (await fetch(`${url}/api/chat/${chat.id}`, { headers: ANN })).json()) as {
    messages: UIMessage[]
  }
  t.same(
    chat.messages.map(({ id }) => id),
    messages.map(({ id }) => id),
  )
  for (const message of chat.messages) {
    if (message.role === 'user') continue
    const { runId } = Object(message.metadata).dramatis
    const task = (await (await fetch(`${url}/api/tasks/${runId}`, { headers: ANN })).json()) as { answer: string }
    t.equal(answerIn(message), task.answer)
    const calls = message.parts.flatMap((part) => ('toolCallId' in part ? [part] : []))
    t.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, calls.length, 'no call twice')
    t.ok(calls.every(({ state }) => state === 'output-available'))
  }
}

t.test('connections are cut at random moments', async (t) => {
  const { team, done, chat, url } = await served(t)
  for (let seed = 1; seed <= howMany(13, 500); seed++) {
    const dice = new Dice(seed)
    const bytes = () => (dice.chance(0.3) ? Number.POSITIVE_INFINITY : dice.upTo(3_000))
    const talk = chat(`c${seed}`, { fetch: cutBehind(bytes) })
    const before = done.length
    const text = dice.pick(QUERIES)
    await play(talk, text)
    await check(t, talk, url)
    t.equal((await team.listRuns({ threadId: talk.id })).length, 1, 'the message has one run')
    t.same(done.slice(before), text.startsWith('use') ? [text.slice('use '.length)] : [], `seed ${seed}`)
  }
})

t.test('the service is killed at random moments', async (t) => {
  const shop = new ServedShop(t)
  let asked = 0
  for (let seed = 1; seed <= howMany(2, 50); seed++) {
    const dice = new Dice(seed)
    const talk = openChat('http://shop/api/chat', `c${seed}`, { fetch: shop.fetch })
    const text = dice.pick(QUERIES)
    if (text.startsWith('use')) asked++
    const killed = shop.killBehind(dice.upTo(150))
    await play(talk, text)
    await killed
    await check(t, talk, await shop.url)
    t.equal(shop.effects.length, asked, `seed ${seed}`)
  }
})
