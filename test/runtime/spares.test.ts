/** Spare threads on a system that has none left: nobody needs a spare, so nobody is hurt. */
import t from 'tap'
import type { Logger } from '../../src/actors/logger.ts'
import { WorkerSpawner, WorkerThread } from '../../src/runtime/thread.ts'
import { silent } from '../supervision/teams.ts'

/** A spawner on a system that has threads as long as `has` says so, and what it warned of. */
function spawnerOn(t: { teardown(end: () => Promise<void>): void }, system: { has: boolean }) {
  const warnings: object[] = []
  const logger: Logger = { ...silent, warn: (fields) => void warnings.push(fields) }
  const spawner = new WorkerSpawner(1, logger, (maxHeapMb) => {
    if (!system.has) throw new Error('no more threads')
    return new WorkerThread(maxHeapMb)
  })
  t.teardown(() => spawner.close())
  return { spawner, warnings }
}

const idle = () => new Promise((resolve) => setImmediate(resolve))

t.test('a spare that cannot be made is logged, and made with the next thread that is taken', async (t) => {
  const system = { has: false }
  const { spawner, warnings } = spawnerOn(t, system)
  spawner.refill()
  await idle()
  t.match(warnings, [{ error: /no more threads/, spares: 0, wanted: 1 }])
  system.has = true
  const [cold] = [spawner.spawn(null), await idle()]
  t.teardown(() => cold.terminate())
  const warm = spawner.spawn(null)
  t.teardown(() => warm.terminate())
  t.same([cold.warm, warm.warm], [false, true])
})

t.test('who needs a thread where there is none is told', async (t) => {
  const { spawner } = spawnerOn(t, { has: false })
  t.throws(() => spawner.spawn(null), { message: 'no more threads' })
  t.throws(() => spawner.spawn(64), { message: 'no more threads' })
})
