/** Rules 15 and 17: mailboxes are bounded, and what becomes of who sends to a full one. */
import type { Test } from 'tap'
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { Link, Outbox } from '../../src/actors/turn/link.ts'
import { ASLEEP, Channel, CLAIM } from '../../src/mailbox/channel.ts'
import { END, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { roomOf } from '../kit/accounts.ts'
import { BareSupervisor } from '../kit/bare-supervisor.ts'
import { pluck } from '../kit/lists.ts'
import {
  answerOf,
  ask,
  gate,
  given,
  never,
  numbers,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
} from '../kit/team.ts'

t.test('rule 15: a mailbox has room for 1,024 messages or 1 MiB, and blocks, unless told otherwise', async (t) => {
  const { agents } = settingsFrom({ agents: [{ name: 'worker' }] }, { modules: new Set(['worker']) })
  t.same(agents[0]?.mailbox, { capacity: 1_024, bytes: 2 ** 20, maxMessageBytes: 2 ** 24, overflow: 'block' })
})

t.test('rule 15: block: the verb of who sends to a full mailbox waits, and nobody else', async (t) => {
  const { opened, open } = gate()
  const accepted: string[] = []
  const team = given(t, { roles: { worker: { communication: { mailboxCapacity: 2 } } } }).team({
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
  })
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  t.same(accepted, ['0', '1'])
  t.equal(await ask(team, 'other'), 'fine')
  t.match(team.health().agents.worker, { queued: 2, inFlight: 1 }, 'two have room, one waits for it')
  open()
  await sending
  t.same(accepted, numbers(4))
  await team.clock.advance(0)
})

t.test('rule 15: a message larger than maxMessageBytes is refused, with both figures', async (t) => {
  const team = given(t, { communication: { maxMessageBytes: 1_000 } }).team({
    sender: (_message, context) =>
      context.send('worker', 'x'.repeat(2_000)).then(
        () => 'sent',
        (error: { code: string }) => error.code,
      ),
    worker: () => '',
  })
  t.equal(await ask(team, 'sender'), 'MESSAGE_REJECTED')
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'x'.repeat(2_000) }), {
    code: 'MESSAGE_REJECTED',
    details: { limit: 1_000, bytes: 2_072 },
  })
})

t.test('rule 15: responses have a lane of their own, which a full mailbox does not close', async (t) => {
  const team = given(t, { roles: { asker: { communication: { mailboxCapacity: 2 } } } }).team({
    async asker(message, context) {
      if (message.content !== 'go') return
      return (await context.request('worker', 'why')).content
    },
    async worker(_message, context) {
      await context.sleep(10)
      return 'because'
    },
  })
  const asked = ask(team, 'asker')
  await team.clock.advance(0)
  const notes = numbers(5).map((content) => team.sendMessage({ recipient: 'asker', content }))
  await team.clock.advance(10)
  t.equal(await asked, 'because')
  await Promise.all(notes)
})

t.test('rule 15: a cancellation passes a full mailbox', async (t) => {
  const told: boolean[] = []
  const team = given(t, { unfinished: true, communication: { mailboxCapacity: 1 } }).team({
    async worker(_message, context) {
      await context.sleep(1_000_000).catch(() => told.push(context.signal.aborted))
    },
  })
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
  const team = given(t, { communication: { mailboxCapacity: 8 } }).team({
    sender(_message, context) {
      gone.abort()
      for (const content of numbers(5)) void context.send('worker', content) // it does not know yet
    },
    worker: () => 'fine',
  })
  await team.execute('go', { signal: gone.signal })
  await team.clock.advance(0)
  t.equal(team.deadLetters.list().filter(({ reason }) => reason === 'cancelled').length, 5)
  t.equal(roomOf(team.host, team.agent('worker')), 8)
})

t.test('rule 15: a thread that dies with a full outbox leaves no claim behind', async (t) => {
  const team = given(t, { communication: { mailboxBytes: 2 ** 22 } }).team({
    sender(_message, context) {
      if (context.attempt > 1) return
      for (let i = 0; i < 50; i++) void context.send('worker', 'x'.repeat(10_000))
      for (let i = 0; i < 5; i++) void context.request('worker', 'x'.repeat(10_000))
      team.crash('sender')
      return never
    },
    worker: () => 'fine',
  })
  await ask(team, 'sender')
  await team.clock.advance(0)
})

