/** Compiled code that threads of a process share. */
import { Script } from 'node:vm'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { WorkerThread } from '../../src/runtime/threads/thread.ts'
import { ThreadCode, threadCode } from '../../src/runtime/threads/thread-code.ts'
import { silent } from '../supervision/teams.ts'

t.test(
  'threads begin with what the first has compiled, and compile for themselves where it does not fit',
  async (t) => {
    const code = new ThreadCode()
    t.equal(code.entry.compiled, undefined)
    t.ok(await boots(code))
    const { compiled } = code.entry
    t.ok(compiled && compiled.length > 0)
    t.ok(await boots(code))
    t.equal(code.entry.compiled, compiled)
    const other = new ThreadCode()
    other.take(new Uint8Array(1_000))
    t.ok(await boots(other))
  },
)

t.test('later ones begin with what a turn has compiled, too, whatever the code of the agent does', async (t) => {
  const code = threadCode()
  const team = createTeam({
    agents: [{ name: 'patcher', module: new URL('../fixtures/thread-patcher.js', import.meta.url) }],
    orchestration: { strategy: 'sequential' },
    logger: silent,
  })
  t.teardown(() => team.close())
  await team.start()
  const atBoot = code.entry.compiled?.length ?? 0
  t.ok(code.entry.kept, 'no turn has ended yet')
  t.equal((await team.execute('first')).finalOutput, 'first')
  while (code.entry.kept) await new Promise((resolve) => setImmediate(resolve)) // the thread writes it after the turn
  const { path, source, compiled } = code.entry
  t.ok(compiled && compiled.length > atBoot)
  t.equal(new Script(source, { filename: path, cachedData: compiled! }).cachedDataRejected, false)
  t.ok(await boots(code))
  t.equal((await team.execute('second')).finalOutput, 'second')
})

/** Resolves to true if a thread boots and answers. */
async function boots(code: ThreadCode): Promise<boolean> {
  const thread = new WorkerThread(null, code)
  await thread.booted
  const answered = await Promise.race([thread.stop().then(() => true), thread.gone().then(() => false)])
  thread.terminate()
  await thread.gone()
  return answered
}
