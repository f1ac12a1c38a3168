/** Mailboxes, the line of those that wait for room, and the room that the team shares. */
import { deepStrictEqual, equal } from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import t from 'tap'
import { type Outbox, type Queued, SendQueue } from '../../src/actors/turn/link.ts'
import { allocate, copyBytes, type Memory, memoryOn } from '../../src/mailbox/frame.ts'
import { type Envelope, Mailbox } from '../../src/mailbox/mailbox.ts'
import { HOST_ASLEEP, HOST_CALLED, MAX_AGENTS, PERMITS_WANTED, TeamMemory } from '../../src/mailbox/team-memory.ts'
import type { Claimer } from '../fixtures/claimer.ts'
import { pluck } from '../kit/lists.ts'
import { ANN, BOB, frameOf } from './frames.ts'
import { miscounts } from './recounts.ts'

/** The message with that name. */
const message = (run: string, priority = 0): Envelope<string> => ({
  memory: allocate(8),
  at: 0,
  bytes: 64,
  run,
  priority,
  within: undefined,
  turn: 0,
  attempt: 1,
  ring: 'plain',
  ringAt: 0,
  ringEnd: 0,
  handedSeq: 0,
  waitsSince: 0,
  startedAt: -1,
  begunAt: -1,
  wasSuspended: false,
  announced: false,
  cancelled: false,
  handedOff: false,
  uncharged: 0,
  deaths: null,
  retries: null,
})

function mailboxOf(...messages: Envelope<string>[]): Mailbox<string> {
  const mailbox = new Mailbox<string>()
  for (const envelope of messages) mailbox.push(envelope)
  return mailbox
}

/** Hands over the next `count`; their names. */
function hand(mailbox: Mailbox<string>, count = 1): string[] {
  return Array.from({ length: count }, () => {
    const envelope = mailbox.peek()!
    mailbox.hand(envelope)
    return envelope.run
  })
}

const namesOf = (envelopes: Iterable<Envelope<string>>) => [...envelopes].map(({ run }) => run)

const counts = ({ accepted, handled, deadLettered, waiting, handed }: Mailbox<string>) => ({
  accepted,
  handled,
  deadLettered,
  waiting,
  handed: handed.size,
})

t.test('messages of one priority come in the order of their arrival', async (t) => {
  t.same(hand(mailboxOf(message('a'), message('b'), message('c')), 3), ['a', 'b', 'c'])
})

t.test('a higher priority comes first, below 0 comes last', async (t) => {
  const mailbox = mailboxOf(message('low', -1), message('plain'), message('high', 1), message('highest', 2 ** 31 - 1))
  mailbox.push(message('lowest', -(2 ** 31)))
  t.same(namesOf(mailbox.queued()), ['highest', 'high', 'plain', 'low', 'lowest'])
  t.same(hand(mailbox, 5), ['highest', 'high', 'plain', 'low', 'lowest'])
})

t.test('an empty mailbox has nothing to hand over', async (t) => {
  const mailbox = mailboxOf()
  t.equal(mailbox.peek(), undefined)
  t.ok(mailbox.empty)
})

t.test('a mailbox is empty when nothing waits and nothing is under way', async (t) => {
  const mailbox = mailboxOf(message('a'))
  t.notOk(mailbox.empty)
  hand(mailbox)
  t.notOk(mailbox.empty)
  mailbox.commit(1)
  t.ok(mailbox.empty)
})

t.test('a turn has a number of its own, and keeps it over its attempts', async (t) => {
  const [a, b] = [message('a'), message('b')]
  const mailbox = mailboxOf(a, b)
  hand(mailbox, 2)
  t.same([a.turn, b.turn], [1, 2])
  mailbox.giveBack([a], [b])
  hand(mailbox, 2)
  t.same([a.turn, b.turn], [1, 2])
  mailbox.push(message('c'))
  hand(mailbox)
  t.same(pluck([...mailbox.handed.values()], 'turn'), [1, 2, 3])
})

t.test('a commit takes the message out, once', async (t) => {
  const mailbox = mailboxOf(message('a'), message('b'))
  hand(mailbox, 2)
  t.equal(mailbox.commit(1)?.run, 'a')
  t.equal(mailbox.commit(1), undefined)
  t.equal(mailbox.commit(99), undefined)
  t.same(counts(mailbox), { accepted: 2, handled: 1, deadLettered: 0, waiting: 0, handed: 1 })
})