t.test('rule 15: a claim that a thread had not used when it died is given back, one that it had is not', async (t) => {
  const team = given(t, { unfinished: true, communication: { mailboxCapacity: 8 } }).team({
    sender: (message, context) => context.send('worker', message.content),
    worker: () => never,
  })
  await ask(team, 'sender', 'note')
  const { team: room } = team.host
  const [sender, worker] = [team.agent('sender'), team.agent('worker')]
  for (const used of [true, false]) {
    const { channel, lastTurn, lastStep } = sender.incarnation!
    const bytes = 100
    if (!used) room.reserve(worker.index, bytes)
    channel.words.set([worker.index + 1, bytes, lastTurn, used ? lastStep : lastStep + 1], CLAIM)
    team.crash('sender')
    await team.clock.advance(1_000)
    t.equal(roomOf(team.host, worker), 7)
  }
})

t.test('rule 15: room that was taken by a large message is given back to who waits for it', async (t) => {
  const { opened, open } = gate()
  const lengths: number[] = []
  const team = given(t, { communication: { mailboxBytes: 4_000 } }).team({
    async sender(message, context) {
      await context.send('worker', 'x'.repeat(Number(message.content)))
    },
    async worker(message) {
      await opened
      lengths.push(message.content.length)
    },
  })
  for (const length of [3_000, 200_000, 1_000, 2_000, 300_000]) void ask(team, 'sender', `${length}`)
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.same(lengths, [3_000, 200_000, 1_000, 2_000, 300_000])
})

// Rule 15: mailboxes that drop. Nobody waits for them, and what they drop is seen.

const overflows = (team: OpenTeam) =>
  team.deadLetters
    .list()
    .filter(({ reason, errors }) => reason === 'overflow' && errors[0]?.code === 'MAILBOX_FULL')
    .map(({ message }) => message.content)

/** A worker that waits in its first turn for `open`, and what it has handled. */
function heldWorker() {
  const { opened, open } = gate()
  const handled: string[] = []
  const worker: Receive = async (message) => {
    handled.push(message.content.slice(0, 9).trim())
    await opened
    return 'done'
  }
  return { worker, handled, open }
}

/** Sends each, of that priority. */
const sendsAll =
  (...all: [content: string, priority: number][]): Receive =>
  async (_message, context) => {
    for (const [content, priority] of all) await context.send('worker', content, { priority })
    return 'sent'
  }

/** The first word of a dead letter. */
const nameOf = ({ message }: { message: { content: string } }) => message.content.trim()

const plain = (...contents: string[]): [string, number][] => contents.map((content) => [content, 0])

/** The worker begins with that one. */
async function begins(team: OpenTeam, content: string): Promise<void> {
  await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
}

async function afterwards(team: OpenTeam, open: () => void): Promise<void> {
  open()
  await team.clock.runToIdle()
}

// ---- what becomes of a message, by policy, room and verb

const LARGE = 'new'.padEnd(5_000)

/** What a mailbox for 2 messages or 2,500 bytes has, and what comes to it. */
const STATES = {
  'an idle agent': { there: [], comes: 'new' },
  'an idle agent, with more than its mailbox holds': { there: [], comes: LARGE },
  'a full mailbox': { there: ['busy', 'old'], comes: 'new' },
  'a mailbox full by its bytes': { there: ['busy', 'old'.padEnd(2_200)], comes: 'new'.padEnd(300) },
  'an agent at work, with more than its mailbox holds': { there: ['busy'], comes: LARGE },
}

/** For each state, in that order. */
const FATES = {
  block: ['taken', 'taken', 'waits', 'waits', 'waits'],
  reject: ['taken', 'taken', 'rejected', 'rejected', 'rejected'],
  drop_newest: ['taken', 'taken', 'dropped', 'dropped', 'dropped'],
  drop_oldest: ['taken', 'taken', 'displaces', 'displaces', 'dropped'],
} as const

