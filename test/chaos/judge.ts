/** Plays a program, and holds what came of it against its verdict. */
import type { MultiAgentPatternOptions, RuntimeEvent } from '../../src/index.ts'
import { silent } from '../supervision/teams.ts'
import type { Program } from './programs.ts'

/** What a team plays it with; each agent has `module`. */
export function optionsOf({ agents, asks, options }: Program, module?: URL): MultiAgentPatternOptions {
  return {
    ...options,
    agents: Object.entries(agents).map(([name, data]) => ({ name, data, ...(module && { module }) })),
    orchestration: {
      strategy: 'custom',
      run: async (script) => {
        const settled = await Promise.allSettled(asks.map(([agent, say]) => script.request(agent, say)))
        return settled.map(({ status }) => status).join(' ')
      },
    },
    logger: silent,
    threads: { warmSpares: 0 },
  }
}

/** What it needs of a test. */
interface Test {
  equal(found: unknown, wanted: unknown): unknown
  ok(found: unknown): unknown
  same(found: unknown, wanted: unknown): unknown
}

type Found = Extract<RuntimeEvent, { type: 'deadlock' }> | Extract<RuntimeEvent, { type: 'livelock' | 'stall' }>

/** Collects what the detectors say from now on. */
export function detections(events: { subscribe(next: (event: RuntimeEvent) => void): unknown }): Found[] {
  const found: Found[] = []
  events.subscribe((event) => {
    if (event.type === 'deadlock' || event.type === 'stall' || event.type === 'livelock') found.push(event)
  })
  return found
}

/** `said`: what the run gave. */
export function judge(
  test: Test,
  { verdict, cycle, answered, asks }: Program,
  found: Found[],
  said: string | null,
): void {
  const all = asks.map(() => 'fulfilled').join(' ')
  const [first] = found
  test.equal(first?.type ?? 'completes', verdict)
  if (verdict === 'completes') test.equal(said, all)
  else if (verdict === 'deadlock') test.ok(said !== null)
  if (answered) test.equal(said, all)
  if (first?.type !== 'deadlock') return
  if (cycle) test.same([...first.cycle].sort(), [...cycle].sort())
  test.ok(first.waits.length >= first.cycle.length)
}
