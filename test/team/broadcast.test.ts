/** broadcast: one message to the `observe` of everybody else, accepted by each before its sender goes on. */
import t from 'tap'
import { type AgentContext, type AgentMessage, type DramatisError, defineAgent } from '../../src/index.ts'
import { imbalances } from '../kit/accounts.ts'
import { ask, gate, given, localTeam, never, openTeam, outcomeOf } from '../kit/team.ts'

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
