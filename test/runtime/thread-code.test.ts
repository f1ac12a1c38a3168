/** Compiled code that threads of a process share. */
import t from 'tap'
import { playFirstTurn } from '../../src/actors/loop/first-turn.ts'
import { ThreadCode, threadCode } from '../../src/runtime/threads/thread-code.ts'
import { WorkerThread } from '../../src/runtime/threads/worker-thread.ts'

t.test('the first thread compiles the entry, the next one a turn too, and later ones begin with that', async (t) => {
  t.equal(await playFirstTurn(), true, 'the turn ends, and something is written')
  const code = freshCode()
  const sizes: number[] = []
  for (let thread = 0; thread < 4; thread++) {
    t.ok(await boots(code))
    sizes.push(code.begin().compiled?.length ?? 0)
  }
  const [first = 0, second = 0] = sizes
  t.ok(first > 0)
  t.ok(second > 1.2 * first, `${second} bytes, and ${first} without the turn`)
  t.same(sizes, [first, second, second, second])
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

/** Resolves to true if a thread boots and answers. */
async function boots(code: ThreadCode): Promise<boolean> {
  const thread = new WorkerThread(null, code)
  await thread.booted
  const answered = await Promise.race([thread.stop().then(() => true), thread.gone().then(() => false)])
  thread.terminate()
  await thread.gone()
  return answered
}
