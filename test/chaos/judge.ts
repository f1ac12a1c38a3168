/** Plays a program, and holds what came of it against its verdict. */
import type { BlackboardEntry, MultiAgentPatternOptions, MultiAgentResult, RuntimeEvent } from '../../src/index.ts'
import { silent } from '../kit/team.ts'
import { STRICT } from '../supervision/livelocks.ts'
import { fileOf, membersOf } from './cast.ts'
import type { Program } from './program.ts'

/** What a team plays it with. Where no livelock is expected beside what is, its detector watches too. */
export function optionsOf(program: Program, onThreads = false): MultiAgentPatternOptions {
  const { asks, options, reentrancy, verdict } = program
  const agents = membersOf(program).map(({ name, code, data }) => ({
    name,
    data,
    ...(reentrancy && { reentrancy }),
    ...(onThreads && { module: fileOf(code) }),
  }))
  return {
    ...options,
    agents,
    orchestration: onThreads
      ? { strategy: 'custom', module: new URL('../fixtures/chaos/asker.js', import.meta.url), config: { asks } }
      : {
          strategy: 'custom',
          run: async (script) => {
            const settled = await Promise.allSettled(asks.map(([agent, say]) => script.request(agent, say)))
            return settled.map(({ status }) => status).join(' ')
          },
        },
    ...((verdict === 'completes' || verdict === 'livelock') && { supervision: { livelock: STRICT } }),
    logger: silent,
    threads: { warmSpares: 0 },
  }
}

/** What it needs of a test. */
interface Test {
  equal(found: unknown, wanted: unknown): unknown
  match(found: unknown, wanted: unknown): unknown
  ok(found: unknown): unknown
  same(found: unknown, wanted: unknown): unknown
}

type Found = Extract<RuntimeEvent, { type: 'deadlock' }> | Extract<RuntimeEvent, { type: 'livelock' | 'stall' }>

/** What the detectors have said, and what the blackboard has got, each in order. */
export interface Seen {
  found: Found[]
  entries: BlackboardEntry[]
}

/** Notes it from now on. */
export function watch(events: { subscribe(next: (event: RuntimeEvent) => void): unknown }): Seen {
  const seen: Seen = { found: [], entries: [] }
  events.subscribe((event) => {
    if (event.type === 'deadlock' || event.type === 'stall' || event.type === 'livelock') seen.found.push(event)
    if (event.type === 'blackboard') seen.entries.push(event.entry)
  })
  return seen
}

export function judge(
  test: Test,
  { verdict, cycle, sign, answered, wrong, asks }: Program,
  { found, entries }: Seen,
  { finalOutput: said, error }: Pick<MultiAgentResult<unknown>, 'finalOutput' | 'error'>,
): void {
  const all = asks.map(() => 'fulfilled').join(' ')
  const [first] = found
  test.equal(first?.type ?? 'completes', verdict)
  if (verdict === 'completes') test.equal(said, all)
  else if (verdict === 'deadlock') test.ok(said !== null)
  else if (verdict === 'livelock') judgeLivelock(test, sign, found, error)
  if (answered) test.equal(said, all)
  if (wrong) test.same(wrong(entries), [])
  if (first?.type !== 'deadlock') return
  if (cycle) test.same([...first.cycle].sort(), [...cycle].sort())
  test.ok(first.waits.length >= first.cycle.length)
}

/**
 * At the end the whole ladder, with a sign more on each step: nobody does anything else, so the last one ends the run. Before it
 * there may be first steps that something new has taken back.
 */
function judgeLivelock(
  test: Test,
  sign: RegExp | undefined,
  found: readonly Found[],
  error: MultiAgentResult<unknown>['error'],
): void {
  const ladder = [[sign], [sign, sign], [sign, sign, sign]]
  const before = Math.max(0, found.length - ladder.length)
  const wanted = [...Array.from({ length: before }, () => [sign]), ...ladder]
  test.match(
    found,
    wanted.map((evidence) => ({ type: 'livelock', evidence })),
  )
  test.match(error, { code: 'LIVELOCK', details: { evidence: ladder.at(-1) } })
}
