/** Runs that wait for their start: who waits leaves no trace when it is withdrawn, and a draining team still lets them begin. */
import t from 'tap'
import { given, type localTeam, outcomeOf } from '../kit/team.ts'

type Test = Parameters<typeof localTeam>[0]

/** One run at a time, each of them ten ms long; `begun` has those that reached the agent. */
function oneAtATime(t: Test, options: Parameters<typeof localTeam>[2] = {}) {
  const begun: string[] = []
  const team = given(t, { maxConcurrentRuns: 1, ...options }).testTeam({
    async worker({ content }, context) {
      begun.push(content)
      await context.sleep(10)
      return content
    },
  })
  return { team, begun }
}

t.test('a queued run that is aborted ends at once, asks nobody, and leaves its place to the next', async (t) => {
  const { team, begun } = oneAtATime(t, { maxQueuedRuns: 2 })
  const controller = new AbortController()
  const first = team.launch('first')
  const aborted = team.launch('aborted', { signal: controller.signal, priority: 9 })
  const cancelled = team.launch('cancelled')
  await team.clock.advance(1)
  controller.abort(new Error('changed my mind'))
  void cancelled.cancel('no need')
  t.match(await aborted.result, { error: { code: 'RUN_ABORTED', message: /changed my mind/ } })
  t.match(await cancelled.result, { error: { code: 'RUN_ABORTED', message: /no need/ } })
  t.same(team.health().runs, { running: 1, queued: 0 })
  const [second, third] = [team.launch('second'), team.launch('third')]
  await team.clock.advance(100)
  for (const run of [first, second, third]) t.ok((await run.result).success)
  t.same(begun, ['first', 'second', 'third'])
})

t.test('one run is over, one begins: never more than maxConcurrentRuns are under way', async (t) => {
  const { team } = oneAtATime(t, { maxConcurrentRuns: 2 })
  let most = 0
  team.events.subscribe(() => {
    most = Math.max(most, team.health().runs.running)
  })
  const runs = Array.from({ length: 9 }, (_, i) => team.launch(`${i}`))
  await team.clock.advance(1_000)
  for (const run of runs) t.ok((await run.result).success)
  t.equal(most, 2)
})

t.test('maxQueuedRuns 0: nobody waits', async (t) => {
  const { team } = oneAtATime(t, { maxQueuedRuns: 0 })
  const first = team.launch('first')
  t.throws(() => team.launch('second'), { code: 'TEAM_OVERLOADED', details: { running: 1, queued: 0 } })
  await team.clock.advance(100)
  t.ok((await first.result).success)
})

t.test('close with drainMs lets queued runs begin and end, and takes no new ones', async (t) => {
  const { team, begun } = oneAtATime(t)
  const runs = ['1', '2', '3'].map((query) => team.launch(query))
  const closed = outcomeOf(team.close({ drainMs: 1_000 }))
  t.throws(() => team.launch('4'), { code: 'TEAM_CLOSED' })
  await team.clock.advance(29)
  t.equal(closed.settled, false)
  await team.clock.advance(1)
  t.equal(closed.settled, true)
  for (const run of runs) t.ok((await run.result).success)
  t.same(begun, ['1', '2', '3'])
})

t.test('what has not ended when drainMs is over is aborted, queued or not', async (t) => {
  const { team, begun } = oneAtATime(t)
  const runs = ['1', '2', '3'].map((query) => team.launch(query))
  const closed = outcomeOf(team.close({ drainMs: 15 }))
  await team.clock.advance(15)
  const results = await Promise.all(runs.map(({ result }) => result))
  t.match(
    results.map(({ success, error }) => ({ success, code: error?.code })),
    [
      { success: true, code: undefined },
      { success: false, code: 'RUN_ABORTED' },
      { success: false, code: 'RUN_ABORTED' },
    ],
  )
  await team.clock.runToIdle()
  t.equal(closed.settled, true)
  t.same(begun, ['1', '2'])
})