t.test('what waits can be discarded, whatever its priority, and what is under way too', async (t) => {
  const messages = [message('plain'), message('high', 1), message('low', -1), message('under way', 9)]
  const mailbox = mailboxOf(...messages)
  hand(mailbox)
  for (const envelope of messages) {
    t.ok(mailbox.discard(envelope), envelope.run)
    t.notOk(mailbox.discard(envelope), 'a second time')
  }
  t.same(counts(mailbox), { accepted: 4, handled: 0, deadLettered: 4, waiting: 0, handed: 0 })
})

t.test('what runs within a turn stands in no line, counts like the others, and goes back among its like', async (t) => {
  const outer = message('outer')
  const mailbox = mailboxOf(outer)
  hand(mailbox)
  const [first, second] = ['first', 'second'].map((name) => ({ ...message(name, 1), within: outer }))
  for (const each of [first!, message('plain'), second!]) mailbox.push(each)
  t.equal(mailbox.peek()?.run, 'plain')
  t.notOk(mailbox.has('first'))
  t.same(namesOf(mailbox.queued()), ['first', 'second', 'plain'])
  mailbox.hand(first!)
  t.ok(mailbox.holds(first!))
  t.notOk(mailbox.holds(second!))
  t.same([mailbox.handed.nested, mailbox.handed.ranked, mailbox.handed.size], [1, 0, 2])
  first!.attempt = 2
  mailbox.giveBack([outer, first!], [])
  t.same([mailbox.handed.nested, mailbox.waiting, mailbox.underWay], [0, 4, 0])
  t.same(namesOf(mailbox.cutOff()), ['outer', 'first'])
  t.equal(mailbox.peek(), outer)
  t.same(namesOf(mailbox.nested), ['first', 'second'])
  t.ok(mailbox.discard(second!))
  t.notOk(mailbox.discard(second!))
  t.same(counts(mailbox), { accepted: 4, handled: 0, deadLettered: 1, waiting: 3, handed: 0 })
})

t.test('what was handled cannot be discarded any more', async (t) => {
  const a = message('a')
  const mailbox = mailboxOf(a, message('b'))
  hand(mailbox)
  mailbox.commit(a.turn)
  t.notOk(mailbox.discard(a))
  t.same(counts(mailbox), { accepted: 2, handled: 1, deadLettered: 0, waiting: 1, handed: 0 })
  t.same(hand(mailbox), ['b'])
})

t.test('what a death cut off comes before everything, the rest goes back to its place', async (t) => {
  const [high, a, b, low] = [message('high', 5), message('a'), message('b'), message('low', -5)]
  const mailbox = mailboxOf(high, a, b, low, message('c'))
  hand(mailbox, 5) // high a b c low
  mailbox.push(message('higher', 6))
  mailbox.push(message('as high', 5))
  mailbox.push(message('d'))
  mailbox.push(message('as low', -5))
  const [, , , c] = [...mailbox.handed.values()]
  mailbox.giveBack([a], [high, b, c!, low])
  t.same(namesOf(mailbox.queued()), ['a', 'higher', 'high', 'as high', 'b', 'c', 'd', 'low', 'as low'])
  t.equal(mailbox.handed.size, 0)
})

t.test('a message that is cut off again comes before those that were cut off with it', async (t) => {
  const [a, b, c] = [message('a'), message('b'), message('c')]
  const mailbox = mailboxOf(a, b, c)
  hand(mailbox, 3)
  mailbox.giveBack([a, b], [c])
  hand(mailbox)
  mailbox.giveBack([a], [])
  t.same(hand(mailbox, 3), ['a', 'b', 'c'])
})

t.test('a redelivered message that was not begun again keeps its place before those cut off with it', async (t) => {
  const [a, b, c] = [message('a'), message('b'), message('c')]
  const mailbox = mailboxOf(a, b, c)
  hand(mailbox, 3)
  for (const envelope of [a, b]) envelope.attempt = 2
  mailbox.giveBack([a, b], [c])
  hand(mailbox) // a alone, and the thread dies before it begins with it
  mailbox.giveBack([], [a])
  t.same(hand(mailbox, 3), ['a', 'b', 'c'])
})