const verbs: Record<string, (team: OpenTeam, content: string) => Promise<unknown>> = {
  send: (team, content) => ask(team, 'sender', `send ${content}`),
  request: (team, content) => ask(team, 'sender', `request ${content}`),
  broadcast: (team, content) => ask(team, 'sender', `broadcast ${content}`),
  'a message from outside': (team, content) => team.sendMessage({ recipient: 'worker', content }).then(() => 'sent'),
  'a request from outside': (team, content) => ask(team, 'worker', content),
  'a run of the agent': (team, content) => team.getAgent('worker')!.run(content),
}

const ofSender: Receive = async ({ content }, context) => {
  const [verb, ...words] = content.split(' ')
  const text = words.join(' ')
  if (verb === 'request') return answerOf(context.request('worker', text))
  const sent = verb === 'send' ? context.send('worker', text) : context.broadcast(text)
  return answerOf(sent.then(() => ({ content: 'sent' })))
}

for (const [overflow, fates] of Object.entries(FATES) as [keyof typeof FATES, (typeof FATES)['block']][])
  for (const [i, [state, { there, comes }]] of Object.entries(STATES).entries())
    for (const [verb, sends] of Object.entries(verbs)) {
      const fate: string = fates[i]!
      t.test(`rule 15: ${overflow}: ${verb} to ${state}: ${fate}`, async (t) => {
        const { worker, handled, open } = heldWorker()
        const communication = { mailboxCapacity: 2, mailboxBytes: 2_500, overflow }
        const hears = defineAgent({
          receive: worker,
          observe: async (message, context) => void (await worker(message, context)),
        })
        const team = openTeam(t, { sender: ofSender, worker: hears }, { roles: { worker: { communication } } })
        await team.start()
        const before = there.map((content) => outcomeOf(ask(team, 'worker', content)))
        await team.clock.advance(0)
        const sent = outcomeOf(sends(team, comes))
        await team.clock.advance(0)
        const isAsked = /request|run/.test(verb)
        const isTold = fate === 'rejected' || (fate === 'dropped' && isAsked)
        t.equal(sent.settled, isTold || (!isAsked && fate !== 'waits'), 'who sends goes on')
        const details = { agent: 'worker', capacity: 2, bytes: 2_500, overflow }
        if (fate === 'displaces') t.match(before[1]!.error, { code: 'MAILBOX_FULL', details })
        const gone = { rejected: 'new', dropped: 'new', displaces: 'old' }[fate]
        t.match(
          team.deadLetters.list(),
          gone
            ? [
                {
                  reason: isTold && fate === 'rejected' ? fate : 'overflow',
                  errors: [{ code: 'MAILBOX_FULL', details }],
                },
              ]
            : [],
        )
        t.same(team.deadLetters.list().map(nameOf), gone ? [gone] : [])
        open()
        await team.clock.runToIdle()
        const refusal = verb === 'broadcast' ? 'MESSAGE_REJECTED' : 'MAILBOX_FULL'
        t.equal(sent.error?.code ?? sent.value, isTold ? refusal : isAsked ? 'done' : 'sent')
        t.same(
          handled,
          [...there, comes].map((content) => content.trim()).filter((content) => content !== gone),
        )
      })
    }

t.test('rule 15: drop_newest: what comes to a full mailbox is dropped, whatever its priority', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(...plain('a', 'b', 'c'), ['d', 9], ['e', -9])
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 3, overflow: 'drop_newest' } })
  t.equal(await ask(team, 'sender'), 'sent')
  t.same(overflows(team), ['d', 'e'])
  await afterwards(team, open)
  t.same(handled, ['a', 'b', 'c'])
})

t.test('rule 15: drop_oldest: what comes takes the place of what has waited longest', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(...plain('b', 'c', 'd', 'e', 'f'))
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 3, overflow: 'drop_oldest' } })
  await begins(team, 'a')
  t.equal(await ask(team, 'sender'), 'sent')
  t.same(overflows(team), ['b', 'c', 'd'], 'the turn of a has begun')
  await afterwards(team, open)
  t.same(handled, ['a', 'e', 'f'])
})

t.test('rule 15: drop_oldest: the lowest priority goes first, and nothing goes for what is lower still', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(
    ['low1', -1],
    ['low2', -1],
    ['none', 0],
    ['high', 5],
    ['x', 0], // for low1
    ['y', 5], // for low2
    ['z', -2], // nothing is as low
    ['w', 9], // for none
    ['v', 0], // for x
  )
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 5, overflow: 'drop_oldest' } })
  await begins(team, 'busy')
  await ask(team, 'sender')
  t.same(overflows(team), ['low1', 'low2', 'z', 'none', 'x'])
  await afterwards(team, open)
  t.same(handled, ['busy', 'w', 'high', 'y', 'v'])
})

