/** Where the figures of a thread come from. */
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { kernelTimes, ThreadClock } from '../../src/runtime/threads/thread.ts'

const skip = !existsSync('/proc/thread-self/schedstat') && 'the kernel tells no figures of threads here'

const files = (schedstat: string, stat: string) => (path: string) => {
  if (path === '/proc/self/task/42/schedstat') return schedstat
  if (path === '/proc/self/task/42/stat') return stat
  throw new Error(`ENOENT: ${path}`)
}

t.test('the kernel tells how long a thread ran and waited, and whether it can run', async (t) => {
  const read = (stat: string) => kernelTimes(42, files('2500000 1500000 7\n', stat))
  t.same(read('42 (node) R 1 1'), { cpuMs: 2.5, waitedMs: 1.5, runnable: true })
  t.match(read('42 (node) S 1 1'), { runnable: false })
  t.match(read('42 (a) R (b)) D 1 1'), { runnable: false }, 'whatever the thread is called')
})

t.test('the kernel tells how much memory a thread has taken', async (t) => {
  const stat = '42 (a) b) R 1 2 3 4 5 6 512 8 9'
  t.match(kernelTimes(42, files('2500000 1500000 7\n', stat)), { takenMb: 2 })
})

t.test('a thread that is not of this process has no figures, nor have those that cannot be read', async (t) => {
  t.equal(kernelTimes(43, files('2 1 7', '42 (node) R')), undefined)
  t.equal(kernelTimes(42, files('', '42 (node) R')), undefined)
  t.equal(kernelTimes(process.ppid), undefined, 'who started this process is another')
})

/** Runs until it is ended. */
function looping(t: { teardown(end: () => Promise<unknown>): void }): Worker {
  const worker = new Worker('for (;;);', { eval: true })
  t.teardown(() => worker.terminate())
  return worker
}

async function readUntil(clock: ThreadClock, enough: (cpuMs: number) => boolean) {
  for (;;) {
    const times = clock.read()
    if (enough(times.cpuMs)) return times
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('a clock that knows its thread reads what the kernel tells', { skip }, async (t) => {
  const clock = new ThreadClock(looping(t))
  clock.tid = process.pid // of the thread that looks itself
  const { cpuMs, runnable } = clock.read()
  t.ok(cpuMs > 0)
  t.ok(runnable)
  t.equal(clock.tid, process.pid)
})

const silentNode = !('cpuUsage' in Worker.prototype) && 'this Node does not tell the processor time of a thread'
t.test('one that does not know it has what Node tells', { skip: silentNode }, async (t) => {
  const clock = new ThreadClock(looping(t))
  t.match(await readUntil(clock, (cpuMs) => cpuMs > 0), { waitedMs: 0 })
})

t.test('one that knew it, and is refused, does not ask again', async (t) => {
  const clock = new ThreadClock(looping(t))
  clock.tid = process.ppid
  t.equal(clock.read().waitedMs, 0)
  t.equal(clock.tid, 0)
})
