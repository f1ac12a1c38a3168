/** What callers outside of any run send stands in the team's history, and answers reach who asked. */
import t from 'tap'
import { type AgentMessage, defineAgent } from '../../src/index.ts'
import { where } from '../kit/lists.ts'
import { gate } from '../kit/team.ts'
import { after, all, echo, refuses, stage, throws } from './stage.ts'

const contents = (messages: readonly AgentMessage[]) => messages.map(({ type, content }) => `${type} ${content}`)

t.test('responses carry the thread of their request, whoever answers and whatever they say', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      for (const [to, threadId] of [
        ['b', 'first'],
        ['broken', 'second'],
        ['late', 'third'],
      ] as const)
        await context.request(to, 'hi', { threadId, timeoutMs: 50 }).catch(() => {})
      const { threadId } = await context.request('b', 'hi', { threadId: 'last' })
      const { threadId: none } = await context.request('b', 'hi')
      return `${threadId} ${none}`
    },
  })
  const cast = { a: asks, b: echo, broken: throws(), late: after(1_000) }
  const team = stage<string>(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('Go.', { threadId: 'whole' })
  await team.clock.advance(2_000)
  const { finalOutput, messageHistory } = await run.result
  t.equal(finalOutput, 'last null', 'so the asker sees it')
  const requests = new Map(messageHistory.map(({ id, threadId }) => [id, threadId]))
  const responses = messageHistory.filter(({ type }) => type === 'response')
  t.equal(responses.length, 7)
  for (const { correlationId, threadId } of responses) t.equal(threadId, requests.get(correlationId ?? ''))
  t.same(
    new Set(responses.map(({ threadId }) => threadId)),
    new Set([null, 'whole', 'first', 'second', 'third', 'last']),
  )
})

t.test('a response from outside carries the thread of its request too', async (t) => {
  const open = gate()
  const waits = defineAgent({ receive: () => open.opened.then(() => 'late') })
  const team = stage(t, { a: waits })
  const asked = team.sendMessage({ recipient: 'a', content: 'hi', threadId: 'x', requiresResponse: true })
  await team.clock.advance(1)
  const [{ id = '' } = {}] = team.getMessageHistory()
  await team.sendMessage({ type: 'response', sender: 'a', recipient: null, content: 'instead', correlationId: id })
  t.match(await asked, { content: 'instead', threadId: 'x' })
  open.open()
})

t.test('who sends in the name of an agent gets the response', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  const asked = { sender: 'a', recipient: 'b', content: 'hi', threadId: 'x', requiresResponse: true }
  t.match(await team.sendMessage(asked), {
    type: 'response',
    sender: 'b',
    recipient: 'a',
    content: 'b: hi',
    threadId: 'x',
  })
  t.match(team.getMessageHistory(), [
    { type: 'request', sender: 'a', recipient: 'b', requiresResponse: true },
    { type: 'response', sender: 'b', recipient: 'a' },
  ])
  await t.rejects(team.sendMessage({ ...asked, recipient: 'nobody' }), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.sendMessage({ ...asked, sender: 'nobody' }), { code: 'UNKNOWN_AGENT' })
})

t.test('such a request ends as any other: by the error of who is asked, or its time limit', async (t) => {
  const team = stage(t, { a: echo, broken: throws('rock'), no: refuses(), late: after(1_000) })
  const ask = (recipient: string) =>
    team.sendMessage({ sender: 'a', recipient, content: 'hi', requiresResponse: true, responseTimeoutMs: 50 })
  await t.rejects(ask('broken'), { code: 'AGENT_FAILED', message: /rock/ })
  await t.rejects(ask('no'), { code: 'TASK_REFUSED' })
  const late = t.rejects(ask('late'), { code: 'TIMEOUT' })
  await team.clock.advance(100)
  await late
})

t.test('such a request is answered also when its sender crashes or leaves meanwhile', async (t) => {
  for (const way of ['crash', 'remove'] as const) {
    const team = stage(t, { a: echo, b: after(100, 'done') })
    const asked = team.sendMessage({ sender: 'a', recipient: 'b', content: 'hi', requiresResponse: true })
    await team.clock.advance(10)
    if (way === 'crash') team.crash('a')
    else void team.removeAgent('a')
    await team.clock.advance(1_000)
    t.match(await asked, { content: 'done' }, way)
  }
})

t.test('an agent that may not ask may not be asked for', async (t) => {
  const team = stage(t, { a: { code: echo, trust: 'untrusted' }, b: echo })
  await t.rejects(team.sendMessage({ sender: 'a', recipient: 'b', content: 'hi', requiresResponse: true }), {
    code: 'MESSAGE_REJECTED',
    message: /untrusted/,
  })
})

t.test('history and tasks of the team have what came from outside, in order', async (t) => {
  const hears = defineAgent({ receive: ({ content }) => content, observe() {} })
  const team = stage(t, { a: hears, b: hears })
  t.same([team.getMessageHistory(), team.getTaskStatus()], [[], {}])
  await team.sendMessage({ recipient: 'a', content: 'one', requiresResponse: true })
  const { runId } = await team.execute('two')
  const ofRun = team.getTaskStatus(runId)
  await team.sendMessage({ recipient: ['a', 'b'], content: 'three' })
  await team.broadcast('four', '$user')
  const { id } = await team.delegateTask('$user', 'b', { description: 'five' })
  const history = contents(team.getMessageHistory())
  t.same(history.slice(0, 3), ['request one', 'response one', 'request two'])
  t.same(history.slice(-4), ['request three', 'broadcast four', 'delegate five', 'response five'])
  t.equal(history.filter((each) => each === 'request three').length, 1)
  t.same(team.getTaskStatus(), { ...ofRun, [id]: 'completed' })
  t.notOk(
    contents(team.getMessageHistory(runId)).some((each) => /one|three|four|five/.test(each)),
    'a run has its own',
  )
})

