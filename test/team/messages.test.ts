/** Messages from outside a run: each of the seven types has its routing, and what cannot be routed is refused. */
import t from 'tap'
import {
  type AgentMessage,
  type DeadLetter,
  defineAgent,
  type MessageInput,
  type MessageType,
} from '../../src/index.ts'
import { after, all, echo, type Options, says, stage, type Test, throws } from './stage.ts'

/** A team of three whose agents note what reaches them: `b observe report from a: news`. */
function listening(t: Test, options: Options<'a' | 'b' | 'c'> = {}) {
  const heard: string[] = []
  const messages: AgentMessage[] = []
  const note = (at: string, handler: string, message: AgentMessage) => {
    heard.push(`${at} ${handler} ${message.type} from ${message.sender}: ${message.content}`)
    messages.push(JSON.parse(JSON.stringify(message)))
  }
  const code = defineAgent({
    receive(message, { role }) {
      note(role.name, 'receive', message)
      return `${role.name} heard ${message.content}`
    },
    observe(message, { role }) {
      note(role.name, 'observe', message)
    },
  })
  const team = stage(t, { a: { code, escalateTo: 'b' }, b: code, c: code }, options)
  const send = async (message: MessageInput) => {
    heard.length = 0
    messages.length = 0
    const reply = await team.sendMessage(message)
    await team.clock.advance(0)
    return reply
  }
  return { team, send, heard, messages }
}

t.test('a request reaches receive of the agent that it names', async (t) => {
  const { send, heard } = listening(t)
  t.equal(await send({ recipient: 'a', content: 'hi' }), null)
  t.same(heard, ['a receive request from $user: hi'])
})

t.test('a request to several reaches each of them', async (t) => {
  const { send, heard } = listening(t)
  t.equal(await send({ type: 'request', recipient: ['a', 'c'], content: 'hi' }), null)
  t.same(heard.sort(), ['a receive request from $user: hi', 'c receive request from $user: hi'])
})

t.test('a delegate reaches receive, as what it is', async (t) => {
  const { send, heard } = listening(t)
  await send({ type: 'delegate', sender: 'c', recipient: 'a', content: 'your task' })
  t.same(heard, ['a receive delegate from c: your task'])
})

t.test('a report reaches observe of its recipient, or else of the manager of its sender', async (t) => {
  const { send, heard } = listening(t)
  await send({ type: 'report', sender: 'a', recipient: 'c', content: 'news' })
  t.same(heard, ['c observe report from a: news'])
  await send({ type: 'report', sender: 'a', recipient: null, content: 'news' })
  t.same(heard, ['b observe report from a: news'])
  await t.rejects(send({ type: 'report', sender: 'c', recipient: null, content: 'news' }), {
    code: 'MESSAGE_REJECTED',
    details: { path: 'recipient' },
  })
})

t.test('a broadcast reaches observe of everybody but its sender', async (t) => {
  const { team, send, heard, messages } = listening(t)
  await send({ type: 'broadcast', sender: 'a', recipient: null, content: 'all' })
  t.same(heard.sort(), ['b observe broadcast from a: all', 'c observe broadcast from a: all'])
  t.match(messages, [{ recipient: null }, { recipient: null }])
  await team.broadcast('from outside', '$user')
  await team.clock.advance(0)
  t.equal(heard.length, 5)
})

t.test('a broadcast that names recipients reaches these alone', async (t) => {
  const { send, heard } = listening(t)
  await send({ type: 'broadcast', recipient: ['b', 'c'], content: 'some' })
  t.same(heard.sort(), ['b observe broadcast from $user: some', 'c observe broadcast from $user: some'])
})

t.test('a publish goes to the blackboard of its run, and from there to who subscribed', async (t) => {
  const { team, send, heard, messages } = listening(t, {
    enableBlackboard: true,
    orchestration: {
      strategy: 'custom',
      run: async (orchestrator) => String((await orchestrator.blackboard.waitFor('end')).value),
    },
  })
  const { id: runId, result } = team.launch('q')
  await team.clock.advance(0)
  await send({ type: 'subscribe', sender: 'a', recipient: null, content: 'finding.*', runId })
  const structuredData = { rows: 3 }
  await send({
    type: 'publish',
    sender: 'b',
    recipient: null,
    content: 'finding.1',
    structuredData,
    runId,
    metadata: { entryType: 'hint' },
  })
  t.same(heard, ['a observe publish from b: finding.1'])
  t.match(messages, [
    { structuredData: { key: 'finding.1', value: { rows: 3 }, author: 'b', entryType: 'hint', version: 1 } },
  ])
  await send({ type: 'publish', recipient: null, content: 'other.1', runId })
  t.same(heard, [])
  t.match(await team.getBlackboard(runId)?.read('other.1'), { author: '$user', value: null, entryType: 'fact' })
  await send({ type: 'publish', recipient: null, content: 'end', structuredData: 'over', runId })
  t.equal((await result).finalOutput, 'over')
})

