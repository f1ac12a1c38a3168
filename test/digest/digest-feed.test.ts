/** One digest serves all who watch, and changes nothing of what is watched. */
import { Subject } from 'rxjs'
import t from 'tap'
import { defineAgent, type MultiAgentResult } from '../../src/index.ts'
import type { DeadLetter } from '../../src/mailbox/dead-letters.ts'
import { allocate, HEADER, lengthOf, readBody } from '../../src/mailbox/frame.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import type { Batch, FrameBlock, HostRecord } from '../../src/runtime/log/records.ts'
import { DigestFeed } from '../../src/runtime/views/digest-feed.ts'
import type { Digest, DigestSnapshot, Wait } from '../../src/runtime/views/digest-line.ts'
import { DigestMaker } from '../../src/runtime/views/digest-maker.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { message } from '../fixtures/message.ts'
import { all, stage } from '../team/stage.ts'

// One digest serves all who watch, costs nothing while nobody does, and says when somebody has missed some of it.

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

// A fold that keeps the newest rows alone, as a page does that is open for days.

const AGENTS = ['ann', 'bob', 'eve']
const MOST = 100
const figures = { status: 'idle', queued: 0, inFlight: 0, restarts: 0, turns: 0, failedTurns: 0, toolCalls: 0 } as const
const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
const snapshot: DigestSnapshot = {
  log: 'log',
  agents: AGENTS.map((name) => ({ name, usage, ...figures })),
  runs: [],
  questions: [],
  waits: [],
  deadLetters: 0,
}

/** Lines of runs that have a message and a turn each. The table of names begins anew with every 70th. */
function* linesOf(runs: number): Generator<Digest> {
  for (let n = 0; n < runs; n++) {
    const isNew = n % 70 === 0
    const run = AGENTS.length + (n % 70)
    const table = { rows: 1, run, turn: 1 }
    yield {
      seq: n,
      at: n,
      n,
      names: [...(isNew ? AGENTS : []), `run ${n}`],
      ...(isNew && { snapshot }),
      message: { ...table, n: 0, from: n % 3, to: (n + 1) % 3, type: 0, at: 0, bytes: 1 },
      turn: { ...table, message: 0, agent: (n + 1) % 3, start: 0, end: 0, attempt: 1, failed: 0 },
    }
  }
}

t.test('what only rows had that are gone goes with them: names of runs, and times of agents', async (t) => {
  const all = new DigestFold()
  const fold = new DigestFold({ mostRows: MOST })
  for (const line of linesOf(5_000)) {
    all.read(line)
    fold.read(line)
  }
  t.equal(all.names.length, 5_003)
  t.ok(fold.names.length <= 3 * MOST, `${fold.names.length} names`)
  const agents = [...fold.agents.values()]
  const times = agents.reduce((sum, { arrivals, ends }) => sum + arrivals.length + ends.length, 0)
  t.ok(times <= 2 * MOST, `${times} times`)
  for (const { name, turns } of agents) t.equal(turns, all.agents.get(name)!.turns)
  for (const [table, names] of [
    ['messages', ['run', 'from', 'to']],
    ['turns', ['run', 'agent']],
  ] as const) {
    const told = ({ names: known, [table]: { columns } }: DigestFold) =>
      names.map((name) => {
        const places = columns as Record<string, { length: number; at(row: number): number }>
        const column = places[name]!
        return Array.from({ length: 40 }, (_, row) => known[column.at(column.length - 40 + row)])
      })
    t.same(told(fold), told(all))
  }
})

// A run that everything watches has the same records and the same verdict as one that nobody watches.

Error.stackTraceLimit = 0 // where an error was made depends on what else Node was at, and its stack is in the log

type Team = ReturnType<typeof plays>

