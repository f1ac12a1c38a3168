/** One message to several: to the `observe` of everybody else, or to those that are named. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  type DramatisError,
  defineAgent,
  type RuntimeEvent,
} from '../../src/index.ts'
import { imbalances } from '../kit/accounts.ts'
import { pluck } from '../kit/lists.ts'
import { ask, gate, given, localTeam, never, openTeam, outcomeOf } from '../kit/team.ts'
import { echo, stage, type Test } from './stage.ts'

// broadcast: one message to the `observe` of everybody else, accepted by each before its sender goes on.

const caught = (promise: Promise<unknown>) => promise.catch((error: DramatisError) => error)

/** Agents that keep what they hear, as "name: content". */
function listeners() {
  const heard: string[] = []
  const messages: AgentMessage[] = []
  const note = (message: AgentMessage, { role }: AgentContext) => {
    heard.push(`${role.name}: ${message.content}`)
    messages.push(message)
  }
  return { heard, messages, listener: defineAgent({ receive: note, observe: note }) }
}

t.test('a broadcast comes to observe of every other agent, and stands in history once', async (t) => {
  const { heard, messages, listener } = listeners()
  const caller = defineAgent({
    receive: (_message, context) =>
      context.broadcast('news', { structuredData: { n: 1 }, metadata: { m: 2 }, threadId: 'talk', priority: 3 }),
    observe: () => void heard.push('itself'),
  })
  const team = openTeam(t, { caller, a: listener, b: listener })
  const result = await team.execute('go')
  await team.clock.advance(0)
  t.same(heard.sort(), ['a: news', 'b: news'])
  const fields = { type: 'broadcast', sender: 'caller', recipient: null, content: 'news', requiresResponse: false }
  t.match(messages, [{ ...fields, structuredData: { n: 1 }, metadata: { m: 2 }, threadId: 'talk', priority: 3 }])
  const [told, ...more] = result.messageHistory.filter(({ type }) => type === 'broadcast')
  t.same(more, [])
  t.match(told, { ...fields, id: messages[0]!.id })
  t.same(
    result.orchestrationTrace.messageFlow.filter(({ type }) => type === 'broadcast').map(({ from, to }) => [from, to]),
    [
      ['caller', 'a'],
      ['caller', 'b'],
    ],
  )
})

t.test('a script can broadcast, and alone in a team one speaks to nobody', async (t) => {
  const { heard, listener } = listeners()
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.broadcast('from the script')
      return 'done'
    },
  }
  const team = localTeam(t, { a: listener, b: listener }, { orchestration })
  t.equal((await team.execute('go')).success, true)
  await team.clock.advance(0)
  t.same(heard.sort(), ['a: from the script', 'b: from the script'])
  const alone = localTeam(t, { a: (_message, context) => context.broadcast('hello?') })
  t.equal((await alone.execute('go')).success, true)
})

t.test(
  'a broadcast waits until each mailbox has accepted it, and keeps its place among what its sender sends',
  async (t) => {
    const { opened, open } = gate()
    const { heard, listener } = listeners()
    let sent: Promise<unknown> = never
    const slow = defineAgent({
      async receive({ content }) {
        if (content === 'hold') await opened
        heard.push(`slow: ${content}`)
      },
      observe: ({ content }) => void heard.push(`slow: ${content}`),
    })
    const team = given(t, {
      roles: { slow: { communication: { mailboxCapacity: 1 } }, quick: { communication: { mailboxCapacity: 1 } } },
    }).team({
      async caller(_message, context) {
        for (const content of ['hold', '1', '2', '3']) void context.send('slow', content)
        sent = context.broadcast('4')
        for (const content of ['5', '6']) void context.send('slow', content)
        void context.send('quick', '5')
        await sent
        return 'sent'
      },
      slow,
      quick: listener,
    })
    const asked = outcomeOf(ask(team, 'caller'))
    await team.clock.advance(10)
    t.notOk(asked.settled, 'slow has not accepted it')
    t.same(imbalances(team.host), [])
    open()
    await team.clock.advance(10)
    t.equal(asked.value, 'sent')
    const of = (name: string) => heard.filter((line) => line.startsWith(name))
    t.same(
      of('slow'),
      ['hold', '1', '2', '3', '4', '5', '6'].map((content) => `slow: ${content}`),
    )
    t.same(of('quick'), ['quick: 4', 'quick: 5'])
  },
)