t.test('rule 15: drop_oldest: by bytes as many go as it takes, and none where that would not do', async (t) => {
  const { worker, handled, open } = heldWorker()
  const x = 'x'.repeat(700)
  const sender = sendsAll(...plain(`a${x}`, `b${x}`, `c${x}`, `d${x}${x}`, 'e'), [`f${x}${x}`, -1])
  const team = openTeam(t, { sender, worker }, { communication: { mailboxBytes: 2_600, overflow: 'drop_oldest' } })
  await begins(team, '0')
  await ask(team, 'sender')
  t.same(
    overflows(team).map(([first]) => first),
    ['a', 'b', 'f'],
  )
  await afterwards(team, open)
  t.same(
    handled.map(([first]) => first),
    ['0', 'c', 'd', 'e'],
  )
})

t.test('rule 15: a message larger than a mailbox that drops is taken alone, or dropped itself', async (t) => {
  for (const [busy, handled] of [
    [true, ['busy', 'small']],
    [false, ['xxxxxxxxx']],
  ] as const) {
    const worker = heldWorker()
    const team = given(t, {
      communication: { mailboxBytes: 500, overflow: 'drop_oldest' },
      supervision: { backoff: { baseMs: 50 } },
    }).team({ worker: worker.worker })
    const send = (content: string) => team.sendMessage({ recipient: 'worker', content })
    await team.start()
    if (busy) await begins(team, 'busy')
    else {
      for (let i = 0; i < 2; i++) {
        await team.dies('worker') // the second time it stays down for a while
      }
    }
    await send('small')
    await send('x'.repeat(2_000))
    t.same(overflows(team).length, 1)
    await afterwards(team, worker.open)
    t.same(worker.handled, handled)
  }
})

t.test('rule 15: what a death has cut off is not dropped', async (t) => {
  const handled: string[] = []
  const team = given(t, {
    communication: { mailboxCapacity: 2, overflow: 'drop_oldest' },
    supervision: { backoff: { baseMs: 50, capMs: 50 } },
  }).team({
    async worker(message, context) {
      if (message.content === 'first' && context.attempt < 3) team.crash('worker', new Error(`${context.attempt}`))
      else handled.push(`${message.content} ${context.attempt}`)
    },
  })
  for (const content of ['first', 'b']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('worker'), 'restarting')
  for (const content of ['c', 'd']) await team.sendMessage({ recipient: 'worker', content })
  t.same(overflows(team), ['b', 'c'])
  await team.clock.runToIdle()
  t.same(handled, ['first 3', 'd 1'])
})

t.test('a subscriber that is told of more than its mailbox holds has all of its room again afterwards', async (t) => {
  const { opened, open } = gate()
  const seen: string[] = []
  const team = given(t, { roles: { reader: { communication: { mailboxCapacity: 2 } } } }).team({
    writer: async (_message, context) => {
      await context.request('reader', 'subscribe')
      for (let i = 0; i < 12; i++) await context.publish(`k${i}`, i, 'fact')
    },
    reader: defineAgent({
      receive: (_message, context) => context.subscribe('**'),
      async observe(message) {
        seen.push(message.content)
        await opened
      },
    }),
  })
  await ask(team, 'writer')
  await afterwards(team, open)
  t.same(
    seen,
    Array.from({ length: 12 }, (_, i) => `k${i}`),
  )
  t.equal(team.host.repairs.count, 0)
})

t.test('rule 15: a subscriber whose mailbox drops is bounded as for any other message', async (t) => {
  const { opened, open } = gate()
  const seen: string[] = []
  const team = given(t, { roles: { reader: { communication: { mailboxCapacity: 2, overflow: 'drop_oldest' } } } }).team(
    {
      writer: async (_message, context) => {
        await context.request('reader', 'subscribe')
        for (let i = 0; i < 5; i++) await context.publish(`k${i}`, i, 'fact')
      },
      reader: defineAgent({
        receive: (_message, context) => context.subscribe('**'),
        async observe(message) {
          seen.push(message.content)
          await opened
        },
      }),
    },
  )
  await ask(team, 'writer')
  t.same(overflows(team), ['k1', 'k2', 'k3'])
  await afterwards(team, open)
  t.same(seen, ['k0', 'k4'])
})