/** A writer that crashes once, a board, tasks, and, for some queries, a wait that nobody can end. */
function plays(t: Parameters<typeof stage>[0], seed: number) {
  const lead = defineAgent({
    async receive({ content }, context) {
      const outcomes = await Promise.all(['writer', 'critic'].map((name) => context.delegate(name, content)))
      await context.blackboard.write('plan', outcomes.length, 'fact')
      await context.sleep(context.random() * 10)
      if (content === 'stall') await context.blackboard.waitFor('never')
      if (content === 'deadlock') await context.request('critic', 'ask lead')
      return outcomes.map(({ status }) => status).join()
    },
  })
  const writer = defineAgent({
    async receive(_message, context) {
      await context.sleep(context.random() * 20)
      return 'a draft'
    },
  })
  const critic = defineAgent({
    async receive({ content }, context) {
      if (content === 'ask lead') return (await context.request('lead', 'what?')).content
      await context.send('writer', 'a word')
      return (await context.request('writer', 'again')).content
    },
  })
  return stage(
    t,
    { lead, writer, critic },
    {
      seed,
      enableBlackboard: true,
      orchestration: { strategy: 'sequential', agentOrder: ['lead'] },
      supervision: { backoff: { baseMs: 1, capMs: 5 } },
    },
  )
}

/** Looks at all that can be looked at, in each step of the clock. Returns what ends it. */
function watchAll(team: Team, id: string): () => Promise<unknown> {
  const stop = new AbortController()
  const subscription = team.events.subscribe(() => {})
  const run = team.getRun(id)!
  const digest = all(team.watch({ signal: stop.signal }))
  const readers = [all(run.events()), all(run.events({ types: ['message'] })), all(run.text()), all(run.stream())]
  return async () => {
    subscription.unsubscribe()
    await Promise.all(readers)
    stop.abort()
    await digest
  }
}

function lookAtAll(team: Team, id: string): void {
  const run = team.getRun(id)!
  void [run.board()?.query(), run.messageHistory, run.tasks, run.usage, run.status]
  void [team.health(), team.metrics('prometheus'), team.waits(), team.questions(), team.getTaskStatus(id)]
  for (const agent of team.listAgents()) void [agent.status, agent.getContext(), agent.getContextSummary()]
  void all(team.digestOf(id))
  void team.listRuns({ limit: 1 })
}

/** The frames of a block, without what fills them up to their length. */
function framesOf({ memory, from, to }: FrameBlock): string[] {
  const frames: string[] = []
  for (let at = from; at < to; at += lengthOf(memory, at)) {
    const header = Buffer.from(memory.u8.subarray(at, at + HEADER)).toString('hex')
    frames.push(header, JSON.stringify(readBody(memory, at)))
  }
  return frames
}

async function played(
  t: Parameters<typeof stage>[0],
  { seed, query, isWatched }: { seed: number; query: string; isWatched: boolean },
) {
  const team = plays(t, seed)
  const running = team.execute(query, { runId: 'one', timeoutMs: 60_000, stream: true })
  const stop = isWatched ? watchAll(team, 'one') : () => {}
  let result: MultiAgentResult | undefined
  void running.then((ended) => {
    result = ended
  })
  for (let step = 0; !result && step < 1_000; step++) {
    await team.clock.advance(2)
    if (isWatched) lookAtAll(team, 'one')
    if (step === 3) team.crash('writer')
  }
  await stop()
  const { log } = (Reflect.get(team, 'supervisor') as { runs: { find(id: string): RunState } }).runs.find('one')
  const records = Array.from(log.entries(), (entry) =>
    entry.kind === 'frames' ? [entry.seq, entry.at, ...framesOf(entry)].join(' ') : JSON.stringify(entry),
  )
  return { records, verdict: result?.error?.message ?? result?.finalOutput, at: team.clock.now() }
}

for (const query of ['go', 'stall', 'deadlock'])
  t.test(`${query}: whoever watches changes nothing`, async (t) => {
    for (const seed of [1, 2, 3]) {
      const unwatched = await played(t, { seed, query, isWatched: false })
      const watched = await played(t, { seed, query, isWatched: true })
      t.ok(unwatched.records.length > 20)
      t.ok(unwatched.records.some((record) => record.includes('agent.crashed')))
      t.match(
        unwatched.verdict,
        { go: /completed,completed/, stall: /StallError/, deadlock: /DEADLOCK|DeadlockError/ }[query]!,
      )
      t.same(watched, unwatched, `seed ${seed}`)
    }
  })
