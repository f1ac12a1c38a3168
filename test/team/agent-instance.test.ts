/** One agent of a running team as its user sees it, and callers outside of any run. */
import { resolve } from 'node:path'
import t from 'tap'
import { type AgentMessage, defineAgent } from '../../src/index.ts'
import { workspace } from '../../src/tools/index.ts'
import { pluck, where } from '../kit/lists.ts'
import { gate } from '../kit/team.ts'
import { after, all, echo, refuses, says, stage, throws } from './stage.ts'

// One agent of a running team as its user sees it: asked directly, told things, looked at.

const message = (fields: Partial<AgentMessage>): AgentMessage => ({
  id: 'mine',
  type: 'request',
  sender: '$user',
  recipient: 'somebody',
  content: 'hi',
  structuredData: null,
  priority: 0,
  requiresResponse: true,
  responseTimeoutMs: null,
  threadId: null,
  metadata: {},
  runId: '',
  correlationId: null,
  sentAt: 0,
  ...fields,
})

t.test('it has the name and the role as they were written', async (t) => {
  const team = stage(t, { a: { code: echo, capabilities: ['research'], priority: 2 }, b: echo })
  const a = team.getAgent('a')
  t.match(a, { name: 'a', role: { name: 'a', capabilities: ['research'], priority: 2 } })
  t.equal(team.getAgent('nobody'), undefined)
  t.same(pluck(team.listAgents(), 'name'), ['a', 'b'])
})

t.test('its workspace is the folder of its tools, and its configuration has the defaults', async (t) => {
  const team = stage<string>(t, {
    a: {
      code: echo,
      tools: workspace({ root: 'of-a' }),
      model: 'fast',
      temperature: 0.2,
      maxRounds: 5,
      data: { mine: 1 },
    },
    b: { code: echo, contextStrategy: { strategy: 'hierarchical', historyKeep: 3 }, systemPrompt: 'Dig.' },
    c: { code: echo, contextStrategy: { strategy: 'hierarchical' } },
  })
  const [a, b, c] = team.listAgents()
  t.equal(a?.workspace, resolve('of-a'))
  t.equal(b?.workspace, null)
  t.same(a?.config, {
    name: 'a',
    model: 'fast',
    temperature: 0.2,
    maxRounds: 5,
    maxTokens: 128_000,
    contextStrategy: { strategy: 'append_until_full', threshold: 0.8, keepRecent: 20 },
  })
  t.match(b?.config, { systemPrompt: 'Dig.', maxRounds: 12, contextStrategy: { historyKeep: 3 } })
  t.match(c?.config, { contextStrategy: { strategy: 'hierarchical', historyKeep: 12 } })
})

t.test('its history has what it has sent and got, in its own words and those of others', async (t) => {
  const hears = defineAgent({ receive: ({ content }) => `got ${content}`, observe() {} })
  const asks = defineAgent({
    async receive({ content }, context) {
      await context.broadcast('all')
      return (await context.request('b', `about ${content}`)).content
    },
    observe() {},
  })
  const team = stage<string>(
    t,
    { a: asks, b: hears, c: hears },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  const { runId } = await team.execute('it')
  const told = (name: string, run?: string) =>
    team
      .getAgent(name)!
      .getMessageHistory(run)
      .map(({ type, content }) => `${type} ${content}`)
  t.same(told('a', runId), [
    'request it',
    'broadcast all',
    'request about it',
    'response got about it',
    'response got about it',
  ])
  t.same(told('b'), ['broadcast all', 'request about it', 'response got about it'])
  t.same(told('c'), ['broadcast all'])
  await team.sendMessage({ recipient: ['b', 'c'], content: 'more' })
  await team.clock.advance(1)
  t.same(told('c'), ['broadcast all', 'request more'])
  t.same(told('c', runId), ['broadcast all'])
  t.throws(() => told('a', 'none'), { code: 'UNKNOWN_RUN' })
})

t.test('run gives it a task of its own, without the others', async (t) => {
  const team = stage(t, { a: echo, b: throws() })
  t.equal(await team.getAgent('a')!.run('task'), 'a: task')
})

t.test('such a run is one like others', async (t) => {
  const team = stage(t, { a: after(10) })
  const pending = team.getAgent('a')!.run('task', { runId: 'r', metadata: { user: 'ann' } })
  await team.clock.advance(10)
  t.equal(await pending, 'done')
  const run = team.getRun('r')!
  t.match(run, { query: 'task', status: 'finished' })
  t.match(await run.result, {
    agentOutputs: { a: [{ content: 'done' }] },
    executionTimeMs: 10,
    agentExecutionTimesMs: { a: 10 },
  })
  t.same(
    (await all(run.events())).map(({ type }) => type).filter((type) => !type.startsWith('agent.')),
    ['run.started', 'message', 'speaker', 'turn.started', 'message', 'turn.finished', 'run.finished'],
  )
})

t.test('run rejects with what the run failed with', async (t) => {
  const team = stage(t, { a: throws('broken'), slow: after(100) })
  await t.rejects(team.getAgent('a')!.run('task'), { code: 'AGENT_FAILED', message: /broken/ })
  const late = t.rejects(team.getAgent('slow')!.run('task', { timeoutMs: 10 }), { code: 'RUN_TIMEOUT' })
  await team.clock.advance(10)
  await late
})

t.test('status follows what it does', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      await context.sleep(5)
      return (await context.request('b', 'help')).content
    },
  })
  const team = stage(t, { a: asks, b: after(10) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const statuses = () => [team.getAgentStatus('a'), team.getAgent('b')!.status]
  t.same(statuses(), ['starting', 'starting'])
  await team.start()
  t.same(statuses(), ['idle', 'idle'])
  team.launch('q')
  await team.clock.advance(1)
  t.same(statuses(), ['running', 'idle'])
  await team.clock.advance(5)
  t.same(statuses(), ['waiting', 'running'])
  await team.clock.advance(10)
  t.same(statuses(), ['idle', 'idle'])
  t.equal(team.getAgentStatus('nobody'), undefined)
  await team.close()
  t.same(statuses(), ['stopped', 'stopped'])
})

