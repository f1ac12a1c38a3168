/** How threads are made and kept: spares, owners of threads and their conversations, all bounded; whose work a thread has open. */

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { Logger } from '../../src/actors/definition/tool.ts'
import { type Conversation, historyOf, NO_CONVERSATION, withTurn } from '../../src/actors/model/conversation.ts'
import { OwnWork } from '../../src/actors/turn/own-work.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import { Conversations } from '../../src/runtime/host/parts.ts'
import { RunState } from '../../src/runtime/host/run.ts'
import { type SpareThread, WorkerSpawner } from '../../src/runtime/threads/spawner.ts'
import { virtualClock } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'

type Heap = number | null

/** A thread that starts when the test says so. */
class FakeThread implements SpareThread {
  readonly isolated = true
  warm = false
  warmUps = 0
  readonly heap: Heap
  readonly settled: Promise<void>
  readonly booted: Promise<void>
  started = () => {}
  hasBooted = () => {}
  #exit = () => {}

  constructor(heap: Heap) {
    this.heap = heap
    const booted = new Promise<void>((resolve) => {
      this.hasBooted = resolve
    })
    this.settled = new Promise((resolve) => {
      this.started = resolve
    })
    this.booted = Promise.race([booted, this.settled])
  }
  warmUp(): void {
    this.warmUps += 1
  }
  onWake(): void {}
  onExit(listener: (exit: { code: number; error: undefined }) => void): void {
    this.#exit = () => listener({ code: 1, error: undefined })
  }
  onPrint(): void {}
  onOwnPost(): void {}
  givesBytes(): void {}
  wake(): void {}
  eventLoop() {
    return undefined
  }
  times() {
    return undefined
  }
  async load() {
    return { ok: true as const, state: undefined }
  }
  async start() {
    return { ok: true as const, state: undefined }
  }
  async isIdle(): Promise<boolean> {
    return true
  }
  async stop(): Promise<void> {}
  async leave(): Promise<void> {}
  terminate(): void {
    this.#exit()
  }
  async gone(): Promise<void> {}
}

const idle = () => new Promise((resolve) => setImmediate(resolve))

/**
 * A spawner on a system that has threads as long as `has` says so, and what it warned of. `cores`: threads boot side by side, until
 * the test says that they have booted; left out: all boot at once.
 */
function spawnerOf(warmSpares: number, system: { has?: boolean; cores?: number } = {}) {
  const { cores = 0 } = system
  const clock = virtualClock()
  const warnings: object[] = []
  const made: FakeThread[] = []
  const logger: Logger = { ...silent, warn: (fields) => void warnings.push(fields) }
  const spawner = new WorkerSpawner(warmSpares, clock, logger, {
    sideBySide: cores || Number.POSITIVE_INFINITY,
    make(heap) {
      if (system.has === false) throw new Error('no more threads')
      const thread = new FakeThread(heap)
      if (cores === 0) thread.hasBooted()
      made.push(thread)
      return thread
    },
  })
  const take = (heap: Heap = null, ofRun = false) => spawner.spawn(heap, ofRun) as FakeThread
  /** Takes a thread of each, lets them start, and lets spares be made. */
  const takeStarted = async (...heaps: Heap[]) => {
    const taken = heaps.map((heap) => take(heap))
    for (const thread of taken) thread.started()
    await idle()
    await idle()
    return taken.map(({ warm }) => warm)
  }
  /** Waits for its turn, then takes a thread unless it needs none any more. */
  const takeInTurn = async (needed = true) => {
    const room = spawner.room(null)
    if (room) await room
    return needed ? take() : undefined
  }
  return { spawner, clock, warnings, made, take, takeStarted, takeInTurn }
}

t.test('a spare that cannot be made is logged, and made when the next thread has started', async (t) => {
  const system: { has?: boolean } = {}
  const { warnings, take, takeStarted } = spawnerOf(1, system)
  const first = take()
  system.has = false
  first.started()
  await idle()
  await idle()
  t.match(warnings, [{ error: /no more threads/, spares: 0, wanted: 1 }])
  system.has = true
  t.same([await takeStarted(null), await takeStarted(null)], [[false], [true]])
})