t.test('a message that was cut off can be discarded where it waits', async (t) => {
  const a = message('a')
  const mailbox = mailboxOf(a, message('b'))
  hand(mailbox)
  mailbox.giveBack([a], [])
  t.ok(mailbox.discard(a))
  t.same(hand(mailbox), ['b'])
})

t.test('what is parked is not in the mailbox yet', async (t) => {
  const mailbox = mailboxOf()
  mailbox.pending.push(message('a'))
  t.same(counts(mailbox), { accepted: 0, handled: 0, deadLettered: 0, waiting: 0, handed: 0 })
  t.equal(mailbox.peek(), undefined)
})

t.test('the senders of what is parked are known, also of what no turn sends', async (t) => {
  const { pending: parked } = mailboxOf()
  const sent = (sender: number, turn: number) => ({ ...message('a'), memory: frameOf({ sender, turn }).memory })
  const all = [sent(ANN, -1), sent(BOB, 7), sent(0, -1), sent(ANN, 2 ** 31 - 1)]
  for (const envelope of all) parked.push(envelope)
  t.strictSame([...new Set(parked.senders())], [ANN, BOB, 0])
  for (const envelope of all) t.ok(parked.remove(envelope))
  t.strictSame([...parked.senders()], [])
})

// ---- against a naive model

type Op =
  | { do: 'push'; priority: number }
  | { do: 'hand' | 'enter' }
  | { do: 'nest'; priority: number; which: number }
  | { do: 'commit' | 'discard' | 'shelve' | 'unshelve'; which: number }
  | { do: 'die'; begun: number[] }

const which = fc.nat(1_000)
const priority = fc.integer({ min: -2, max: 2 })
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('push' as const), priority }) },
  { weight: 5, arbitrary: fc.constant<Op>({ do: 'hand' }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('nest' as const), priority, which }) },
  { weight: 1, arbitrary: fc.constant<Op>({ do: 'enter' }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('commit' as const, 'discard' as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('shelve' as const, 'unshelve' as const), which }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('die' as const),
      begun: fc.array(fc.nat(3), { minLength: 5, maxLength: 5 }),
    }),
  },
)

t.test('does what a sorted list would do, and loses count of nothing', async () => {
  fc.assert(
    fc.property(fc.array(op, { maxLength: 200, size: 'max' }), (ops) => {
      const model = new Model()
      for (const one of ops) {
        model.step(one)
        model.check()
      }
    }),
    { numRuns: 200 },
  )
})

/** Messages as a list. Their names are the numbers of their arrival. */
class Model {
  readonly mailbox = new Mailbox<string>()
  /** Cut off by a death, in the order in which they come again. */
  again: Envelope<string>[] = []
  /** To run within a turn. */
  nested: Envelope<string>[] = []
  waiting: Envelope<string>[] = []
  handed: Envelope<string>[] = []
  shelved: Envelope<string>[] = []
  accepted = 0
  handled = 0
  dead = 0

  queued(): Envelope<string>[] {
    const rest = [...this.waiting].sort((a, b) => b.priority - a.priority || Number(a.run) - Number(b.run))
    return [...this.again, ...this.nested, ...rest]
  }

  step(one: Op): void {
    switch (one.do) {
      case 'push': {
        const envelope = message(String(++this.accepted), one.priority)
        this.waiting.push(envelope)
        return this.mailbox.push(envelope)
      }
      case 'nest': {
        const within = pick(this.handed, one.which)
        if (!within) return
        const envelope = { ...message(String(++this.accepted), one.priority), within }
        this.nested.push(envelope)
        return this.mailbox.push(envelope)
      }
      case 'hand': {
        const next = this.queued().find(({ within }) => !within)
        equal(this.mailbox.peek(), next)
        return this.hand(next)
      }
      case 'enter':
        return this.hand(this.nested[0])
      case 'commit': {
        const envelope = pick([...this.handed, ...this.shelved], one.which)
        equal(this.mailbox.commit(envelope?.turn ?? 0), envelope)
        if (!envelope) return
        this.forget(envelope)
        this.handled += 1
        return
      }
      case 'discard': {
        const envelope = pick([...this.queued(), ...this.handed, ...this.shelved], one.which)
        equal(this.mailbox.discard(envelope ?? message('nobody')), envelope !== undefined)
        if (!envelope) return
        this.forget(envelope)
        this.dead += 1
        return
      }
      case 'shelve': {
        const envelope = pick(this.handed, one.which)
        if (!envelope) return
        this.mailbox.handed.suspend(envelope)
        this.forget(envelope)
        this.shelved.push(envelope)
        return
      }
      case 'unshelve': {
        const envelope = pick(this.shelved, one.which)
        if (!envelope) return
        this.mailbox.handed.resume(envelope)
        this.forget(envelope)
        this.handed.push(envelope)
        return
      }
      case 'die':
        return this.die(one.begun)
    }
  }

