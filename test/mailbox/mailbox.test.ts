import { deepStrictEqual, equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { allocate } from '../../src/mailbox/frame.ts'
import { type Envelope, Mailbox } from '../../src/mailbox/mailbox.ts'
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
  lane: 'plain',
  windowAt: 0,
  windowEnd: 0,
  handedSeq: 0,
  waitsSince: 0,
  startedAt: -1,
  begunAt: -1,
  wasShelved: false,
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
  t.same(
    [...mailbox.handed.values()].map(({ turn }) => turn),
    [1, 2, 3],
  )
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
  mailbox.parked.push(message('a'))
  t.same(counts(mailbox), { accepted: 0, handled: 0, deadLettered: 0, waiting: 0, handed: 0 })
  t.equal(mailbox.peek(), undefined)
})

t.test('the senders of what is parked are known, also of what no turn sends', async (t) => {
  const { parked } = mailboxOf()
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
        this.mailbox.handed.shelve(envelope)
        this.forget(envelope)
        this.shelved.push(envelope)
        return
      }
      case 'unshelve': {
        const envelope = pick(this.shelved, one.which)
        if (!envelope) return
        this.mailbox.handed.unshelve(envelope)
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
    const begun = this.handed.filter(({ priority, wasShelved }) => left[priority + 2]!-- > 0 || wasShelved)
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
      const { parked } = mailboxOf()
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