t.test('who gives a task, and waits for no response, has given a task all the same', async (t) => {
  const team = stage(t, { lead: echo, slow: after(10), no: refuses(), busy: after(10) })
  const task = { type: 'delegate', sender: 'lead', content: 'dig' } as const
  await team.sendMessage({ recipient: 'lead', content: 'wake up', requiresResponse: true })
  t.equal(await team.sendMessage({ ...task, recipient: 'slow' }), null)
  t.match(Object.values(team.getTaskStatus()), [/^(assigned|in_progress)$/], 'it does not wait for the end')
  t.equal(await team.sendMessage({ ...task, recipient: ['no'] }), null)
  t.equal(await team.sendMessage({ ...task, recipient: 'lead', sender: 'slow' }), null, 'also if it is done at once')
  const given = team.getMessageHistory().find(({ type }) => type === 'delegate')
  await team.getAgent('busy')?.receiveMessage({ ...given!, id: '', runId: '' })
  await team.clock.advance(20)
  t.same(Object.values(team.getTaskStatus()), ['completed', 'refused', 'completed', 'completed'])
  t.match(
    where(team.getMessageHistory(), 'type', 'delegate'),
    ['slow', 'no', 'lead', 'busy'].map((recipient) => ({ recipient, content: 'dig' })),
  )
  await t.rejects(team.sendMessage({ ...task, recipient: 'nobody' }), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.sendMessage({ ...task, recipient: ['slow', 'no'] }), { message: /A task has one recipient/ })
})

t.test('a broadcast gives its run, which ends when what it caused is over', async (t) => {
  const open = gate()
  const passes = defineAgent({
    receive: () => open.opened.then(() => 'heard'),
    observe: async ({ content }, context) => void (await context.request('b', `about ${content}`)),
  })
  const b = defineAgent({ receive: () => open.opened.then(() => 'fine'), observe() {} })
  const team = stage(t, { a: passes, b })
  const run = await team.broadcast('news', '$user')
  t.match(contents(run.messageHistory).slice(0, 1), ['broadcast news'])
  t.equal(run.status, 'running')
  open.open()
  const result = await run.result
  t.match(result, { success: true, finalOutput: '', error: null, runId: run.id })
  t.same(contents(result.messageHistory), ['broadcast news', 'request about news', 'response fine'])
  t.equal(run.status, 'finished')
  t.same(team.getMessageHistory(run.id), result.messageHistory)
  const live = (await all(run.events({ types: ['message'] }))).length
  t.equal(live, 3)
  t.equal((await (await team.broadcast('again', 'a')).result).success, true, 'an agent may be its sender')
})

t.test('such a run can be cancelled', async (t) => {
  const sleeps = defineAgent({ receive: () => '', observe: (_message, context) => context.sleep(1_000_000) })
  const team = stage(t, { a: sleeps })
  const run = await team.broadcast('news', '$user')
  await run.cancel('enough')
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED', message: /enough/ } })
})

t.test('a subscription stands in the history of its run once, by an agent or in its name', async (t) => {
  const subscribes = defineAgent({
    async receive(_message, context) {
      await context.subscribe('news.*')
      await context.subscribe('news.*')
      await context.sleep(10)
      return 'done'
    },
    observe() {},
  })
  const team = stage(t, { a: subscribes }, { enableBlackboard: true })
  const run = team.launch('Go.')
  await team.clock.advance(1)
  await team.sendMessage({ type: 'subscribe', sender: 'a', recipient: null, content: 'more.**', runId: run.id })
  await team.sendMessage({ type: 'publish', recipient: null, content: 'other', structuredData: 1, runId: run.id })
  await team.sendMessage({ type: 'publish', recipient: null, content: 'news.x', structuredData: 2, runId: run.id })
  await team.clock.advance(100)
  const { messageHistory, orchestrationTrace } = await run.result
  const subscriptions = messageHistory.filter(({ type }) => type === 'subscribe')
  t.match(subscriptions, [
    { sender: 'a', recipient: '$runtime', content: 'news.*' },
    { sender: 'a', recipient: '$runtime', content: 'more.**' },
  ])
  t.equal(orchestrationTrace.messageFlow.filter(({ type }) => type === 'subscribe').length, 2)
  t.match(where(messageHistory, 'type', 'publish'), [
    { sender: '$user', recipient: null, content: 'other', structuredData: { value: 1 } },
    { sender: '$user', recipient: null, content: 'news.x', structuredData: { value: 2 } },
  ])
})

t.test('a blackboard of the team is there before the first run, and the same after it', async (t) => {
  const reads = defineAgent({
    receive: async (_message, { blackboard }) => String((await blackboard.read('n'))?.value),
  })
  const team = stage(t, { a: reads }, { enableBlackboard: { scope: 'team' } })
  const board = team.getBlackboard()
  await board?.write('n', 7, 'fact')
  t.match(await board?.read('n'), { value: 7, author: '$user' })
  t.equal((await team.execute('Go.')).finalOutput, '7')
  t.match(await team.getBlackboard()?.query(), [{ key: 'n' }])
  for (const enableBlackboard of [true, false, undefined])
    t.equal(
      stage(t, { a: reads }, enableBlackboard === undefined ? {} : { enableBlackboard }).getBlackboard(),
      undefined,
    )
})