t.test('who refuses a broadcast is named, and has a dead letter; the others have it', async (t) => {
  const { heard, listener } = listeners()
  const team = given(t, {
    unfinished: true,
    roles: {
      full: { communication: { mailboxCapacity: 1, overflow: 'reject' } },
      small: { communication: { maxMessageBytes: 64 } },
    },
  }).team({
    async caller(_message, context) {
      const error = (await caught(context.broadcast('news'))) as DramatisError
      return JSON.stringify(error)
    },
    full: () => never,
    small: listener,
    a: listener,
  })
  const held = outcomeOf(ask(team, 'full'))
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  t.match(JSON.parse(asked.value!), {
    code: 'MESSAGE_REJECTED',
    message:
      /^The broadcast did not get to 2 of 3 agents; the others have it\. "full": .*is full.* "small": .*at most 64/,
    details: {
      failures: [
        { agent: 'full', code: 'MAILBOX_FULL' },
        { agent: 'small', code: 'MESSAGE_REJECTED' },
      ],
    },
  })
  t.same(heard, ['a: news'])
  t.same(
    team.deadLetters.list().map(({ reason, message }) => [reason, message.type, message.recipient]),
    [
      ['rejected', 'broadcast', 'full'],
      ['rejected', 'broadcast', 'small'],
    ],
  )
  t.notOk(held.settled)
})

t.test('a broadcast that still waits for room is withdrawn by its signal; who has it keeps it', async (t) => {
  const { heard, listener } = listeners()
  const withdrawal = new AbortController()
  const team = given(t, { unfinished: true, roles: { full: { communication: { mailboxCapacity: 1 } } } }).team({
    async caller(_message, context) {
      const error = (await caught(context.broadcast('news', { signal: withdrawal.signal }))) as DramatisError
      return error.code
    },
    full: () => never,
    a: listener,
  })
  const held = outcomeOf(ask(team, 'full', 'hold'))
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  t.notOk(asked.settled)
  withdrawal.abort(new Error('no more'))
  await team.clock.advance(10)
  t.equal(asked.value, 'CANCELLED')
  t.same(heard, ['a: news'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { type: 'broadcast', recipient: 'full' } }])
  t.equal(team.agent('full').mailbox.pending.length, 0)
  t.notOk(held.settled)
})

t.test('a redelivered turn has broadcast once, whether it was accepted before the crash or since', async (t) => {
  const { heard, listener } = listeners()
  const { opened, open } = gate()
  const team = given(t, { roles: { slow: { communication: { mailboxCapacity: 2 } } } }).team({
    async caller(_message, context) {
      await context.broadcast('one')
      const second = context.broadcast('two')
      await context.request('a', 'crash me')
      if (context.attempt > 1) {
        await second
        return 'sent'
      }
      team.crash('caller')
      return never
    },
    a: listener,
    slow: defineAgent({
      async receive() {
        await opened
      },
      observe: ({ content }) => void heard.push(`slow: ${content}`),
    }),
  })
  const mismatches: unknown[] = []
  team.host.journal.records$.subscribe((batch) =>
    mismatches.push(...batch.filter(({ kind }) => kind === 'step.mismatch')),
  )
  const held = ask(team, 'slow')
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  t.notOk(asked.settled)
  open()
  await team.clock.advance(10)
  t.equal(asked.value, 'sent')
  await held
  t.same(heard, ['a: one', 'a: two', 'a: crash me', 'slow: one', 'slow: two'])
  t.same(mismatches, [])
})

t.test('a handler that is retried does not broadcast again what some refused', async (t) => {
  const { heard, listener } = listeners()
  const codes: string[] = []
  const team = given(t, {
    roles: {
      caller: { supervision: { onHandlerError: 'retry' } },
      small: { communication: { maxMessageBytes: 64 } },
    },
  }).team({
    async caller(_message, context) {
      codes.push(((await caught(context.broadcast('news'))) as DramatisError).code)
      if (context.attempt === 1) throw new Error('broken')
      return 'done'
    },
    a: listener,
    small: listener,
  })
  t.equal(await ask(team, 'caller'), 'done')
  t.same(codes, ['MESSAGE_REJECTED', 'MESSAGE_REJECTED'])
  t.same(heard, ['a: news'])
  t.equal(team.deadLetters.list().length, 1)
})

t.test('a broadcast that still waits for room ends with its run', async (t) => {
  const { heard, listener } = listeners()
  const team = given(t, { unfinished: true, roles: { full: { communication: { mailboxCapacity: 1 } } } }).team({
    caller: (_message, context) => context.broadcast('news'),
    full: () => never,
    a: listener,
  })
  const held = outcomeOf(ask(team, 'full'))
  const run = team.launch('go')
  await team.clock.advance(10)
  await run.cancel('enough')
  await team.clock.advance(10)
  t.same(heard, ['a: news'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { type: 'broadcast', recipient: 'full' } }])
  t.equal(team.agent('caller').acknowledgements.size, 0)
  t.notOk(held.settled)
})

// A message to several agents is one message: in the history, in the events, and to each who gets it.

const MANY_PIECES = 200

/** Agents that keep what they get, and emit to nobody; one of them subscribes when it is asked to. */
function cast() {
  const got: (AgentMessage & { agent: string })[] = []
  const keep = (message: AgentMessage, agent: string) => void got.push({ ...message, agent, id: message.id })
  const keeper = defineAgent({
    async receive(message, context) {
      if (message.content === 'listen') return context.subscribe('news.*')
      if (message.content === 'write') await context.publish('news.today', 'rain', 'fact')
      else if (message.content === 'crash') throw new Error('broken')
      else keep(message, context.role.name)
    },
    async observe(message, context) {
      for (let n = 0; n < MANY_PIECES; n++) context.emit('.')
      await context.sleep(0)
      keep(message, context.role.name)
    },
  })
  return { got, keeper }
}