t.test('a spare warms up when it has booted, and no other thread does', async (t) => {
  const { made, take } = spawnerOf(1, { cores: 2 })
  const first = take()
  first.hasBooted()
  first.started()
  await idle()
  await idle()
  const warmUps = () => made.map((thread) => thread.warmUps)
  t.same(warmUps(), [0, 0])
  made[1]?.hasBooted()
  await idle()
  t.same(warmUps(), [0, 1])
})

t.test('a spare that is taken before it has booted does not warm up: an agent waits for it', async (t) => {
  const { made, take } = spawnerOf(1, { cores: 2 })
  const first = take()
  first.hasBooted()
  first.started()
  await idle()
  await idle()
  const taken = take()
  t.equal(taken, made[1])
  taken.hasBooted()
  await idle()
  t.equal(taken.warmUps, 0)
})

t.test('a thread that is expected boots at once, and is given to who asks next', async (t) => {
  const { spawner, made, take } = spawnerOf(1, { cores: 2 })
  spawner.expect(64)
  spawner.expect(64)
  t.same(pluck(made, 'heap'), [64], 'one is enough')
  t.equal(spawner.room(64), undefined)
  const taken = take(64)
  t.equal(taken, made[0])
  t.notOk(taken.warm, 'it was not there before it was needed')
})

t.test('no thread is expected where none can be made, or no more', async (t) => {
  const system: { has?: boolean; cores: number } = { has: false, cores: 1 }
  const { spawner, made, take } = spawnerOf(1, system)
  spawner.expect(null)
  t.throws(() => take(), { message: 'no more threads' }, 'who needs it is told')
  system.has = true
  take()
  spawner.expect(null)
  t.equal(made.length, 1, 'one boots, and there is one core')
  const without = spawnerOf(0)
  without.spawner.expect(null)
  await spawner.close()
  spawner.expect(null)
  t.same([made.length, without.made.length], [1, 0])
})

t.test('who needs a thread where there is none is told', async (t) => {
  const { spawner } = spawnerOf(1, { has: false })
  t.throws(() => spawner.spawn(null), { message: 'no more threads' })
  t.throws(() => spawner.spawn(64), { message: 'no more threads' })
})

t.test('each heap class that was needed has spares of its own', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  t.same(await takeStarted(null, 64, 64, 128), [false, false, false, false])
  t.equal(made.length, 7)
  t.same(await takeStarted(64, null, 128), [true, true, true])
  t.same(await takeStarted(64, 256), [true, false])
})

t.test('no spare boots while somebody waits for a thread to start', async (t) => {
  const { take, made } = spawnerOf(1)
  const [first, second] = [take(), take()]
  first.started()
  await idle()
  await idle()
  t.equal(made.length, 2)
  second.started()
  await idle()
  await idle()
  t.equal(made.length, 3)
})

t.test('of many heap classes those needed last have spares, eight in all', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  const heaps = Array.from({ length: 12 }, (_, i) => 16 + i)
  await takeStarted(...heaps)
  t.equal(made.length, 12 + 8)
  t.same(await takeStarted(27), [true])
  t.same(await takeStarted(16), [false])
  t.same(await takeStarted(16), [true], 'at the cost of the one needed least lately')
  t.same(await takeStarted(20), [false])
})

t.test('warmSpares 0 keeps none', async (t) => {
  const { takeStarted, made } = spawnerOf(0)
  await takeStarted(null, 64)
  t.equal(made.length, 2)
})

t.test('a spare that dies by itself is replaced when the next thread has started', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  await takeStarted(null)
  made.at(-1)?.terminate()
  t.same([await takeStarted(null), await takeStarted(null)], [[false], [true]])
})

t.test('a closed spawner makes no more spares', async (t) => {
  const { spawner, take, made } = spawnerOf(1)
  const thread = take()
  await spawner.close()
  thread.started()
  await idle()
  await idle()
  t.equal(made.length, 1)
})

t.test('as many threads boot side by side as there are cores, and others wait for their turn', async (t) => {
  const { made, takeInTurn } = spawnerOf(1, { cores: 2 })
  const taken = Array.from({ length: 5 }, () => takeInTurn())
  await idle()
  t.equal(made.length, 2)
  made[1]!.hasBooted()
  await idle()
  await idle()
  t.equal(made.length, 3)
  for (let i = 0; i < 5; i++) {
    made[i]?.hasBooted()
    await idle()
    await idle()
  }
  t.same(await Promise.all(taken), made)
})