// Rules 15 and 16: who waits for room in a full mailbox, and what becomes of it.

const communication = { mailboxCapacity: 2, mailboxBytes: 2_500 }

t.test('rule 16: a message larger than the mailbox does not pass those that wait for room before it', async (t) => {
  const heard: string[] = []
  const team = given(t, { roles: { worker: { communication } } }).team({
    async sender(_message, context) {
      await Promise.all(['small', LARGE, 'last'].map((content) => context.request('worker', content)))
    },
    worker: ({ content }) => void heard.push(content),
  })
  await team.start()
  const worker = team.agent('worker')
  for (let i = 0; i < 2; i++) team.host.team.reserve(worker.index, 10) // of messages that others are about to write
  const asked = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(0)
  t.same([worker.mailbox.pending.length, worker.mailbox.accepted], [3, 0], 'there is room for none of them')
  for (let i = 0; i < 2; i++) team.host.mailboxes.freed(worker, 10)
  team.host.loop.kick()
  await team.clock.advance(0)
  t.ok(asked.settled)
  t.same(heard, ['small', LARGE, 'last'])
})

t.test('rule 15: one that is withdrawn while it waits behind another for room gives none back', async (t) => {
  const { opened, open } = gate()
  const gone = new AbortController()
  const sends: Receive = async ({ content }, context) =>
    context.send('worker', content, content === 'second' ? { signal: gone.signal } : {}).then(
      () => 'sent',
      ({ code }) => code,
    )
  const team = given(t, { roles: { worker: { communication: { mailboxCapacity: 1 } } } }).team({
    one: sends,
    two: sends,
    worker: () => opened,
  })
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  await team.clock.advance(0)
  const outcomes = [outcomeOf(ask(team, 'one', 'first'))]
  await team.clock.advance(0)
  outcomes.push(outcomeOf(ask(team, 'two', 'second')))
  await team.clock.advance(0)
  t.equal(team.agent('worker').mailbox.pending.length, 2)
  gone.abort()
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.match(outcomes, [{ value: 'sent' }, { value: 'CANCELLED' }])
})

t.test('rules 8, 15: who waits for room with more than a mailbox holds is told when its agent stops', async (t) => {
  const team = given(t, { roles: { worker: { communication, supervision: { maxRestarts: 0 } } } }).team({
    sender: (_message, context) =>
      context.send('worker', LARGE).then(
        () => 'sent',
        ({ code }) => code,
      ),
    worker: () => never,
  })
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  const asked = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(0)
  t.equal(team.agent('worker').mailbox.pending.length, 1)
  await team.dies('worker')
  t.equal(asked.value, 'AGENT_TERMINATED')
  t.same(pluck(team.deadLetters.list(), 'reason'), ['stopped', 'stopped'])
})

// Rules 15 and 17: a send that waits for room in a full mailbox ends when its signal, or its turn, is aborted.

const codeOf = (error: { code: string }) => error.code

/** A worker with room for one message besides the one that it holds until `open`, and who sends to it. */
function fullMailbox(t: Parameters<typeof openTeam>[0], sender: Receive, options = {}) {
  const { opened, open } = gate()
  const got: string[] = []
  const team = given(t, { ...options, roles: { worker: { communication: { mailboxCapacity: 2 } } } }).team({
    sender,
    async worker({ content }) {
      if (content === 'hold') await opened
      else got.push(content)
    },
  })
  const fill = async () => {
    for (const content of ['hold', 'first']) await team.sendMessage({ recipient: 'worker', content })
  }
  const rest = async () => {
    open()
    await team.clock.runToIdle()
  }
  return { team, got, fill, rest }
}

t.test('a send that waits for room is withdrawn by its signal, and leaves no trace of room taken', async (t) => {
  const { team, got, fill, rest } = fullMailbox(t, async (_message, context) => {
    const withdrawal = new AbortController()
    const sent = context.send('worker', 'withdrawn', { signal: withdrawal.signal }).catch(codeOf)
    const next = context.send('worker', 'next')
    await context.sleep(10)
    withdrawal.abort(new Error('changed my mind'))
    const code = await sent
    await next
    return String(code)
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(10)
  await rest()
  t.match(sender, { value: 'CANCELLED' })
  t.same(got, ['first', 'next'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'withdrawn' } }])
})

