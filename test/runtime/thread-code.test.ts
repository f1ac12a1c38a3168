/** Compiled code that threads of a process share. */
import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import t from 'tap'
import { playFirstTurn, Resident } from '../../src/actors/thread/resident.ts'
import { ThreadCode, threadCode, WorkerThread } from '../../src/runtime/threads/worker-thread.ts'
import { epochZero, systemClock } from '../../src/shared/clock.ts'

t.test('the second thread compiles a turn too, and later ones begin with that', async (t) => {
  t.equal(await playFirstTurn(systemClock), true, 'the turn ends, and something is written')
  const code = freshCode()
  const sizes: number[] = []
  for (let thread = 0; thread < 4; thread++) {
    t.ok(await boots(code))
    sizes.push(code.begin().compiled?.length ?? 0)
  }
  const [, second = 0] = sizes
  t.ok(second > 1.2 * earlyBytes(code), `${second} bytes, and ${earlyBytes(code)} of the host`)
  t.same(sizes.slice(1), [second, second, second])
})

t.test('the turn is played as an agent plays it, from its load to its stop', async (t) => {
  const called = (['start', 'stop', 'leave'] as const).map((part) =>
    t.capture(Resident.prototype, part, Resident.prototype[part]),
  )
  t.equal(await playFirstTurn(systemClock), true)
  t.same(
    called.map((calls) => calls().length),
    [1, 1, 1],
  )
})

t.test('the bundle of threads loads no module of Node that few of them need', async (t) => {
  const { source } = threadCode().begin()
  for (const name of ['node:crypto', 'node:module']) {
    t.notMatch(source, `require("${name}")`)
    t.match(source, `getBuiltinModule("${name}")`)
  }
})

t.test('the first thread begins with what the host compiles meanwhile, or compiles for itself', async (t) => {
  const code = freshCode()
  const early = code.begin()
  t.equal(earlyBytes(code), 0, 'nobody waits for it')
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(earlyBytes(code) > 0)
  const told = await bootedWith({ ...early, plays: false })
  t.equal(told.compiled, undefined, 'the thread had nothing to compile')
  const alone = await bootedWith({ ...early, plays: false, early: new SharedArrayBuffer(4) })
  t.ok(alone.compiled, 'it had, and hands it on')
})

t.test('a turn that was not played to its end is played by a later thread', async (t) => {
  const code = freshCode()
  t.notOk(code.begin().plays, 'somebody waits for the first thread')
  const ended = code.begin()
  t.ok(ended.plays)
  t.ok(code.begin().plays)
  code.take(new Uint8Array(1), ended)
  t.notOk(code.begin().plays)
})

t.test('threads compile for themselves where what others have compiled does not fit', async (t) => {
  const code = freshCode()
  code.take(new Uint8Array(1_000), code.begin())
  t.equal(code.begin().compiled?.length, 1_000)
  t.ok(await boots(code))
})

function freshCode(): ThreadCode {
  const { path, source } = threadCode().begin()
  return new ThreadCode(threadCode().boot, path, source)
}

/** Number of bytes that the host has compiled. */
const earlyBytes = (code: ThreadCode) => new Int32Array(code.begin().early, 0, 1)[0] ?? 0

/** Resolves to the first post of a thread with that code. */
async function bootedWith(entry: ReturnType<ThreadCode['begin']>): Promise<{ compiled: Uint8Array | undefined }> {
  const [control, parts] = [new MessageChannel(), new MessageChannel()]
  const worker = new Worker(threadCode().boot, {
    workerData: { control: control.port2, parts: parts.port2, entry, zero: epochZero() },
    transferList: [control.port2, parts.port2],
  })
  const [booted] = await once(worker, 'message')
  await worker.terminate()
  control.port1.close()
  parts.port1.close()
  return booted
}

/** Resolves to true if a thread boots and answers. */
async function boots(code: ThreadCode): Promise<boolean> {
  const thread = new WorkerThread(null, code)
  await thread.booted
  const answered = await Promise.race([thread.stop().then(() => true), thread.gone().then(() => false)])
  thread.terminate()
  await thread.gone()
  return answered
}
