/** One digest serves all who watch, costs nothing while nobody does, and says when somebody has missed some of it. */
import { Subject } from 'rxjs'
import t from 'tap'
import type { DeadLetter } from '../../src/mailbox/dead-letters.ts'
import { allocate } from '../../src/mailbox/frame.ts'
import type { Batch, HostRecord } from '../../src/runtime/log/records.ts'
import { DigestFeed } from '../../src/runtime/views/digest-feed.ts'
import type { Digest, Wait } from '../../src/runtime/views/digest-line.ts'
import { DigestMaker } from '../../src/runtime/views/digest-maker.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { message } from '../fixtures/message.ts'

/** Keeps the process alive while a test waits for a line: a digest alone does not. */
const alive = systemClock.hold()
t.teardown(() => alive.cancel())

function feed() {
  const records = new Subject<Batch>()
  const calls = { made: 0, seen: 0, looked: 0 }
  const waits: Wait[] = []
  const letters = { count: 0 }
  /** Logged, and not passed on yet. */
  const pending: (() => void)[] = []
  let seq = 0
  const digest = new DigestFeed({
    records$: records,
    maker() {
      calls.made += 1
      return new DigestMaker({
        name: (index) => `agent ${index}`,
        runId: () => 'run',
        shown: (text) => text,
        factOf(record) {
          calls.seen += 1
          return { type: record.kind, seq: record.seq, at: record.at, runId: 'run' }
        },
      })
    },
    settle() {
      for (const pass of pending.splice(0)) pass()
    },
    snapshot: () => ({
      log: 'log',
      agents: [],
      runs: [],
      questions: [],
      waits: [...waits],
      deadLetters: calls.seen,
    }),
    *agents() {
      calls.looked += 1
      yield { name: 'a', status: calls.seen % 2 ? 'running' : 'idle', queued: 0, inFlight: 0, restarts: 0 } as const
    },
    waits: () => [...waits],
    deadLetters: () => letters.count,
    now: () => 1_000,
    seq: () => seq,
  })
  const tell = (count = 1) => {
    const batch = Array.from({ length: count }, (): HostRecord => {
      seq += 8
      return { kind: 'decision', seq, at: 1_000 + seq, run: 1, question: '', choice: '', reason: '' }
    })
    records.next(batch)
  }
  return { digest, records, calls, letters, waits, pending, tell }
}

const factsOf = ({ facts = [] }: Digest) => facts.length

t.test('nothing is read while nobody watches, and once for all who do', async (t) => {
  const { digest, calls, tell } = feed()
  tell(5)
  t.match(calls, { made: 0, seen: 0, looked: 0 })
  const stop = new AbortController()
  const readers = [1, 2, 3].map(() => digest.watch(stop.signal)[Symbol.asyncIterator]())
  for (const reader of readers) t.match((await reader.next()).value, { snapshot: { log: 'log' } })
  tell(4_000)
  for (const reader of readers) t.equal(factsOf((await reader.next()).value), 4_000, 'a full line comes at once')
  t.match(calls, { made: 1, seen: 4_000 })
  stop.abort()
  for (const reader of readers) t.same(await reader.next(), { done: true, value: undefined })
  tell(5)
  t.match(calls, { made: 1, seen: 4_000 })
})

t.test('what comes within a tenth of a second is one line, with what the agents do by then', async (t) => {
  const { digest, calls, tell } = feed()
  const reader = digest.watch()[Symbol.asyncIterator]()
  await reader.next()
  for (let n = 0; n < 7; n++) tell()
  const { value: line } = await reader.next()
  t.equal(factsOf(line), 7)
  t.same(line.names, ['a'])
  t.same(line.agent, { agent: [0], status: [2], queued: [0], inFlight: [0], restarts: [0] })
  t.equal(calls.looked, 1)
  await reader.return?.(undefined)
})

t.test(
  'who reads too slowly gets the state in place of what it has missed; who is in time misses nothing',
  async (t) => {
    const { digest, tell } = feed()
    const [slow, quick] = [digest.watch()[Symbol.asyncIterator](), digest.watch()[Symbol.asyncIterator]()]
    t.ok((await slow.next()).value.snapshot)
    t.ok((await quick.next()).value.snapshot)
    let got = 0
    for (let n = 0; n < 60; n++) {
      tell(4_000)
      got += factsOf((await quick.next()).value)
    }
    t.equal(got, 240_000)
    t.match((await slow.next()).value.snapshot, { deadLetters: 240_000 })
    tell(4_000)
    t.equal(factsOf((await slow.next()).value), 4_000)
    await slow.return?.(undefined)
    await quick.return?.(undefined)
  },
)

