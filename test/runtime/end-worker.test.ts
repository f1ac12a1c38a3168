/** Threads that do not heed the first order to end. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { endWorker } from '../../src/runtime/threads/worker-thread.ts'

t.test('a thread ends that is in the code of an async hook almost all the time', async (t) => {
  const worker = new Worker(
    `const { MessageChannel, parentPort } = require('node:worker_threads')
    require('node:async_hooks').createHook({ init() { for (let n = 0; n < 5_000; n++); } }).enable()
    parentPort.postMessage('on my way')
    for (;;) new MessageChannel().port1.close()`,
    { eval: true },
  )
  await once(worker, 'message')
  const ended = once(worker, 'exit')
  endWorker(worker)
  t.strictSame(await ended, [1])
})

t.test('a thread that has ended is told nothing more', async (t) => {
  const worker = new Worker('', { eval: true })
  await once(worker, 'exit')
  endWorker(worker)
  t.equal(worker.threadId, -1)
})
