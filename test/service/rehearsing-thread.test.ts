/** A thread that rehearses, as the command has it. */
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { RehearsingThread } from '../../src/service/rehearsal/rehearsing-thread.ts'
import { collectGarbage } from '../soak/samples.ts'

t.test('what a thread has played is let go of while it plays on', async (t) => {
  const file = 'examples/hello/team.ts'
  const job = {
    href: pathToFileURL(file).href,
    file,
    query: 'world',
    faults: [],
    recorded: false,
    realModels: false,
    realTools: false,
    shown: false,
  }
  const thread = new RehearsingThread(job, undefined, 30_000, () => {})
  t.teardown(() => thread.end())
  const played = new WeakRef(await thread.play(1, false))
  await thread.play(2, false)
  for (let looks = 0; looks < 100 && played.deref(); looks++) {
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
  }
  t.equal(played.deref(), undefined)
})
