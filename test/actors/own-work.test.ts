/** Rule 24: whose work it is what a thread has open, and at what cost that is followed. */

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { OwnWork } from '../../src/actors/turn/own-work.ts'

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
