/** Runs that a reader finds in a log which its team keeps bounded. */
import t from 'tap'
import type { HostRecord } from '../../src/runtime/log/records.ts'
import { recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { encoded } from '../durability/log-entries.ts'

t.test('what is left of a forgotten run is no run that goes on, also if its id was used again before', async (t) => {
  const launched = (run: number, id: string, seq: number): HostRecord => {
    const options = { metadata: {}, models: {}, timeoutMs: 1, priority: 0, target: 1, own: false }
    return { kind: 'run.launched', run, seq, at: 1, id, query: `query ${run}`, startedAt: 1, ...options }
  }
  const entries: HostRecord[] = [
    launched(1, 'again', 1),
    launched(2, 'once', 9), // the ends of both were given up with another part of the log
    launched(3, 'again', 17),
    { kind: 'runs.gone', run: 0, seq: 25, at: 1, runs: [1, 2] },
  ]
  const block = { firstSeq: 1, lastSeq: 32, carried: false, runs: [0, 1, 2, 3], entries: encoded(entries) }
  const { ids, runs, statuses } = await recordedRuns(async function* () {
    yield { ...block, position: 0, incarnation: 1 }
  })
  t.same(ids, ['again'])
  t.same(
    runs.map(({ launched: { query } }) => query),
    ['query 3'],
  )
  t.same(statuses, new Map([['again', 'unfinished']]))
})