  hand(envelope: Envelope<string> | undefined): void {
    if (!envelope) return
    this.mailbox.hand(envelope)
    this.forget(envelope)
    this.handed.push(envelope)
  }

  /** Of each priority the first few had begun: a thread takes them in order. A turn that was shelved had, too. */
  die(begunOf: number[]): void {
    const left = [...begunOf]
    const begun = this.handed.filter(
      ({ priority, wasSuspended: wasShelved }) => left[priority + 2]!-- > 0 || wasShelved,
    )
    const untouched = this.handed.filter((envelope) => !begun.includes(envelope))
    const isNested = ({ within }: Envelope<string>) => within !== undefined
    const inLine = (envelope: Envelope<string>) => !isNested(envelope)
    const cutOffBefore = untouched.filter(({ attempt }) => attempt > 1)
    for (const envelope of begun) envelope.attempt += 1
    this.mailbox.giveBack(begun, untouched)
    this.nested = [...[...begun, ...untouched].filter(isNested), ...this.nested]
    this.again = [...[...begun, ...cutOffBefore].filter(inLine), ...this.again]
    this.waiting.push(...untouched.filter(({ attempt }) => attempt === 1).filter(inLine))
    this.handed = []
  }

  forget(envelope: Envelope<string>): void {
    for (const list of [this.again, this.nested, this.waiting, this.handed, this.shelved])
      if (list.includes(envelope)) list.splice(list.indexOf(envelope), 1)
  }

  check(): void {
    const { mailbox } = this
    deepStrictEqual(namesOf(mailbox.queued()), namesOf(this.queued()))
    deepStrictEqual(namesOf(mailbox.handed.all()), namesOf([...this.handed, ...this.shelved]))
    deepStrictEqual(miscounts(mailbox), [])
    const { accepted, handled, deadLettered, waiting, handed } = counts(mailbox)
    deepStrictEqual(
      { accepted, handled, deadLettered },
      { accepted: this.accepted, handled: this.handled, deadLettered: this.dead },
    )
    const underWay = handed + this.shelved.length
    equal(mailbox.underWay, underWay)
    equal(accepted, handled + deadLettered + waiting + underWay)
    equal(mailbox.empty, waiting + underWay === 0)
  }
}

/** One of them, if there is any. */
const pick = (envelopes: readonly Envelope<string>[], which: number): Envelope<string> | undefined =>
  envelopes[which % (envelopes.length || 1)]

type ParkedOp = { do: 'push' | 'shift' | 'drain' } | { do: 'remove'; which: number }

t.test('the parked are first in, first out, and any of them can be taken back', async () => {
  const parkedOp: fc.Arbitrary<ParkedOp> = fc.oneof(
    { weight: 5, arbitrary: fc.constant<ParkedOp>({ do: 'push' }) },
    { weight: 3, arbitrary: fc.constant<ParkedOp>({ do: 'shift' }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), which }) },
  )
  fc.assert(
    fc.property(fc.array(parkedOp, { maxLength: 200, size: 'max' }), (ops) => {
      const { pending: parked } = mailboxOf()
      const model: Envelope<string>[] = []
      let count = 0
      for (const one of ops) {
        if (one.do === 'push') {
          const envelope = message(String(++count))
          parked.push(envelope)
          model.push(envelope)
        } else if (one.do === 'shift') equal(parked.shift(), model.shift())
        else if (one.do === 'remove') {
          const envelope = model[one.which % (model.length || 1)] ?? message('nobody')
          equal(parked.remove(envelope), model.includes(envelope))
          if (model.includes(envelope)) model.splice(model.indexOf(envelope), 1)
        }
        equal(parked.peek(), model[0])
        equal(parked.length, model.length)
        deepStrictEqual(namesOf(parked), namesOf(model))
      }
    }),
  )
})

