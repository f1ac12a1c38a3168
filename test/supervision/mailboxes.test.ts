/** Rule 15: mailboxes are bounded, and what becomes of who sends to a full one. */
import t from 'tap'
import { CLAIM } from '../../src/mailbox/channel.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { imbalances, leftovers, roomOf } from './accounts.ts'
import { ask, gate, localTeam, never, numbers, openTeam } from './teams.ts'

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

t.test('rule 15: a message larger than the mailbox waits as long as anything else is there', async (t) => {
  const { opened, open } = gate()
  const accepted: number[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (const length of [10, 5_000]) {
          await context.send('worker', 'x'.repeat(length))
          accepted.push(length)
        }
      },
      worker: () => opened,
    },
    { roles: { worker: { communication: { mailboxBytes: 2_500 } } } },
  )
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  t.same(accepted, [10])
  open()
  await sending
  t.same(accepted, [10, 5_000])
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

t.test('rule 15: reject: a message larger than the mailbox is taken when nothing else is there', async (t) => {
  const lengths: number[] = []
  const team = openTeam(
    t,
    { worker: (message) => void lengths.push(message.content.length) },
    { communication: { mailboxBytes: 2_500, overflow: 'reject' } },
  )
  await team.sendMessage({ recipient: 'worker', content: 'x'.repeat(5_000) })
  await team.clock.advance(0)
  t.same(lengths, [5_000])
  t.same(leftovers(team.host), [])
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
  t.equal(roomOf(team.host, team.host.directory.cell('worker')!), 8)
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

t.test('rule 15: a claim that a thread had not used when it died is given back, one that it had is not', async (t) => {
  const team = openTeam(
    t,
    { sender: (message, context) => context.send('worker', message.content), worker: () => never },
    { communication: { mailboxCapacity: 8 } },
  )
  await ask(team, 'sender', 'note')
  const { team: room } = team.host
  const [sender, worker] = [team.host.directory.cell('sender')!, team.host.directory.cell('worker')!]
  for (const used of [true, false]) {
    const { window, lastTurn, lastStep } = sender.life!
    const bytes = 100
    if (!used) room.claim(worker.index, bytes)
    window.words.set([worker.index + 1, bytes, lastTurn, used ? lastStep : lastStep + 1], CLAIM)
    team.crash('sender')
    await team.clock.advance(1_000)
    t.equal(roomOf(team.host, worker), 7)
  }
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