t.test('a start hook that takes long keeps nobody from booting', async (t) => {
  const { made, takeInTurn } = spawnerOf(0, { cores: 1 })
  const both = [takeInTurn(), takeInTurn()]
  await idle()
  made[0]!.hasBooted() // and its start goes on
  await Promise.all(both)
  t.equal(made.length, 2)
})

t.test('whoever needs no thread any more when its turn comes passes it on', async (t) => {
  const { made, takeInTurn } = spawnerOf(0, { cores: 1 })
  const first = takeInTurn()
  const others = [takeInTurn(false), takeInTurn(false), takeInTurn()]
  await first
  made[0]!.hasBooted()
  await Promise.all(others)
  t.equal(made.length, 2)
})

t.test('whoever waits for its turn waits no longer when the spawner is closed', async (t) => {
  const { spawner, made, takeInTurn } = spawnerOf(0, { cores: 1 })
  await takeInTurn()
  const waits = takeInTurn(false)
  await spawner.close()
  await waits
  t.equal(spawner.room(null), undefined)
  t.equal(made.length, 1)
})

t.test('no spare boots while somebody waits for its turn', async (t) => {
  const { spawner, made, take, takeInTurn } = spawnerOf(1, { cores: 1 })
  take().started()
  const [second, third] = [takeInTurn(), takeInTurn()]
  for (const taken of [second, third]) (await taken)?.started()
  t.equal(spawner.spares, 0)
  t.equal(made.length, 3)
  await idle()
  await idle()
  t.equal(spawner.spares, 1)
})

t.test('a run that makes agents faster than spares boot gets more of them, eight in all', async (t) => {
  const { spawner, clock, made, take } = spawnerOf(1)
  take().started()
  await idle()
  await idle()
  t.equal(spawner.spares, 1)
  for (let i = 0; i < 30; i++) spawner.spawn(null, true)
  await idle()
  await idle()
  t.equal(spawner.spares, 8, 'also beside threads that start')
  await clock.advance(9_000)
  spawner.spawn(null, true)
  await clock.advance(9_000)
  t.equal(spawner.spares, 7)
  await clock.advance(1_000)
  t.equal(spawner.spares, 1, 'until none was taken for 10 s')
  t.equal(made.length, 39)
})

t.test('a run whose spares have booted in time has as many as before', async (t) => {
  const { spawner, take, takeStarted } = spawnerOf(1)
  await takeStarted(null)
  for (let i = 0; i < 3; i++) {
    const thread = take(null, true)
    t.ok(thread.warm)
    thread.started()
    await idle()
    await idle()
    t.equal(spawner.spares, 1)
  }
})

t.test('warmSpares 0 keeps none for runs that make agents either', async (t) => {
  const { spawner } = spawnerOf(0)
  for (let i = 0; i < 3; i++) spawner.spawn(null, true)
  await idle()
  await idle()
  t.equal(spawner.spares, 0)
})

// Owners of threads: how many are kept, and which go first.

t.test('the owner of a thread not used for long goes with its conversations, and not while it is in use', (t) => {
  const conversations = new Conversations(undefined, (threadId) => threadId === 'in use')
  const { owners } = conversations
  for (const threadId of ['in use', 'old', 'used again']) {
    t.equal(owners.begin(threadId, 'ann'), 'ann')
    conversations.keep(1, threadId, NO_CONVERSATION)
  }
  const begin = (from: number, to: number) => {
    for (let nth = from; nth < to; nth += 1) owners.begin(`thread ${nth}`, 'bob')
  }
  begin(0, 5_000)
  t.equal(owners.begin('used again', 'bob'), 'ann')
  begin(5_000, 10_000)
  t.same(
    Array.from(conversations.all(), ({ threadId }) => threadId),
    ['in use', 'used again'],
  )
  t.equal([...owners.all()].length, 10_000)
  t.equal(owners.begin('old', 'bob'), 'bob', 'nothing is left of it')
  t.equal(owners.begin('in use', 'bob'), 'ann')
  t.end()
})

t.test('a conversation of a thread that nobody has begun makes it nobody’s', (t) => {
  const conversations = new Conversations()
  conversations.keep(1, 'talk', NO_CONVERSATION)
  t.equal(conversations.owners.begin('talk', 'ann'), null)
  t.end()
})

// The conversations of threads are bounded: the one that was used longest ago goes.

const agent = (index = 1, fields: object = {}) =>
  Object.assign({ index, run: undefined, settings: { playedByModel: true } }, fields) as Agent