t.test('the end of the team ends the digest, after its last line', async (t) => {
  const { digest, records, tell } = feed()
  const reader = digest.watch()[Symbol.asyncIterator]()
  await reader.next()
  tell(3)
  records.complete()
  t.equal(factsOf((await reader.next()).value), 3)
  t.match(await reader.next(), { done: true })
})

t.test('a later watcher knows the names that no line has told yet once, as the first one does', async (t) => {
  const { digest, records, tell } = feed()
  const stop = new AbortController()
  const first = digest.watch(stop.signal)[Symbol.asyncIterator]()
  await first.next()
  // A run is known by its first frames, also where these are worth no row.
  const nothing = { from: 0, to: 0, count: 0, memory: allocate(0) }
  records.next([{ kind: 'frames', seq: 8, at: 1_000, run: 1, ...nothing }])
  const later = digest.watch(stop.signal)[Symbol.asyncIterator]()
  const folds = [new DigestFold(), new DigestFold()]
  folds[1]!.read((await later.next()).value)
  tell()
  folds[0]!.read((await first.next()).value)
  folds[1]!.read((await later.next()).value)
  for (const fold of folds)
    t.same(
      [...fold.agents].map(([name, { status }]) => [name, status]),
      [['a', 'running']],
    )
  stop.abort()
})

t.test(
  'what is not passed on yet when somebody begins to watch is in the snapshot, and in no later line',
  async (t) => {
    const { digest, pending, tell } = feed()
    const stop = new AbortController()
    const first = digest.watch(stop.signal)[Symbol.asyncIterator]()
    await first.next()
    pending.push(() => tell(3))
    const later = digest.watch(stop.signal)[Symbol.asyncIterator]()
    t.match((await later.next()).value, { snapshot: { deadLetters: 3 } })
    t.equal(factsOf((await first.next()).value), 3)
    tell()
    t.equal(factsOf((await later.next()).value), 1)
    stop.abort()
  },
)

t.test('a wait that a watcher has met in its first line is told to be over', async (t) => {
  const { digest, waits, tell } = feed()
  const stop = new AbortController()
  const wait = { runId: 'run', agent: 'a', turn: null, for: ['b'], kind: 'request', since: 1 }
  const untilWaits = async (reader: AsyncIterator<Digest>) => {
    for (;;) {
      const { value } = await reader.next()
      if (value.waits) return value.waits
    }
  }
  for (const _watcher of ['the first', 'one that comes later']) {
    waits.push(wait)
    const reader = digest.watch(stop.signal)[Symbol.asyncIterator]()
    t.match((await reader.next()).value, { snapshot: { waits: [wait] } })
    waits.pop()
    tell()
    t.same(await untilWaits(reader), [])
  }
  stop.abort()
})

t.test('what waits since the last record is told by one more look, and nothing is looked at after that', async (t) => {
  const { digest, calls, waits, tell } = feed()
  const stop = new AbortController()
  const reader = digest.watch(stop.signal)[Symbol.asyncIterator]()
  t.match((await reader.next()).value, { snapshot: { waits: [] } })
  tell()
  while (calls.looked === 0) await reader.next()
  const own = { runId: 'run', agent: 'a', turn: 'm', for: [], kind: 'own', since: 1 }
  waits.push(own)
  for (;;) {
    const { value } = await reader.next()
    if (!value.waits || value.waits.length === 0) continue
    t.same(value.waits, [own])
    break
  }
  t.equal(calls.looked, 2)
  stop.abort()
})

t.test('dead letters that were sent again or discarded are told to be gone, also beside one that comes', async (t) => {
  const { digest, letters, records, tell } = feed()
  const dies = () => {
    const letter: DeadLetter = { id: '1', reason: 'failed', at: 1, errors: [], message }
    records.next([{ kind: 'message.dead', seq: 8, at: 1_000, run: 1, letter, bytes: 1 }])
  }
  const stop = new AbortController()
  const reader = digest.watch(stop.signal)[Symbol.asyncIterator]()
  const fold = new DigestFold()
  const nextLook = async () => {
    for (;;) {
      const { value } = await reader.next()
      fold.read(value)
      if (value.agent) return value.deadLetters // a look tells the agent of this team, which has changed
    }
  }
  fold.read((await reader.next()).value)
  letters.count = 3
  tell()
  t.equal(await nextLook(), 3)
  letters.count = 4
  dies()
  t.equal(await nextLook(), undefined, 'the fact says it')
  t.equal(fold.deadLetters, 4)
  letters.count = 1
  tell()
  t.equal(await nextLook(), 1)
  t.equal(fold.deadLetters, 1)
  dies() // another one is discarded meanwhile
  t.equal(await nextLook(), 1)
  t.equal(fold.deadLetters, 1)
  stop.abort()
})