t.test('a subscription ends with its run', async (t) => {
  const { team, send, heard } = listening(t, {
    enableBlackboard: { scope: 'team' },
    orchestration: { strategy: 'custom', run: async (o) => String(await o.blackboard.waitFor('end')) },
  })
  const run = team.launch('q')
  await team.clock.advance(0)
  await send({ type: 'subscribe', sender: 'a', recipient: null, content: '**', runId: run.id })
  await run.cancel()
  await team.clock.advance(0)
  await send({ type: 'publish', recipient: null, content: 'late' })
  t.same(heard, [])
  t.match(await team.getBlackboard(run.id)?.read('late'), { version: 1 })
})

t.test('a publish in a team without a blackboard is a configuration error', async (t) => {
  const { send } = listening(t)
  const missing = { code: 'CONFIGURATION', details: { path: 'enableBlackboard' } }
  await t.rejects(send({ type: 'publish', recipient: null, content: 'k' }), missing)
})

t.test('a response answers the request in the place of the agent that was asked', async (t) => {
  const team = stage(t, { a: after(1_000) })
  const run = team.launch('q')
  await team.clock.advance(10)
  const request = run.messageHistory.find(({ recipient }) => recipient === 'a')!
  t.equal(
    await team.sendMessage({
      type: 'response',
      recipient: null,
      content: 'from a person',
      structuredData: { n: 1 },
      correlationId: request.id,
    }),
    null,
  )
  await team.clock.advance(0)
  t.match(await run.result, { success: true, finalOutput: 'from a person' })
  t.match(run.tasks, [{ status: 'completed', result: { n: 1 } }])
  t.equal(team.getAgentStatus('a'), 'idle')
})

t.test('a response that nobody waits for is refused, and a dead letter', async (t) => {
  const { team, send } = listening(t)
  for (const correlationId of ['never-sent', undefined])
    await t.rejects(send({ type: 'response', recipient: null, content: 'late', correlationId }), {
      code: 'MESSAGE_REJECTED',
      details: { path: 'correlationId' },
    })
  t.match(team.deadLetters.list(), [
    { reason: 'late', message: { type: 'response', content: 'late' } },
    { reason: 'late', message: { content: 'late' } },
  ])
})

t.test('who requires a response gets it', async (t) => {
  const { team, send } = listening(t)
  const reply = await send({ recipient: 'a', content: 'hi', requiresResponse: true })
  t.match(reply, { type: 'response', sender: 'a', recipient: '$user', content: 'a heard hi' })
  const asked = team.getMessageHistory(reply!.runId)[0]
  t.match(asked, { id: reply!.correlationId, requiresResponse: true, content: 'hi' })
})

t.test('a delegate can require a response too', async (t) => {
  const { send, heard } = listening(t)
  const reply = await send({ type: 'delegate', recipient: 'a', content: 'task', requiresResponse: true })
  t.match(reply, { type: 'response', content: 'a heard task' })
  t.same(heard, ['a receive delegate from $user: task'])
})

t.test('the failure of a request that requires a response is the error of the call', async (t) => {
  const slow = { code: after(100), communication: { responseTimeoutMs: 10 } }
  const team = stage(t, { bad: throws('broken'), slow })
  await t.rejects(team.sendMessage({ recipient: 'bad', content: 'hi', requiresResponse: true }), {
    code: 'AGENT_FAILED',
    message: /Error: broken/,
  })
  const late = team.sendMessage({ recipient: 'slow', content: 'hi', requiresResponse: true })
  const refused = t.rejects(late, { code: 'REQUEST_TIMEOUT', details: { waitedMs: 10 } })
  await team.clock.advance(10)
  await refused
  const patient = team.sendMessage({ recipient: 'slow', content: 'hi', requiresResponse: true, responseTimeoutMs: 200 })
  await team.clock.advance(100)
  t.match(await patient, { content: 'done' })
})

for (const type of ['report', 'broadcast', 'publish', 'subscribe', 'response'] satisfies MessageType[])
  t.test(`nobody answers a ${type}, so it cannot require a response`, async (t) => {
    const { send } = listening(t, { enableBlackboard: true })
    await t.rejects(send({ type, sender: '$user', recipient: 'a', content: 'k', requiresResponse: true }), {
      code: 'MESSAGE_REJECTED',
      details: { path: 'requiresResponse' },
    })
  })

