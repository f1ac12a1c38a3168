/** Compiled code that threads of a process share. */
import t from 'tap'
import { playFirstTurn } from '../../src/actors/loop/first-turn.ts'
import { WorkerThread } from '../../src/runtime/threads/thread.ts'
import { type ThreadCode, threadCode } from '../../src/runtime/threads/thread-code.ts'

t.test(
  'threads begin with what the first has compiled, and compile for themselves where it does not fit',
  async (t) => {
    const code = freshCode()
    t.ok(await boots(code))
    const { compiled } = code.entry
    t.ok(compiled && compiled.length > 0)
    t.ok(await boots(code))
    t.equal(code.entry.compiled, compiled)
    code.entry.compiled = new Uint8Array(1_000)
    t.ok(await boots(code))
  },
)

t.test('the first compiles what a turn needs', async (t) => {
  t.equal(await playFirstTurn(), true, 'the turn ends, and something was written')
  const [code, other] = [freshCode(), freshCode((source) => `(...[a, b, c, done]) => { (${source})(a, b, c); done() }`)]
  t.ok(await boots(code))
  t.ok(await boots(other))
  const [played, unplayed] = [code, other].map(({ entry }) => entry.compiled?.length ?? 0) as [number, number]
  t.ok(played > 1.2 * unplayed, `${played} bytes, and ${unplayed} without the turn`)
})

function freshCode(sourceOf = (source: string) => source): ThreadCode {
  const { boot, entry } = threadCode()
  return { boot, entry: { path: entry.path, source: sourceOf(entry.source), compiled: undefined } }
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