t.test('an agent that waits for its restart says so, and one that is stopped for good too', async (t) => {
  const team = stage(t, { a: { code: echo, supervision: { maxRestarts: 2, backoff: { baseMs: 1_000 } } } })
  await team.start()
  const crash = async () => {
    team.crash('a')
    await team.clock.advance(0)
    return team.getAgentStatus('a')
  }
  t.equal(await crash(), 'idle', 'the first restart is immediate')
  t.equal(await crash(), 'restarting')
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('a'), 'idle')
  t.equal(await crash(), 'failed')
  await team.clock.advance(60_000)
  t.equal(team.getAgentStatus('a'), 'idle')
})

t.test('a message of any type that it is given comes to it alone', async (t) => {
  const heard: string[] = []
  const code = defineAgent({
    receive: ({ type }, { role }) => void heard.push(`${role.name} receive ${type}`),
    observe: ({ type }, { role }) => void heard.push(`${role.name} observe ${type}`),
  })
  const team = stage(t, { a: code, b: code })
  for (const type of ['request', 'delegate', 'report', 'broadcast', 'publish'] as const)
    await team.getAgent('a')!.receiveMessage(message({ type, sender: 'b' }))
  await team.clock.advance(0)
  t.same(heard, [
    'a receive request',
    'a receive delegate',
    'a observe report',
    'a observe broadcast',
    'a observe publish',
  ])
})

t.test('a message keeps its fields on the way', async (t) => {
  const seen: AgentMessage[] = []
  const code = defineAgent({ receive: (given) => void seen.push(JSON.parse(JSON.stringify(given))) })
  const team = stage(t, { a: code, b: code })
  const given = {
    sender: 'b',
    content: 'c',
    structuredData: { n: 1 },
    priority: 2,
    threadId: 'talk',
    metadata: { m: 1 },
  }
  await team.getAgent('a')!.receiveMessage(message(given))
  await team.clock.advance(0)
  t.match(seen, [{ ...given, recipient: 'a', requiresResponse: false }])
})

t.test('a message starts the team if it has not started yet', async (t) => {
  const heard: string[] = []
  const team = stage(t, { a: defineAgent({ receive: ({ content }) => void heard.push(content) }) })
  await team.getAgent('a')!.receiveMessage(message({}))
  await team.clock.advance(0)
  t.same(heard, ['hi'])
})

t.test('a response settles the request that it answers; a second one is refused', async (t) => {
  const team = stage(t, { a: after(1_000) })
  const run = team.launch('q')
  await team.clock.advance(0)
  const request = run.messageHistory.find(({ recipient }) => recipient === 'a')!
  const response = message({ type: 'response', content: 'instead', correlationId: request.id, runId: run.id })
  await team.getAgent('a')!.receiveMessage(response)
  await team.clock.advance(0)
  t.equal((await run.result).finalOutput, 'instead')
  await t.rejects(team.getAgent('a')!.receiveMessage({ ...response, runId: '' }), { code: 'MESSAGE_REJECTED' })
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { content: 'instead' } }])
})

t.test('what is no message is refused with the field that is wrong', async (t) => {
  const team = stage(t, { a: echo })
  const give = (fields: object) => team.getAgent('a')!.receiveMessage(message(fields))
  await t.rejects(give({ content: 5 }), { code: 'MESSAGE_REJECTED', details: { path: 'content' } })
  await t.rejects(give({ sender: 'zoe' }), { code: 'UNKNOWN_AGENT', details: { path: 'sender' } })
  await t.rejects(give({ runId: 'nobody' }), { code: 'UNKNOWN_RUN' })
})

t.test('its summary says how it stands and what it has done', async (t) => {
  const team = stage(t, { a: after(100), b: says('B') })
  const pending = team.execute('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(5)
  t.match(
    team.getAgent('a')!.getContextSummary(),
    /^Agent "a" \(running\): 0 turns, 1 restarts, 0 messages waiting, 1 under way/,
  )
  await team.clock.advance(100)
  await pending
  t.match(team.getAgent('a')!.getContextSummary(), /^Agent "a" \(idle\): 1 turns, 1 restarts, 0 messages waiting;/)
})

t.test('an agent of code has used no tokens', async (t) => {
  const team = stage(t, { a: echo })
  await team.execute('q')
  t.same(team.getAgent('a')!.getTokenUsage(), { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 })
})

// What callers outside of any run send stands in the team's history, and answers reach who asked.

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