t.test('a response comes to one caller from one agent', async (t) => {
  const { send } = listening(t)
  const asking = { content: 'hi', requiresResponse: true }
  const rejected = { code: 'MESSAGE_REJECTED' }
  await t.rejects(send({ ...asking, recipient: ['a', 'b'] }), { ...rejected, details: { path: 'recipient' } })
  await t.rejects(send({ ...asking, recipient: null }), { ...rejected, details: { path: 'recipient' } })
  await t.rejects(send({ ...asking, recipient: 'a', sender: 'b' }), { ...rejected, details: { path: 'sender' } })
})

t.test('names that nobody has are refused, as recipient and as sender, whatever the type', async (t) => {
  const { team, send } = listening(t, { enableBlackboard: true })
  for (const requiresResponse of [true, false])
    await t.rejects(send({ recipient: 'ann', content: 'hi', requiresResponse }), {
      code: 'UNKNOWN_AGENT',
      details: { agent: 'ann' },
    })
  t.match(team.deadLetters.list(), [{ reason: 'unknown_agent' }, { reason: 'unknown_agent' }])
  for (const type of ['request', 'broadcast', 'publish', 'report', 'subscribe', 'response'] satisfies MessageType[])
    for (const sender of ['ann', '$runtime', '$orchestrator'])
      await t.rejects(send({ type, sender, recipient: 'a', content: 'k' }), {
        code: 'UNKNOWN_AGENT',
        details: { path: 'sender', agent: sender },
      })
})

t.test('a subscription needs an agent and a run', async (t) => {
  const { send } = listening(t, { enableBlackboard: true })
  const subscribe = { type: 'subscribe' as const, recipient: null, content: 'k.*' }
  await t.rejects(send(subscribe), { code: 'MESSAGE_REJECTED', details: { path: 'sender' } })
  await t.rejects(send({ ...subscribe, sender: 'a' }), { code: 'MESSAGE_REJECTED', details: { path: 'runId' } })
})

t.test('every field that is given reaches the agent', async (t) => {
  const { send, messages } = listening(t)
  const given = {
    sender: 'b',
    recipient: 'a',
    content: 'hi',
    structuredData: { deep: [1, { two: null }] },
    priority: 3,
    responseTimeoutMs: 50,
    threadId: 'talk',
    metadata: { trace: 'x' },
  }
  await send(given)
  t.match(messages, [{ ...given, type: 'request', requiresResponse: false, correlationId: null }])
})

t.test('the thread of a message is the thread of what it causes', async (t) => {
  const tells = defineAgent({ receive: ({ threadId }, { run }) => `${threadId} ${run.threadId}` })
  const team = stage(t, { a: tells })
  t.match(await team.sendMessage({ recipient: 'a', content: 'hi', threadId: 'talk', requiresResponse: true }), {
    content: 'talk talk',
  })
})

