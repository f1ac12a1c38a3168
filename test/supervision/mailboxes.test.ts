/** Rules 15 to 18: mailboxes are bounded, keep their order, and lose nothing in silence. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition.ts'
import { DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import { settingsFrom } from '../../src/runtime/settings.ts'
import { testTeam } from '../../src/testing.ts'
import { imbalances, leftovers, roomOf, watchAccounts } from './accounts.ts'
import { ask, gate, localTeam, never, openTeam, type Receive } from './teams.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => `${i}`)

t.test('rule 15: a mailbox has room for 1,024 messages or 1 MiB, and blocks, unless told otherwise', async (t) => {
  const { agents } = settingsFrom({ agents: [{ name: 'worker' }] }, { modules: new Set(['worker']) })
  t.same(agents[0]?.mailbox, { capacity: 1_024, bytes: 2 ** 20, maxMessageBytes: 2 ** 24, overflow: 'block' })
})

t.test('rule 15: block: the verb of who sends to a full mailbox waits, and nobody else', async (t) => {
  const { opened, open } = gate()
  const accepted: string[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (const content of numbers(4)) {
          await context.send('worker', content)
          accepted.push(content)
        }
      },
      async worker() {
        await opened
      },
      other: (_message, context) => context.request('third', 'go').then(({ content }) => content),
      third: () => 'fine',
    },
    { roles: { worker: { communication: { mailboxCapacity: 2 } } } },
  )
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  t.same(accepted, ['0', '1'])
  t.equal(await ask(team, 'other'), 'fine')
  t.match(team.health().agents.worker, { queued: 2, inFlight: 1 }, 'two have room, one waits for it')
  open()
  await sending
  t.same(accepted, numbers(4))
  await team.clock.advance(0)
  t.same(leftovers(team.host), [])
})

t.test('rule 15: block: a mailbox is full by its bytes too', async (t) => {
  const { opened, open } = gate()
  const accepted: number[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 4; i++) {
          await context.send('worker', 'x'.repeat(1_000))
          accepted.push(i)
        }
      },
      async worker() {
        await opened
      },
    },
    { roles: { worker: { communication: { mailboxBytes: 2_500 } } } },
  )
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  t.same(accepted, [0, 1])
  open()
  await sending
  t.same(accepted, [0, 1, 2, 3])
})

t.test('rule 15: a message larger than the mailbox is taken when nothing else waits', async (t) => {
  const lengths: number[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (const length of [10, 5_000, 20, 9_000]) await context.send('worker', 'x'.repeat(length))
      },
      worker: (message) => void lengths.push(message.content.length),
    },
    { roles: { worker: { communication: { mailboxBytes: 2_500 } } } },
  )
  await ask(team, 'sender')
  await team.clock.advance(0)
  t.same(lengths, [10, 5_000, 20, 9_000])
  t.same(leftovers(team.host), [])
})

t.test('rule 15: a message larger than maxMessageBytes is refused, with both figures', async (t) => {
  const team = localTeam(
    t,
    {
      sender: (_message, context) =>
        context.send('worker', 'x'.repeat(2_000)).then(
          () => 'sent',
          (error: { code: string }) => error.code,
        ),
      worker: () => '',
    },
    { communication: { maxMessageBytes: 1_000 } },
  )
  t.equal(await ask(team, 'sender'), 'MESSAGE_REJECTED')
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'x'.repeat(2_000) }), {
    code: 'MESSAGE_REJECTED',
    details: { limit: 1_000, bytes: 2_072 },
  })
})

t.test('rule 15: reject: who sends to a full mailbox is told, and its message is dead', async (t) => {
  const outcomes: string[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (const verb of ['send', 'send', 'send', 'request'] as const) {
          const sent = context[verb]('worker', verb)
          if (verb === 'send' || outcomes.length > 0)
            await sent.then(
              () => outcomes.push('accepted'),
              (error) => outcomes.push(error.code),
            )
        }
      },
      worker: () => never,
    },
    { communication: { mailboxCapacity: 2, overflow: 'reject' } },
  )
  const sending = ask(team, 'sender')
  await sending
  t.same(outcomes, ['accepted', 'accepted', 'MAILBOX_FULL', 'MAILBOX_FULL'])
  t.match(
    team.deadLetters.list().map(({ reason, message, errors }) => [reason, message.content, errors[0]?.details]),
    [
      ['rejected', 'send', { agent: 'worker', capacity: 2 }],
      ['rejected', 'request', { agent: 'worker', capacity: 2 }],
    ],
  )
  t.same(imbalances(team.host), [])
})

t.test('rule 15: reject: a caller outside of the team is told as well', async (t) => {
  const team = openTeam(t, { worker: () => never }, { communication: { mailboxCapacity: 1, overflow: 'reject' } })
  await team.sendMessage({ recipient: 'worker', content: 'first' })
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'second' }), { code: 'MAILBOX_FULL' })
  await t.rejects(ask(team, 'worker', 'third'), { code: 'MAILBOX_FULL' })
  await t.rejects(team.getAgent('worker')!.run('fourth'), { code: 'MAILBOX_FULL' })
  t.same(imbalances(team.host), [])
})

t.test('rule 15: drop_oldest and drop_newest are refused: they belong to a later version', async (t) => {
  for (const overflow of ['drop_oldest', 'drop_newest'] as const) {
    const make = () =>
      testTeam(
        { agents: [{ name: 'worker' }], orchestration: { strategy: 'sequential' }, communication: { overflow } },
        { modules: { worker: defineAgent({ receive: () => '' }) } },
      )
    t.throws(make, {
      code: 'CONFIGURATION',
      message: /^communication\.overflow: not available in this version/,
      details: { path: 'communication.overflow', accepted: '"block" or "reject"' },
    })
  }
})

t.test('rule 15: responses have a lane of their own, which a full mailbox does not close', async (t) => {
  const team = openTeam(
    t,
    {
      async asker(message, context) {
        if (message.content !== 'go') return
        return (await context.request('worker', 'why')).content
      },
      async worker(_message, context) {
        await context.sleep(10)
        return 'because'
      },
    },
    { roles: { asker: { communication: { mailboxCapacity: 2 } } } },
  )
  const asked = ask(team, 'asker')
  await team.clock.advance(0)
  const notes = numbers(5).map((content) => team.sendMessage({ recipient: 'asker', content }))
  await team.clock.advance(10)
  t.equal(await asked, 'because')
  await Promise.all(notes)
})

t.test('rule 15: a cancellation passes a full mailbox', async (t) => {
  const told: boolean[] = []
  const team = openTeam(
    t,
    {
      async worker(_message, context) {
        await context.sleep(1_000_000).catch(() => told.push(context.signal.aborted))
      },
    },
    { communication: { mailboxCapacity: 1 } },
  )
  const gone = new AbortController()
  const run = team.execute('go', { signal: gone.signal })
  await team.clock.advance(0)
  void team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(0)
  gone.abort()
  await run
  await team.clock.advance(0)
  t.same(told, [true])
})

t.test('rule 15: a message that is refused gives back the room that its sender had claimed', async (t) => {
  const gone = new AbortController()
  const team = openTeam(
    t,
    {
      sender(_message, context) {
        gone.abort()
        for (const content of numbers(5)) void context.send('worker', content) // it does not know yet
      },
      worker: () => 'fine',
    },
    { communication: { mailboxCapacity: 8 } },
  )
  await team.execute('go', { signal: gone.signal })
  await team.clock.advance(0)
  t.equal(team.deadLetters.list().filter(({ reason }) => reason === 'cancelled').length, 5)
  t.equal(roomOf(team.host, team.host.cell('worker')!), 8)
})

t.test('rule 15: a thread that dies with a full outbox leaves no claim behind', async (t) => {
  const team = openTeam(
    t,
    {
      sender(_message, context) {
        if (context.attempt > 1) return
        for (let i = 0; i < 50; i++) void context.send('worker', 'x'.repeat(10_000))
        for (let i = 0; i < 5; i++) void context.request('worker', 'x'.repeat(10_000))
        team.crash('sender')
        return never
      },
      worker: () => 'fine',
    },
    { communication: { mailboxBytes: 2 ** 22 } },
  )
  await ask(team, 'sender')
  await team.clock.advance(0)
  t.same(leftovers(team.host), [])
})

t.test('rule 15: room that was taken by a large message is given back to who waits for it', async (t) => {
  const { opened, open } = gate()
  const lengths: number[] = []
  const team = openTeam(
    t,
    {
      async sender(message, context) {
        await context.send('worker', 'x'.repeat(Number(message.content)))
      },
      async worker(message) {
        await opened
        lengths.push(message.content.length)
      },
    },
    { communication: { mailboxBytes: 4_000 } },
  )
  for (const length of [3_000, 200_000, 1_000, 2_000, 300_000]) void ask(team, 'sender', `${length}`)
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.same(lengths, [3_000, 200_000, 1_000, 2_000, 300_000])
  t.same(leftovers(team.host), [])
})

t.test('rule 16: order is kept per sender, also for large payloads', async (t) => {
  const got: string[] = []
  const sends: Receive = async (_message, context) => {
    for (let i = 0; i < 40; i++)
      await context.send('worker', `${context.role.name}${i}`, {
        structuredData: i % 7 === 3 ? 'x'.repeat(150_000) : i % 5 === 2 ? 'x'.repeat(3_000) : null,
      })
  }
  const team = localTeam(t, { a: sends, b: sends, worker: (message) => void got.push(message.content) })
  await Promise.all([ask(team, 'a'), ask(team, 'b')])
  await team.clock.advance(0)
  for (const sender of ['a', 'b'])
    t.same(
      got.filter((content) => content.startsWith(sender)),
      numbers(40).map((i) => sender + i),
    )
})

t.test('rule 16: order is kept over deaths of recipient and sender', async (t) => {
  const got: string[] = []
  const team = localTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 30; i++) {
          await context.send('worker', `${i}`, { structuredData: i % 4 === 1 ? 'x'.repeat(100_000) : null })
          if (i === 10 * context.attempt && context.attempt < 3) {
            team.crash('sender')
            return never
          }
        }
      },
      async worker(message, context) {
        if (Number(message.content) % 9 === 5 && context.attempt === 1) {
          team.crash('worker')
          return never
        }
        got.push(message.content)
      },
    },
    { supervision: { maxRestarts: 100 } },
  )
  const sending = ask(team, 'sender')
  await team.clock.runToIdle()
  await sending
  t.same(got, numbers(30))
})

t.test('rule 16: higher priority comes first, equal priority in order', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = localTeam(t, {
    async sender(_message, context) {
      const priorities = [0, -1, 2, 0, 2, 1, -1, 5]
      for (const [i, priority] of priorities.entries()) await context.send('worker', `${priority} ${i}`, { priority })
    },
    async worker(message) {
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await ask(team, 'sender')
  open()
  await team.clock.advance(0)
  t.same(got, ['5 7', '2 2', '2 4', '1 5', '0 0', '0 3', '-1 1', '-1 6'])
})

t.test('rule 16: order within a priority is kept over a death', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = localTeam(t, {
    async sender(_message, context) {
      for (const content of numbers(6)) await context.send('worker', content, { priority: Number(content) % 2 })
    },
    async worker(message, context) {
      if (message.content === 'hold' && context.attempt === 1) return never
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await team.clock.advance(0) // the worker is at it
  await ask(team, 'sender')
  team.crash('worker')
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.same(got, ['1', '3', '5', '0', '2', '4'])
})

for (const priority of [3, -3]) {
  t.test(`rule 16: a large message of priority ${priority} keeps its place among small ones`, async (t) => {
    const { opened, open } = gate()
    const got: string[] = []
    const team = localTeam(t, {
      async sender(_message, context) {
        for (const content of numbers(7))
          await context.send('worker', content, {
            priority,
            structuredData: Number(content) % 3 === 1 ? 'x'.repeat(60_000) : null,
          })
      },
      async worker(message) {
        if (message.content === 'hold') await opened
        else got.push(message.content)
      },
    })
    await team.sendMessage({ recipient: 'worker', content: 'hold' })
    await ask(team, 'sender')
    open()
    await team.clock.advance(0)
    t.same(got, numbers(7))
  })
}

t.test('rule 16: what is sent while earlier messages wait for room comes after them', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 100; i++) void context.send('worker', `${i}`)
        void context.request('worker', '100')
        void context.send('worker', '101')
        return (await context.request('worker', '102')).content
      },
      async worker(message) {
        await opened
        got.push(message.content)
        return 'answer'
      },
    },
    { communication: { mailboxCapacity: 4 } },
  )
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  open()
  t.equal(await sending, 'answer')
  t.same(got, numbers(103))
  t.same(leftovers(team.host), [])
})

t.test('rule 17: a message to an unknown agent is a dead letter and an error to its sender', async (t) => {
  const team = localTeam(t, {
    sender: (message, context) =>
      context[message.content === 'ask' ? 'request' : 'send']('wroker', 'x').then(
        () => 'sent',
        (error: Error) => error.message,
      ),
    worker: () => '',
  })
  for (const verb of ['ask', 'send'])
    t.equal(await ask(team, 'sender', verb), 'No agent of this team is named "wroker"; did you mean "worker"?')
  await t.rejects(team.sendMessage({ recipient: 'wroker', content: 'x' }), { code: 'UNKNOWN_AGENT' })
  await t.rejects(ask(team, 'wroker'), { code: 'UNKNOWN_AGENT' })
  t.same(
    team.deadLetters.list().map(({ reason, message }) => `${reason} ${message.recipient}`),
    Array.from({ length: 4 }, () => 'unknown_agent wroker'),
  )
})

t.test('rule 17: a message to a stopped agent is a dead letter and an error to its sender', async (t) => {
  const team = localTeam(
    t,
    {
      sender: (message, context) =>
        context[message.content === 'ask' ? 'request' : 'send']('worker', 'x').then(
          () => 'sent',
          (error: { code: string }) => error.code,
        ),
      worker: () => '',
    },
    { roles: { worker: { supervision: { maxRestarts: 0 } } } },
  )
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  for (const verb of ['ask', 'send']) t.equal(await ask(team, 'sender', verb), 'AGENT_TERMINATED')
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'x' }), { code: 'AGENT_TERMINATED' })
  t.same(
    team.deadLetters.list().map(({ reason }) => reason),
    ['stopped', 'stopped', 'stopped'],
  )
})

t.test('rule 17: accepted = handled + dead + queued + in flight, with every record', async (t) => {
  const team = openTeam(
    t,
    {
      async worker(message, context) {
        const [what, times] = message.content.split(' ')
        if (what === 'fail') throw new Error('no')
        if (what === 'sleep') await context.sleep(Number(times))
        if (what === 'crash' && context.attempt <= Number(times)) {
          team.crash('worker')
          return never
        }
        if (what === 'ask') return (await context.request('other', 'sleep 20')).content
        return 'fine'
      },
      other: (_message, context) => context.sleep(20).then(() => 'other'),
    },
    {
      supervision: { maxRestarts: 4, coolDownMs: 100 },
      communication: { mailboxCapacity: 6, queueTimeoutMs: 400, responseTimeoutMs: 150 },
    },
  )
  const found = watchAccounts(team.host)
  const work = ['fail', 'crash 1', 'sleep 10', 'ask', 'crash 9', 'sleep 300', 'ask', 'crash 1', 'crash 1', 'crash 9']
  for (let round = 0; round < 6; round++)
    for (const content of work) {
      void team.sendMessage({ recipient: 'worker', content, requiresResponse: round % 2 === 0 }).catch(() => {})
      await team.clock.advance(17)
    }
  await team.clock.runToIdle()
  t.same(found, [])
  t.same(imbalances(team.host), [])
  t.same(leftovers(team.host), [])
  const { accepted, handled, deadLettered } = team.host.cell('worker')!.mailbox
  t.ok(handled > 0 && deadLettered > 0)
  t.equal(accepted, handled + deadLettered)
})

t.test('rule 17: a message whose handler fails counts as dead, not as handled', async (t) => {
  const team = openTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_FAILED' })
  const { accepted, handled, deadLettered } = team.host.cell('worker')!.mailbox
  t.same({ accepted, handled, deadLettered }, { accepted: 2, handled: 1, deadLettered: 1 })
  t.equal(team.deadLetters.list().length, 1)
})

t.test('rule 18: a dead letter keeps the whole message, the reason, the errors and the time', async (t) => {
  const team = localTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  const events: unknown[] = []
  team.events.subscribe((event) => {
    if (event.type === 'message.dead') events.push(event.letter)
  })
  await team.start()
  await team.clock.advance(7)
  await team.sendMessage({
    recipient: 'worker',
    content: 'note',
    structuredData: { deep: [1] },
    metadata: { a: 1 },
    priority: 3,
    threadId: 'thread',
  })
  await team.clock.advance(0)
  const letters = team.deadLetters.list()
  t.match(letters, [
    {
      id: letters[0]?.message.id,
      reason: 'failed',
      at: 7,
      errors: [{ code: 'AGENT_FAILED' }],
      message: {
        type: 'request',
        sender: '$user',
        recipient: 'worker',
        content: 'note',
        structuredData: { deep: [1] },
        metadata: { a: 1 },
        priority: 3,
        threadId: 'thread',
        requiresResponse: false,
        sentAt: 7,
      },
    },
  ])
  t.same(events, letters)
})

t.test('rule 18: the list is bounded: the oldest letters go, and are counted', async (t) => {
  const list = new DeadLetterList(3)
  const [letter] = [{ message: never, reason: 'failed', errors: [], at: 0 }] as never[]
  for (const id of numbers(5)) list.add(Object.assign({}, letter, { id }), 64)
  t.same(
    list.list().map(({ id }) => id),
    ['2', '3', '4'],
  )
  t.equal(list.total, 5)
})

t.test('rule 18: replay and discard are refused: they belong to a later version', async (t) => {
  const team = localTeam(t, { worker: () => '' })
  await t.rejects(team.deadLetters.replay('x'), { code: 'CONFIGURATION', details: { path: 'deadLetters.replay' } })
  t.throws(() => team.deadLetters.discard('x'), { code: 'CONFIGURATION', details: { path: 'deadLetters.discard' } })
})
