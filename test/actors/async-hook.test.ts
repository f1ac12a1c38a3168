/** Rule 24: what is open in a thread is followed, at no cost for the promises that every message takes. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'

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