t.test('a message with the id of a run is part of that run', async (t) => {
  const team = stage(
    t,
    { a: after(10), b: says('B') },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  const run = team.launch('q')
  await team.clock.advance(0)
  const reply = await team.sendMessage({ recipient: 'b', content: 'aside', runId: run.id, requiresResponse: true })
  t.equal(reply?.runId, run.id)
  await team.clock.advance(10)
  t.ok((await run.result).messageHistory.some(({ content }) => content === 'aside'))
  await t.rejects(team.sendMessage({ recipient: 'b', content: 'late', runId: run.id }), { code: 'UNKNOWN_RUN' })
})

t.test('a message without one is a run of its own, whose history can be read', async (t) => {
  const passes = defineAgent({
    async receive({ content }, context) {
      if (content === 'pass on') await context.send('b', 'passed on')
    },
  })
  const team = stage(t, { a: passes, b: passes })
  const told: string[] = []
  team.events.subscribe((event) => void (event.type === 'message' && told.push(event.runId)))
  await team.sendMessage({ recipient: 'a', content: 'pass on' })
  await team.clock.advance(0)
  t.equal(new Set(told).size, 1)
  t.match(team.getMessageHistory(told[0]), [
    { content: 'pass on' },
    { content: 'passed on', sender: 'a', recipient: 'b' },
  ])
  t.equal(team.getRun(told[0]!), undefined)
})

t.test('higher priority goes first, the same priority in order', async (t) => {
  const { team, heard } = listening(t)
  await team.start()
  for (const [content, priority] of [
    ['low', -1],
    ['plain', 0],
    ['high', 5],
    ['plain too', 0],
    ['high too', 5],
  ] as const)
    void team.sendMessage({ recipient: 'a', content, priority })
  await team.clock.advance(0)
  t.same(
    heard.map((line) => line.split(': ')[1]),
    ['high', 'high too', 'plain', 'plain too', 'low'],
  )
})

t.test('a handler that throws makes a message that nobody waits for a dead letter', async (t) => {
  const team = stage(t, { a: throws('broken') })
  const letters: DeadLetter[] = []
  team.events.subscribe((event) => void (event.type === 'message.dead' && letters.push(event.letter)))
  await team.sendMessage({ recipient: 'a', content: 'hi' })
  await team.clock.advance(0)
  t.match(letters, [{ reason: 'failed', message: { content: 'hi' }, errors: [{ code: 'AGENT_FAILED' }] }])
  t.same(team.deadLetters.list(), letters)
  t.equal(team.health().deadLetters, 1)
})

t.test('a full mailbox that rejects tells its sender, who waits or not', async (t) => {
  const a = { code: after(10), communication: { mailboxCapacity: 1, overflow: 'reject' as const } }
  const team = stage(t, { a })
  await team.sendMessage({ recipient: 'a', content: 'one' })
  for (const requiresResponse of [true, false])
    await t.rejects(team.sendMessage({ recipient: 'a', content: 'two', requiresResponse }), { code: 'MAILBOX_FULL' })
  await t.rejects(team.getAgent('a')!.run('task'), { code: 'MAILBOX_FULL' })
  await team.clock.advance(10)
  t.equal(await team.sendMessage({ recipient: 'a', content: 'three' }), null)
})

t.test('a full mailbox that blocks holds its sender up, and nobody else', async (t) => {
  const a = { code: after(10), communication: { mailboxCapacity: 1 } }
  const team = stage(t, { a, b: echo })
  await team.sendMessage({ recipient: 'a', content: 'one' })
  let accepted = false
  const second = team.sendMessage({ recipient: 'a', content: 'two' }).then(() => {
    accepted = true
  })
  t.match(await team.sendMessage({ recipient: 'b', content: 'hi', requiresResponse: true }), { content: 'b: hi' })
  t.equal(accepted, false)
  await team.clock.advance(10)
  await second
  t.equal(accepted, true)
})

t.test('a message too large, or no message at all, is refused with the field that is wrong', async (t) => {
  const { team, send } = listening(t, { communication: { maxMessageBytes: 1_000 } })
  for (const requiresResponse of [true, false])
    await t.rejects(send({ recipient: 'a', content: 'x'.repeat(2_000), requiresResponse }), {
      code: 'MESSAGE_REJECTED',
      details: { limit: 1_000 },
    })
  const wrong: Record<string, object> = {
    recipient: { content: 'hi' },
    content: { recipient: 'a' },
    priority: { recipient: 'a', content: 'hi', priority: 0.5 },
    structuredData: { recipient: 'a', content: 'hi', structuredData: { at: new Date(0) } },
    type: { recipient: 'a', content: 'hi', type: 'shout' },
  }
  for (const [path, message] of Object.entries(wrong))
    await t.rejects(team.sendMessage(message as MessageInput), { code: 'MESSAGE_REJECTED', details: { path } }, path)
})

for (const bytes of [70_000, 300_000, 3_000_000])
  t.test(`a message of ${bytes} bytes crosses both ways, in order with the small ones`, async (t) => {
    const large = 'x'.repeat(bytes)
    const mirror = defineAgent({ receive: ({ content }) => content })
    const passes = defineAgent({
      async receive({ content }, context) {
        const [one, two] = await Promise.all([context.request('b', content), context.request('b', 'small')])
        return `${one.content}${two.content}`
      },
    })
    const team = stage(t, { a: passes, b: mirror }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
    const run = team.launch(large)
    const { finalOutput } = await run.result
    t.ok(finalOutput === `${large}small`)
    const answers = (await all(run.events({ types: ['message'] }))).flatMap((event) =>
      event.type === 'message' && event.message.sender === 'b' ? [event.message.content.length] : [],
    )
    t.same(answers, [bytes, 5])
  })

t.test('a send that is refused gives back the room that it had claimed', async (t) => {
  const stubborn = defineAgent({
    async receive(_message, context) {
      await context.sleep(10).catch(() => {})
      for (let i = 0; i < 5; i++) await context.send('b', 'too late').catch(() => {})
    },
  })
  const b = { code: echo, communication: { mailboxCapacity: 2 } }
  const team = stage(t, { a: stubborn, b }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  await team.clock.advance(0)
  t.equal(team.deadLetters.list().filter(({ message }) => message.content === 'too late').length, 5)
  t.match(await team.sendMessage({ recipient: 'b', content: 'hi', requiresResponse: true }), { content: 'b: hi' })
})