t.test('thousands of waiting messages keep their order, although what has gone is forgotten in between', async (t) => {
  const mailbox = mailboxOf()
  const handedOver: string[] = []
  for (let i = 0; i < 10_000; i++) {
    mailbox.push(message(String(i)))
    if (i % 3 > 0) handedOver.push(...hand(mailbox))
  }
  t.equal(mailbox.waiting, 10_000 - handedOver.length)
  handedOver.push(...hand(mailbox, mailbox.waiting))
  t.ok(handedOver.every((name, i) => name === String(i)))
})

t.test('a mailbox says when messages of several owners may wait', async (t) => {
  const [a, b] = [message('a'), message('b')]
  const mailbox = mailboxOf(a, message('a'))
  t.notOk(mailbox.isMixed)
  hand(mailbox, 2)
  mailbox.push(b)
  t.notOk(mailbox.isMixed, 'the others are with the thread')
  mailbox.giveBack([a], [])
  t.ok(mailbox.isMixed, 'and come back when it dies')
})

// The line of messages that wait for room: in order, and one question for as many as get in.

const AGENT = 3
/** Only messages of a thread need it. */
const UNUSED = {} as Outbox

/** A line in front of a mailbox with `room`, whose host answers when it is told to. */
function stage(room: number) {
  const sends = new SendQueue(UNUSED, new Map())
  const written: string[] = []
  const settle = new Map<string, () => void>()
  const free = { room }
  const add = (name: string, kind: Queued['kind'] = 'send') => {
    const settled = new Promise<void>((resolve) => settle.set(name, resolve))
    sends.append(AGENT, {
      kind,
      settled,
      reserve() {
        if (free.room === 0) return false
        free.room -= 1
        written.push(name)
        if (kind === 'send') settle.get(name)?.()
        return true
      },
      ask: () => void written.push(`${name}?`),
    })
  }
  /** What the host says, or who asked withdraws. */
  const settles = async (name: string) => {
    settle.get(name)?.()
    await new Promise(setImmediate)
  }
  return { sends, written, free, add, settles }
}

t.test('the first asks; those behind it wait for its verdict', async (t) => {
  const { sends, written, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  t.same(written, ['a?'])
  t.ok(sends.open(AGENT))
  t.notOk(sends.open(AGENT + 1), 'other recipients are not concerned')
  await settles('a')
  t.same(written, ['a?', 'b?'], 'there is still no room: the next asks')
})

t.test('after a verdict those behind take the room that has freed, in order', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c', 'd']) add(name)
  free.room = 2
  await settles('a')
  t.same(written, ['a?', 'b', 'c', 'd?'])
  await settles('d')
  t.notOk(sends.open(AGENT), 'the line is gone when nobody stands in it')
})

t.test('nobody takes room by himself while a request is at the host, for it has no verdict', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  add('request', 'request')
  free.room = 5
  for (const name of ['a', 'b']) add(name)
  t.same(written, ['request?', 'a?', 'b?'], 'they ask, and so stay behind it')
  await settles('a')
  await settles('b')
  t.ok(sends.open(AGENT))
  await settles('request')
  t.notOk(sends.open(AGENT))
})

t.test('sends behind a request ask up to a limit, and go on with each verdict', async (t) => {
  const { written, add, settles } = stage(0)
  add('request', 'request')
  for (let n = 0; n < 70; n++) add(`s${n}`)
  t.equal(written.length, 65)
  await settles('s0')
  t.equal(written.at(-1), 's64?')
})

t.test('a request in line takes room like a send', async (t) => {
  const { written, free, add, settles } = stage(0)
  add('a')
  add('request', 'request')
  t.same(written, ['a?', 'request?'], 'it does not wait for the verdict: the host keeps the order')
  free.room = 1
  await settles('a')
  await settles('request')
  add('b', 'request')
  t.same(written, ['a?', 'request?', 'b'])
})