function team(t: Test) {
  const { got, keeper } = cast()
  const made = stage(t, { a: keeper, b: keeper, c: keeper })
  const events: RuntimeEvent[] = []
  made.events.subscribe((event) => void events.push(event))
  const told = () => events.flatMap((event) => (event.type === 'message' ? [event.message] : []))
  const letters = () => events.flatMap((event) => (event.type === 'message.dead' ? [event.letter] : []))
  return { team: made, got, told, letters }
}

t.test('a broadcast is one message to null', async (t) => {
  const { team: made, got, told } = team(t)
  await made.broadcast('news', 'a')
  await made.clock.advance(1)
  t.match(told(), [{ type: 'broadcast', sender: 'a', recipient: null, content: 'news' }])
  t.equal(told().length, 1)
  t.same(
    got.map(({ agent, recipient, id }) => [agent, recipient, id]).sort(),
    ['b', 'c'].map((agent) => [agent, null, told()[0]?.id]),
  )
  t.same(made.getMessageHistory(told()[0]?.runId), told())
})

t.test('a message to a list is one message to that list', async (t) => {
  const { team: made, got, told } = team(t)
  await made.sendMessage({ recipient: ['c', 'a'], content: 'hi', structuredData: { n: 1 } })
  await made.clock.advance(1)
  t.match(told(), [{ type: 'request', sender: '$user', recipient: ['c', 'a'], structuredData: { n: 1 } }])
  t.equal(told().length, 1)
  t.same(got.map(({ agent, recipient }) => [agent, recipient]).sort(), [
    ['a', ['c', 'a']],
    ['c', ['c', 'a']],
  ])
  t.same([...new Set(got.map(({ id }) => id))], [told()[0]?.id])
})

t.test('who is named twice gets it once', async (t) => {
  const { team: made, got } = team(t)
  await made.sendMessage({ recipient: ['a', 'b', 'a'], content: 'hi' })
  await made.clock.advance(1)
  t.same(got.map(({ agent }) => agent).sort(), ['a', 'b'])
})

t.test('each recipient that did not get it has a letter of its own', async (t) => {
  const { team: made, got, told, letters } = team(t)
  await t.rejects(made.sendMessage({ recipient: ['zoe', 'a', 'yan'], content: 'hi' }), { code: 'UNKNOWN_AGENT' })
  await made.clock.advance(1)
  t.same(pluck(got, 'agent'), ['a'])
  t.same(
    letters().map(({ reason, message }) => [reason, message.recipient, message.id]),
    ['zoe', 'yan'].map((name) => ['unknown_agent', name, told()[0]?.id]),
  )
  t.equal(new Set(letters().map(({ id }) => id)).size, 2)
  t.match(told(), [{ recipient: ['zoe', 'a', 'yan'] }])
})

t.test('a letter names who failed to handle it', async (t) => {
  const { team: made, letters } = team(t)
  await made.sendMessage({ recipient: ['a', 'b'], content: 'crash' })
  await made.clock.advance(1)
  t.same(
    letters()
      .map(({ reason, message }) => [reason, message.recipient])
      .sort(),
    [
      ['failed', 'a'],
      ['failed', 'b'],
    ],
  )
})

t.test('an entry of the blackboard is one message to all who subscribed', async (t) => {
  const { team: made, got, told } = team(t)
  const run = made.launch('go')
  for (const [recipient, content] of [
    ['a', 'listen'],
    ['b', 'listen'],
    ['c', 'write'],
  ] as const)
    await made.sendMessage({ recipient, content, runId: run.id, requiresResponse: true })
  await made.clock.advance(1)
  const published = told().filter(({ type }) => type === 'publish')
  t.match(published, [{ sender: 'c', recipient: null, content: 'news.today', structuredData: { value: 'rain' } }])
  t.equal(published.length, 1)
  const observed = got.filter(({ type }) => type === 'publish')
  t.same(
    observed.map(({ agent, id }) => [agent, id]).sort(),
    ['a', 'b'].map((agent) => [agent, published[0]?.id]),
  )
})

t.test('the trace has an arrow to each, with the id of the one message', async (t) => {
  const made = stage(t, { a: echo, b: echo, c: echo })
  const run = made.launch('go')
  await made.sendMessage({ recipient: ['b', 'c'], content: 'hi', runId: run.id })
  await made.clock.advance(1)
  const { messageFlow } = (await run.result).orchestrationTrace
  const arrows = messageFlow.filter(({ from, type }) => from === '$user' && type === 'request')
  const sent = (await run.result).messageHistory.filter(({ recipient }) => Array.isArray(recipient))
  t.equal(sent.length, 1)
  t.same(
    arrows.flatMap(({ to, messageId }) => (messageId === sent[0]?.id ? [to] : [])),
    ['b', 'c'],
  )
})
