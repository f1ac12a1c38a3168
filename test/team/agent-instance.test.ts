/** One agent of a running team as its user sees it: asked directly, told things, looked at. */
import { resolve } from 'node:path'
import t from 'tap'
import { type AgentMessage, defineAgent } from '../../src/index.ts'
import { workspace } from '../../src/tools/index.ts'
import { pluck } from '../kit/lists.ts'
import { after, all, echo, says, stage, throws } from './stage.ts'

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