const run = (threadId: string | undefined) => new RunState(1, 'id', '', 0, {}, threadId)
const saying = (content: string): Conversation =>
  withTurn(NO_CONVERSATION, content.slice(0, 9), [{ role: 'user', content }])

/** What an agent finds in a run of that thread. */
function found(conversations: Conversations, threadId: string | undefined, of = agent()): string[] {
  const next = run(threadId)
  conversations.begin(of, next)
  const conversation = next.states.get(of.index) as Conversation | undefined
  return historyOf(conversation ?? NO_CONVERSATION).map(({ content }) => textOf(content))
}

t.test('keeps a thousand of them', async (t) => {
  const conversations = new Conversations()
  for (let i = 0; i < 1_000; i++) conversations.committed(agent(), run(`${i}`), NO_CONVERSATION, saying(`said ${i}`))
  t.same(found(conversations, '0'), ['said 0'])
  conversations.committed(agent(), run('one more'), NO_CONVERSATION, saying('more'))
  t.same(found(conversations, '0'), ['said 0'], 'it was used last')
  t.same(found(conversations, '1'), [])
  t.same(found(conversations, '2'), ['said 2'])
})

t.test('keeps 64 Mi characters of them', async (t) => {
  const conversations = new Conversations()
  const large = 'x'.repeat(2 ** 22)
  for (let i = 0; i < 17; i++) conversations.committed(agent(), run(`${i}`), NO_CONVERSATION, saying(large))
  t.same(found(conversations, '0'), [])
  t.equal(found(conversations, '1').length, 1)
  for (let i = 1; i < 17; i++) conversations.committed(agent(), run(`${i}`), saying(large), NO_CONVERSATION)
  conversations.committed(agent(), run('more'), NO_CONVERSATION, saying(large))
  t.equal(found(conversations, 'more').length, 1)
})

t.test('a conversation that is gone comes back with what its run has of it', async (t) => {
  const conversations = new Conversations()
  const before = saying('one')
  const after = withTurn(before, 'two', [{ role: 'user', content: 'two' }])
  conversations.committed(agent(), run('a'), before, after)
  t.same(found(conversations, 'a'), ['one', 'two'])
})

t.test('is for models in threads, and not for agents of one run', async (t) => {
  const conversations = new Conversations()
  for (const [other, threadId] of [
    [agent(), undefined],
    [agent(1, { run: run('a') }), 'a'],
    [agent(1, { settings: { playedByModel: false } }), 'a'],
  ] as const)
    conversations.committed(other, run(threadId), NO_CONVERSATION, saying('hello'))
  t.same(found(conversations, 'a'), [])
  t.same(found(conversations, undefined), [])
})

t.test('a run that goes on keeps its own', async (t) => {
  const conversations = new Conversations()
  const own = run('a')
  own.states.set(1, saying('own'))
  conversations.committed(agent(), run('a'), NO_CONVERSATION, saying('other'))
  conversations.begin(agent(), own)
  t.same(historyOf(own.states.get(1) as Conversation), [{ role: 'user', content: 'own' }])
})

t.test('goes with its agent', async (t) => {
  const conversations = new Conversations()
  for (const index of [1, 2]) conversations.committed(agent(index), run('a'), NO_CONVERSATION, saying(`of ${index}`))
  conversations.forget(1)
  t.same(found(conversations, 'a'), [])
  t.same(found(conversations, 'a', agent(2)), ['of 2'])
})

// Rule 24: whose work it is what a thread has open, and at what cost that is followed.

interface FakeTurn {
  ended: boolean
}

/** Ids of resources are given by the test; a turn that ends is taken out as the loop does. */
function thread() {
  const work = new OwnWork()
  const turns: FakeTurn[] = []
  let ends = 0
  work.follow(turns, () => {
    ends += 1
  })
  return {
    work,
    ends: () => ends,
    begin(): FakeTurn {
      const turn = { ended: false }
      turns.push(turn)
      return turn
    },
    end(turn: FakeTurn): void {
      turn.ended = true
      turns.splice(turns.indexOf(turn), 1)
      if (turns.length === 0) work.rest()
    },
  }
}

/** The number of what runs for a bell: nobody has opened it. */
const BELL = 1
const BETWEEN = 0