t.test('what is withdrawn while it stands in line is never written', async (t) => {
  const { sends, written, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  await settles('b')
  await settles('a')
  t.same(written, ['a?', 'c?'])
  await settles('c')
  t.notOk(sends.open(AGENT))
})

t.test('an ask of an earlier life holds the line until the host has answered it', async (t) => {
  const { sends, written, free, add } = stage(0)
  let answered = () => {}
  const verdict = new Promise<void>((resolve) => {
    answered = resolve
  })
  sends.asked(AGENT, verdict)
  free.room = 1
  add('a')
  t.same(written, [])
  answered()
  await new Promise(setImmediate)
  t.same(written, ['a'])
  t.notOk(sends.open(AGENT))
})

t.test('before a message to all everybody asks, and until its verdict nobody takes room', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  sends.askAll()
  t.same(written, ['a?', 'b?', 'c?'])
  let accept = () => {}
  sends.askedAll(new Promise<void>((resolve) => (accept = resolve)))
  t.ok(sends.open(AGENT + 1), 'it is for everybody')
  for (const name of ['a', 'b', 'c']) await settles(name)
  free.room = 1
  add('d')
  add('e', 'request')
  t.same(written, ['a?', 'b?', 'c?'])
  accept()
  await settles('')
  t.same(written, ['a?', 'b?', 'c?', 'd', 'e?'])
  t.notOk(sends.open(AGENT + 1))
})

const ANY = 2 ** 31 - 1

function roomFor(messages: number, bytes: number): TeamMemory {
  const team = new TeamMemory(2)
  team.open(0, messages, bytes, ANY)
  return team
}

/** How many messages of that size find room now. */
function claimAll(team: TeamMemory, bytes: number): number {
  let count = 0
  while (team.reserve(0, bytes)) count += 1
  return count
}

t.test('there is room for as many messages as were opened for', async (t) => {
  t.equal(claimAll(roomFor(3, 1_000), 1), 3)
})

t.test('there is room for as many bytes as were opened for', async (t) => {
  t.equal(claimAll(roomFor(100, 1_000), 100), 10)
  t.equal(claimAll(roomFor(100, 1_000), 300), 3)
})

t.test('a message may take all bytes, and none takes more', async (t) => {
  const team = roomFor(3, 1_000)
  t.notOk(team.reserve(0, 1_001))
  t.ok(team.reserve(0, 1_000))
  t.notOk(team.reserve(0, 1))
})

t.test('a message larger than its recipient takes has to ask, however much room there is', async (t) => {
  const team = new TeamMemory(1)
  team.open(0, 10, 10_000, 100)
  t.notOk(team.reserve(0, 101))
  t.ok(team.reserve(0, 100))
  team.open(0, 10, 10_000, 2 ** 40)
  t.ok(team.reserve(0, 101), 'a limit that no message can reach')
})

t.test('a claim that finds no room takes none', async (t) => {
  const team = roomFor(2, 1_000)
  for (let i = 0; i < 10; i++) t.notOk(team.reserve(0, 2_000))
  t.equal(claimAll(team, 500), 2)
})

t.test('what is released can be claimed again', async (t) => {
  const team = roomFor(1, 100)
  t.ok(team.reserve(0, 100))
  t.notOk(team.reserve(0, 100))
  team.release(0, 100)
  t.ok(team.reserve(0, 100))
})

t.test('room that is taken by force is missing until it is given back', async (t) => {
  const team = roomFor(2, 1_000)
  team.force(0, 5_000)
  t.notOk(team.reserve(0, 1))
  team.release(0, 5_000)
  t.equal(claimAll(team, 500), 2)
})

t.test('a closed mailbox has no room, whatever is given back to it', async (t) => {
  const team = roomFor(2, 1_000)
  team.reserve(0, 10)
  team.close(0)
  team.release(0, 10)
  t.notOk(team.reserve(0, 1))
  t.notOk(team.reserve(0, 0))
})

t.test('a mailbox that is opened again has all of its room', async (t) => {
  const team = roomFor(2, 1_000)
  claimAll(team, 500)
  team.close(0)
  team.open(0, 2, 1_000, ANY)
  t.equal(claimAll(team, 500), 2)
})

t.test('a mailbox that was never opened has no room', async (t) => {
  t.notOk(new TeamMemory(1).reserve(0, 0))
})

t.test('each mailbox has a room of its own', async (t) => {
  const team = roomFor(1, 100)
  team.open(1, 1, 100, ANY)
  t.ok(team.reserve(1, 100))
  t.ok(team.reserve(0, 100))
})