t.test('of many sends that wait, also those that the host does not know of yet can be withdrawn', async (t) => {
  const contents = Array.from({ length: 100 }, (_, i) => `${i}`)
  const { team, got, fill, rest } = fullMailbox(t, async (_message, context) => {
    const withdrawals = contents.map(() => new AbortController())
    const sends = contents.map((content, i) =>
      context.send('worker', content, { signal: withdrawals[i]!.signal }).then(() => 'sent', codeOf),
    )
    await context.sleep(10)
    for (const [i, withdrawal] of withdrawals.entries()) if (i % 3 === 0) withdrawal.abort()
    const outcomes = await Promise.all(sends)
    return outcomes.filter((outcome) => outcome === 'CANCELLED').length.toString()
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(10)
  await rest()
  t.match(sender, { value: '34' })
  t.same(got, ['first', ...contents.filter((_, i) => i % 3 !== 0)])
})

t.test('a turn that is told to stop withdraws what it sends and is not accepted', async (t) => {
  const reasons: string[] = []
  const { team, got, fill, rest } = fullMailbox(
    t,
    async (_message, context) => {
      await context.send('worker', 'withdrawn').catch((error) => reasons.push(codeOf(error)))
    },
    { communication: { responseTimeoutMs: 50 } },
  )
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(60)
  t.match(sender, { error: { code: 'REQUEST_TIMEOUT' } })
  t.same(reasons, ['REQUEST_TIMEOUT'])
  await rest()
  t.same(got, ['first'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'withdrawn' } }])
})