t.test('what a turn opens is its work until that is done with', (t) => {
  const { work, begin, ends } = thread()
  const turn = begin()
  t.notOk(work.isBusy(turn))
  work.opened(10, true, BELL, undefined)
  work.opened(11, true, BETWEEN, undefined)
  work.closed(10)
  t.ok(work.isBusy(turn))
  t.equal(ends(), 0)
  work.closed(11)
  t.notOk(work.isBusy(turn))
  t.equal(ends(), 1, 'and somebody is told')
  t.end()
})

t.test('what the module, or an earlier turn, has left open is no work of a later one', (t) => {
  const { work, begin, end } = thread()
  work.opened(10, true, BELL, undefined)
  const earlier = begin()
  work.opened(11, true, BELL, undefined)
  end(earlier)
  const turn = begin()
  t.notOk(work.isBusy(turn))
  for (const id of [10, 11]) {
    work.calledBack(id)
    work.opened(id + 10, true, id, undefined)
    work.opened(id + 20, true, BETWEEN, undefined)
  }
  t.notOk(work.isBusy(turn), 'nor is what its callbacks open, and the promises behind them')
  work.calledBack(BELL)
  work.opened(50, true, BETWEEN, undefined)
  t.ok(work.isBusy(turn))
  t.end()
})

t.test('what leads to something else is followed, and is no work itself', (t) => {
  const { work, begin, end } = thread()
  const earlier = begin()
  work.opened(10, false, BELL, undefined)
  t.notOk(work.isBusy(earlier))
  end(earlier)
  const turn = begin()
  work.opened(11, true, 10, undefined)
  t.notOk(work.isBusy(turn))
  t.end()
})

t.test('of turns that are open at once each may have opened it', (t) => {
  const { work, begin, end } = thread()
  const [one, two] = [begin(), begin()]
  work.opened(10, true, BETWEEN, undefined)
  t.ok(work.isBusy(one))
  t.ok(work.isBusy(two))
  end(one)
  t.ok(work.isBusy(two))
  t.notOk(work.isBusy(begin()))
  t.end()
})

t.test("the runtime's own is nobody's", (t) => {
  const { work, begin } = thread()
  const turn = begin()
  t.equal(
    work.unseen(() => {
      work.opened(10, true, BELL, undefined)
      return 'what it gives'
    }),
    'what it gives',
  )
  t.notOk(work.isBusy(turn))
  t.end()
})

t.test('what has no resource is work from its begin to its end', (t) => {
  const { work, begin } = thread()
  const turn = begin()
  const end = work.begin(BELL)
  t.ok(work.isBusy(turn))
  end()
  t.notOk(work.isBusy(turn))
  t.end()
})

t.test('who writes to a connection that an earlier turn has left open waits for what comes back', (t) => {
  const { work, begin, end } = thread()
  const earlier = begin()
  const stream = { bytesWritten: 0, bytesRead: 0 }
  work.opened(10, true, BELL, stream)
  Object.assign(stream, { bytesWritten: 100, bytesRead: 100 })
  end(earlier)
  const turn = begin()
  t.notOk(work.isBusy(turn))
  stream.bytesWritten += 50
  t.ok(work.isBusy(turn))
  stream.bytesRead += 10
  work.calledBack(10)
  t.notOk(work.isBusy(turn))
  work.opened(11, true, BETWEEN, undefined)
  t.ok(work.isBusy(turn), 'and goes on with it')
  t.end()
})

t.test('a connection under another layer, which is not heard of, has answered when something was read from it', (t) => {
  const { work, begin, end } = thread()
  const earlier = begin()
  const stream = { bytesWritten: 10, bytesRead: 10 }
  work.opened(10, true, BELL, stream)
  end(earlier)
  const turn = begin()
  stream.bytesWritten += 50
  t.ok(work.isBusy(turn))
  stream.bytesRead += 10
  t.notOk(work.isBusy(turn))
  t.end()
})

t.test('what a turn opens is seen until it is done with, whether it keeps the thread alive or not', async (t) => {
  const worker = new Worker(new URL('../fixtures/follows-own-work.js', import.meta.url))
  const [said] = await once(worker, 'message')
  t.same(said, {
    asyncId: 0, // Node numbers promises only where somebody follows them
    promise: [false, false],
    timer: [true, false],
    signal: [true, false],
    crypto: [true, false],
    waitAsync: [true, false],
    own: [false, false],
    ownSleep: [false, false],
    ownTimer: 0,
  })
})
