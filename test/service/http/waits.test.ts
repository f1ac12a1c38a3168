/** Waits for the ends of tasks. */
import t from 'tap'
import type { Run, Team } from '../../../src/index.ts'
import { knownEndOf, onEnd } from '../../../src/service/http/task-view.ts'
import { waitFor, written } from '../../../src/service/http/tasks.ts'

t.test('of a wait for the end of a task nothing is left when it is over, however long the task lasts', async (t) => {
  let waits = 0
  let end = (_: object) => {}
  const result = {
    // biome-ignore lint/suspicious/noThenProperty: it counts who waits for it
    then(resolve: (ended: object) => void) {
      waits += 1
      end = resolve
    },
  }
  const run = { status: 'running', result } as unknown as Run<unknown>
  for (let n = 0; n < 3; n++) t.notOk(await waitFor(run, 1))
  await written({ run, team: { flush: async () => {} } as unknown as Team })
  Object.assign(run, { status: 'interrupted' })
  for (let n = 0; n < 3; n++) t.equal(await knownEndOf(run), undefined)
  t.equal(waits, 1)
  const told: string[] = []
  onEnd(run, () => told.push('waited'))
  onEnd(run, () => told.push('gave up'))()
  const waited = waitFor(run, Number.POSITIVE_INFINITY)
  await new Promise((resolve) => setImmediate(resolve))
  end({ runId: 'one' })
  t.ok(await waited)
  t.same(told, ['waited'])
  t.same(await knownEndOf(run), { runId: 'one' })
})