t.test('a withdrawn send is no less withdrawn in the next attempt of its turn', async (t) => {
  const outcomes: string[] = []
  const { team, got, fill, rest } = fullMailbox(t, async (_message, context) => {
    const withdrawal = new AbortController()
    const sent = context.send('worker', 'withdrawn', { signal: withdrawal.signal }).then(() => 'sent', codeOf)
    if (context.attempt === 1) {
      await context.sleep(10)
      withdrawal.abort()
    }
    outcomes.push(await sent)
    if (context.attempt === 1) await context.sleep(1_000)
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(20)
  await team.dies('sender')
  await rest()
  t.equal(sender.settled, true)
  t.same(outcomes, ['CANCELLED', 'CANCELLED'])
  t.same(got, ['first'])
})

t.test('a signal that aborts when the send was accepted changes nothing', async (t) => {
  const withdrawal = new AbortController()
  const sender = defineAgent({
    async receive(_message, context) {
      await context.send('worker', 'accepted', { signal: withdrawal.signal })
      withdrawal.abort()
    },
  })
  const got: string[] = []
  const team = openTeam(t, { sender, worker: ({ content }) => void got.push(content) })
  await ask(team, 'sender')
  await team.clock.advance(0)
  t.same(got, ['accepted'])
})

// Rule 17: the room that a message under way had claimed is given back exactly, wherever its thread died.

const CAPACITY = 4
const BYTES = 4_000

/** What a mailbox that nobody uses has too much or too little. */
function difference({ host }: OpenTeam): { messages: number; bytes: number } {
  const worker = host.directory.agent('worker')!
  const all = host.team.reserve(worker.index, BYTES)
  const more = host.team.reserve(worker.index, 1)
  if (all) host.team.release(worker.index, BYTES)
  if (more) host.team.release(worker.index, 1)
  return { messages: roomOf(host, worker) - CAPACITY, bytes: (all ? 0 : -1) + (more ? 1 : 0) }
}

/** Runs `act` as a thread would that ends before its `last + 1`st change of what the team shares. */
function dyingAfter(last: number, act: () => void): void {
  const { sub, add } = Atomics
  let left = last
  const dying = (change: typeof sub) => (words: Int32Array, at: number, by: number) => {
    if (left === 0) throw new Error('the thread ends here')
    left -= 1
    return change(words, at, by)
  }
  Object.assign(Atomics, { sub: dying(sub), add: dying(add) })
  try {
    act()
  } catch {
    // a thread that is ended has nobody to tell
  } finally {
    Object.assign(Atomics, { sub, add })
  }
}

const small = { mailboxCapacity: CAPACITY, mailboxBytes: BYTES }

for (const [room, length, changes] of [
  ['there is room', 100, 2],
  ['there are no bytes', 10_000, 4],
] as const) {
  for (let last = 0; last < changes; last++) {
    t.test(`a claim that its thread's end cuts off after ${last} changes, where ${room}`, async (t) => {
      const team = given(t, { roles: { worker: { communication: small } } }).team({
        sender(_message, context) {
          if (context.attempt > 1) return
          dyingAfter(last, () => void context.send('worker', 'x'.repeat(length)))
          team.crash('sender')
          return never
        },
        worker: () => {},
      })
      await ask(team, 'sender')
      t.same(difference(team), { messages: 0, bytes: 0 })
    })
  }
}

t.test('a claim where there is no place', async (t) => {
  const team = given(t, { roles: { worker: { communication: small } } }).team({
    sender(_message, context) {
      const { index } = team.agent('worker')
      if (context.attempt > 1) return
      for (let i = 0; i < CAPACITY; i++) team.host.team.reserve(index, 1)
      dyingAfter(1, () => void context.send('worker', 'x'))
      for (let i = 0; i < CAPACITY; i++) team.host.team.release(index, 1)
      team.crash('sender')
      return never
    },
    worker: () => {},
  })
  await ask(team, 'sender')
  t.same(difference(team), { messages: 0, bytes: 0 })
})

for (const [used, turn, step] of [
  ['not used', 7, 9],
  ['used', 1, 1],
] as const) {
  t.test(`a claim that was made and ${used} when its thread died`, async (t) => {
    const team = given(t, { roles: { worker: { communication: small } } }).team({
      async sender(_message, context) {
        if (context.attempt > 1) return
        await context.send('worker', 'x') // turn 1, step 1
        const { directory, team: room } = team.host
        const { index } = directory.agent('worker')!
        const { words } = directory.byIndex.find(({ name }) => name === 'sender')!.incarnation!.channel
        if (used === 'not used') room.reserve(index, 500)
        words.set([index + 1, 500, turn, step], CLAIM)
        team.crash('sender')
        return never
      },
      worker: () => {},
    })
    await ask(team, 'sender')
    await team.clock.advance(0)
    t.same(difference(team), { messages: 0, bytes: 0 })
  })
}

// The words that all threads share deny room that an empty mailbox has: forged, or taken by messages on their way.

const MOST = 8
const CHECK_MS = 50

/** A worker whose empty mailbox has no room by the words, and a message that waits for it. */
async function denied(t: Test, unwatched = false) {
  const team = given(t, { unwatched, communication: { mailboxCapacity: MOST } }).team({
    sender: async (_message, context) => {
      await context.send('worker', 'work')
      return 'sent'
    },
    worker: () => {},
  })
  t.equal(await ask(team, 'sender'), 'sent')
  await team.clock.runToIdle()
  const { directory, repairs, team: memory } = team.host
  const worker = directory.agent('worker')!
  const room = () => memory.room(worker.index).messages
  t.equal(room(), MOST)
  for (let n = 0; n < MOST; n++) memory.reserve(worker.index, 0)
  const sent = ask(team, 'sender')
  await team.clock.advance(1)
  t.equal(worker.mailbox.pending.length, 1)
  return { team, worker, memory, room, sent, repairs }
}

t.test('room that an empty mailbox does not have by the words is given back', async (t) => {
  const { team, room, sent, repairs } = await denied(t)
  await team.clock.advance(4 * CHECK_MS)
  t.equal(repairs.count, 0, 'messages may be on their way')
  await team.clock.advance(CHECK_MS)
  t.equal(repairs.count, 1)
  t.equal(await sent, 'sent')
  await team.clock.runToIdle()
  t.equal(room(), MOST)
  t.equal(repairs.count, 1)
})

t.test('a thread that the system stopped between its claim and its message is waited for', async (t) => {
  const { team, worker, sent, repairs } = await denied(t)
  const { words } = team.host.directory.agent('sender')!.incarnation!.channel
  Atomics.store(words, CLAIM, worker.index + 1)
  await team.clock.advance(90 * CHECK_MS)
  t.equal(repairs.count, 0)
  Atomics.store(words, CLAIM, 0)
  await team.clock.advance(CHECK_MS)
  t.equal(repairs.count, 1)
  t.equal(await sent, 'sent')
})

t.test('a claim that never becomes a message does not deny room for ever', async (t) => {
  const { team, worker, sent, repairs } = await denied(t)
  Atomics.store(team.host.directory.agent('sender')!.incarnation!.channel.words, CLAIM, worker.index + 1)
  await team.clock.advance(100 * CHECK_MS)
  t.equal(repairs.count, 1)
  t.equal(await sent, 'sent')
})

t.test('messages that were on their way come: nothing is set right', async (t) => {
  const { team, worker, memory, room, sent, repairs } = await denied(t, true) // the claims are of nobody
  await team.clock.advance(2 * CHECK_MS)
  for (let n = 0; n < MOST; n++) memory.release(worker.index, 0)
  team.host.mailboxes.freed(worker, 0)
  await team.clock.runToIdle()
  t.equal(await sent, 'sent')
  t.equal(repairs.count, 0)
  t.equal(room(), MOST)
})

// What somebody waits for, and what has a high priority, does not wait until the host has taken all that others
// wrote.

const MANY = 300 // more than the host takes of one agent at a time
const TURN = 1
const TYPES: Record<number, 'report' | 'request' | 'response'> = {
  [SEND]: 'report',
  [REQUEST]: 'request',
  [END]: 'response',
}

/** A host whose agents do what the test writes for them; `rung` has who was woken, in that order. */
async function host(t: Test) {
  const bare = new BareSupervisor({ flooder() {}, writer() {}, flooded() {}, other() {} }, [])
  await bare.start()
  await bare.clock.runToIdle() // all sleep
  t.teardown(() => bare.host.close())
  const rung: string[] = []
  for (const [name, thread] of bare.threads) thread.wake = () => void rung.push(name)
  for (const name of ['flooder', 'writer']) void bare.ask(name) // whose turns stay open
  bare.host.loop.kick()
  for (const name of rung.splice(0))
    Atomics.store(bare.host.directory.agent(name)!.incarnation!.channel.words, ASLEEP, 2)
  const index = (name: string) => bare.host.directory.agent(name)!.index
  const outboxOf = (name: string) => {
    const channel = new Channel(bare.host.directory.agent(name)!.incarnation!.channel.buffer)
    const link = new Link(channel, bare.host.team, { wake() {}, onWake() {}, scheduler: bare.clock }, index(name))
    return new Outbox(link, index(name), 10_000, () => 0, Math.random)
  }
  const outboxes = { flooder: outboxOf('flooder'), writer: outboxOf('writer'), other: outboxOf('other') }
  const write = (from: keyof typeof outboxes, kind: number, to: string, priority = 0) => {
    const outbox = outboxes[from]
    const fields = outbox.begin(kind, bare.run.index, TURN, 1, '', undefined)
    fields.type = TYPES[kind]!
    fields.recipient = index(to)
    fields.priority = priority
    fields.correlation = kind === SEND ? 0 : 1
    const bytes = outbox.size()
    if (kind === END) return void outbox.writeEnd(bytes, [0, 0, 0, 0], 0)
    outbox.link.reserveRoom(fields.recipient, bytes, TURN, 1)
    outbox.write(bytes, 'soon')
  }
  const flood = () => {
    for (const _ of numbers(MANY)) write('flooder', SEND, 'flooded')
  }
  return { bare, rung, write, flood }
}

t.test('a message of high priority is handed over before all of a flood is taken', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  flood()
  write('writer', SEND, 'other', 1)
  bare.host.loop.kick()
  t.same(rung, ['other', 'flooded'])
  t.equal(bare.host.directory.agent('flooded')!.mailbox.accepted, MANY)
})

t.test('without a priority it comes in its turn', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  flood()
  write('writer', SEND, 'other')
  bare.host.loop.kick()
  t.same(rung, ['flooded', 'other'])
})

t.test('an answer is handed over before all of a flood is taken', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  write('writer', REQUEST, 'other')
  bare.host.loop.kick()
  t.same(rung.splice(0), ['other'])
  flood()
  write('other', END, 'writer')
  bare.host.loop.kick()
  t.same(rung, ['writer', 'flooded'])
})
