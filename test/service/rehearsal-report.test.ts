/** What a rehearsal says of its failures: the same mistake once, and what was made to go wrong with it. */
import t from 'tap'
import type { Injected } from '../../src/runtime/testing/faults.ts'
import { type Failure, isFailure, type Played } from '../../src/service/rehearsal/job.ts'
import { rehearsalData, rehearsalReport, seedReport } from '../../src/service/rehearsal/report.ts'
import {
  DeadlockError,
  type DramatisError,
  errorData,
  LivelockError,
  RequestTimeoutError,
  StallError,
} from '../../src/shared/errors.ts'

const replay = (seed: number) => `--seed ${seed}`
const id = (seed: number) => `01941f29-7c00-7000-8000-${String(seed).padStart(12, '0')}`

function failed(seed: number, error: DramatisError, faults: readonly Injected[] = []): Failure {
  const trace = { events: [], decisions: [], agentActivations: [], messageFlow: [], syncPointsReached: [] }
  const played: Played = {
    seed,
    kind: 'failed',
    error: errorData(error),
    messages: 1,
    faults,
    standsInFor: [],
    simulatedTools: [],
    refused: [],
    trace,
  }
  if (isFailure(played)) return played
  throw new Error('not a failure')
}

const stall = (seed: number, ...evidence: string[]) =>
  failed(seed, new StallError(`Nothing goes on any more: ${evidence.join('; ')}.`, { evidence }))
const waits = (agent: string, seed: number) => `"${agent}" (message ${id(seed)}) waits for "next" on the blackboard`

const groups = (failures: Failure[]) =>
  rehearsalReport(failures, undefined, replay, ['crash']).split('\n\n').slice(2, -1).join('\n')

t.test('failures that differ in ids alone are one group', async (t) => {
  const seeds = Array.from({ length: 13 }, (_, i) => i + 1)
  t.equal(
    groups(seeds.map((seed) => stall(seed, waits('barber', seed), waits('customer', seed + 20)))),
    '13 x STALL: Nothing goes on any more: "barber" waits for "next" on the blackboard; "customer" waits for "next" on the blackboard.\n' +
      '  seeds 1, 2, 3, 4, 5, 6, 7, 8, ...',
  )
  const late = (seed: number) =>
    failed(seed, new RequestTimeoutError(`Seed ${seed}: no answer to ${id(seed)} in run "seed-${seed}".`))
  t.equal(groups([late(1), late(2)]), '2 x REQUEST_TIMEOUT: The seed: no answer to … in run "…".\n  seeds 1, 2')
})

t.test('one circle is one group wherever it begins, and one stall in whatever order it is told', async (t) => {
  const circle = (seed: number, ...cycle: string[]) => failed(seed, new DeadlockError(`A circle: ${cycle}.`, { cycle }))
  const found = groups([circle(1, 'b', 'c', 'a'), circle(2, 'a', 'b', 'c'), circle(3, 'a', 'c', 'b')])
  t.equal(found, '2 x DEADLOCK: A circle: b,c,a.\n  seeds 1, 2\n1 x DEADLOCK: A circle: a,c,b.\n  seed 3')
  const [one, other] = [stall(1, waits('a', 1), waits('b', 2)), stall(2, waits('b', 3), waits('a', 4))]
  t.match(groups([one, other]), /^2 x STALL/)
})

t.test('failures that say something else are groups of their own, the most frequent first', async (t) => {
  const sign = (seed: number, name: string) => {
    const evidence = [`"${name}" asked 4 times (the last: message ${id(seed)})`]
    return failed(seed, new LivelockError(`Busy: ${evidence}.`, { evidence }))
  }
  t.equal(
    groups([sign(1, 'ann'), sign(2, 'bob'), sign(3, 'bob')]),
    '2 x LIVELOCK: Busy: "bob" asked 4 times.\n  seeds 2, 3\n1 x LIVELOCK: Busy: "ann" asked 4 times.\n  seed 1',
  )
})

t.test('the shortest run is shown with what was made to go wrong in it, as one seed alone is', async (t) => {
  const shown = failed(7, new RequestTimeoutError('late'), [{ fault: 'refuse', agent: 'ann', at: 5 }])
  const text = 'Faults:\n  refuse of ann, 5 ms after the begin\n'
  t.match(rehearsalReport([shown], shown, replay, ['crash']), `nothing happened\n\n${text}\nPlay it again:`)
  t.match(seedReport(shown, ['crash']), `nothing happened\n\n${text}\nSeed 7: failed: REQUEST_TIMEOUT: late`)
  t.match(rehearsalData([shown], shown, replay), {
    shortest: { seed: 7, faults: [{ fault: 'refuse', agent: 'ann' }] },
  })
  const plain = failed(8, new RequestTimeoutError('late'))
  t.match(rehearsalReport([plain], plain, replay, []), 'nothing happened\n\nNo faults.\n\nPlay it again:')
})