t.test('both sides see the same room and the same words', async (t) => {
  const team = roomFor(1, 100)
  const other = new TeamMemory(team.buffer)
  t.equal(other.size, 2)
  t.ok(other.reserve(0, 100))
  t.notOk(team.reserve(0, 100))
  for (const word of [HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED]) {
    Atomics.store(team.words, word, 1)
    t.equal(Atomics.load(other.words, word), 1)
  }
  other.release(0, 100)
  t.ok(team.reserve(0, 100), 'the words are no part of the room')
})

t.test('claims and releases in any order leave the room that a sum would leave', async () => {
  const op = fc.tuple(fc.constantFrom('claim', 'release', 'force'), fc.integer({ min: 1, max: 400 }))
  fc.assert(
    fc.property(fc.array(op), (ops) => {
      const team = roomFor(8, 1_000)
      const held: number[] = []
      const taken = () => held.reduce((sum, bytes) => sum + bytes, 0)
      for (const [kind, bytes] of ops) {
        if (kind === 'force') {
          team.force(0, bytes)
          held.push(bytes)
        } else if (kind === 'release') {
          const last = held.pop()
          if (last !== undefined) team.release(0, last)
        } else {
          const fits = held.length < 8 && taken() + bytes <= 1_000
          if (team.reserve(0, bytes) !== fits) return false
          if (fits) held.push(bytes)
        }
      }
      return true
    }),
  )
})

t.test('threads that claim at the same time never hold more than there is, and leave all of it', async (t) => {
  const [capacity, bytes, claimers] = [8, 1_000, 3]
  const team = roomFor(capacity, bytes)
  const held = new SharedArrayBuffer(8)
  const gate = new SharedArrayBuffer(8)
  const all = Array.from({ length: claimers }, (_, i) =>
    claim({ team: team.buffer, held, gate, claimers, rounds: 300_000, capacity, bytes, seed: i + 1 }),
  )
  for (const posted of await Promise.all(all)) t.match(posted, { within: true })
  t.same([...new Int32Array(held)], [0, 0])
  t.equal(claimAll(team, bytes / capacity), capacity)
})

async function claim(workerData: Claimer): Promise<unknown> {
  const worker = new Worker(new URL('../fixtures/claimer.js', import.meta.url), { workerData })
  const [[posted]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]) // either may come first
  return posted
}

t.test('both sides see who has written', async (t) => {
  for (const names of [1, 31, 32, 33, 64, 65, 5_000, MAX_AGENTS]) {
    const host = new TeamMemory(names)
    const thread = new TeamMemory(host.buffer)
    t.equal(thread.size, names)
    const last = names - 1
    thread.wrote(0)
    thread.wrote(last)
    thread.wrote(last)
    const bits = (word: number) => host.takeWriters(word) >>> 0
    const expected = last < 32 ? (1 | (1 << last)) >>> 0 : 1
    t.equal(bits(0), expected)
    if (last >= 32) t.equal(bits(last >> 5), (1 << (last & 31)) >>> 0)
    t.equal(bits(0) + bits(last >> 5), 0, 'taken once')
    host.open(last, 3, 100, ANY)
    host.allWrote()
    t.same(thread.room(last), { messages: 3, bytes: 100 }, 'the marks are no part of the room')
    t.equal(bits(last >> 5), 2 ** 32 - 1)
  }
})

const shared = (bytes: number) => memoryOn(new SharedArrayBuffer(bytes + 64), 64)
const pairs: [name: string, from: (bytes: number) => Memory, to: (bytes: number) => Memory][] = [
  ['shared to private memory', shared, allocate],
  ['private to shared memory', allocate, shared],
  ['private to private memory', allocate, allocate],
]

for (const [name, make, makeOther] of pairs)
  for (const bytes of [8, 8_184, 8_192, 100_000])
    t.test(`${bytes} bytes are copied from ${name}, and nothing beside them`, async (t) => {
      const from = make(bytes)
      for (let i = 0; i < bytes; i++) from.u8[i] = i % 251
      const to = makeOther(bytes + 32)
      to.u8.fill(255)
      copyBytes(from.u8.subarray(0, bytes), to, 16)
      t.equal(Buffer.compare(to.u8.subarray(16, 16 + bytes), from.u8.subarray(0, bytes)), 0)
      t.ok(to.u8.subarray(0, 16).every((byte) => byte === 255))
      t.ok(to.u8.subarray(16 + bytes).every((byte) => byte === 255))
    })
