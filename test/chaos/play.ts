/**
 * One play of the team that dies as a seed says.
 *
 *   source-a, -b --numbers--> worker-a, -b --numbers--> sink
 *     | all are told            | requests, streams --> oracle-a, -b (to some they are deaf)
 *     v                         | what may not be done twice --> till
 *   everybody                   | blackboard --> listener-a, -b
 */

import type { AgentRole, BlackboardEntry, Logger, OrchestratorContext, Outcome } from '../../src/index.ts'
import { PERMITS_WANTED } from '../../src/mailbox/team-memory.ts'
import { seededRandom } from '../../src/shared/random.ts'
import type { Heard } from '../fixtures/chaos/listener.ts'
import { Notes } from '../fixtures/chaos/notes.ts'
import type { Asked } from '../fixtures/chaos/oracle.ts'
import type { Sunk } from '../fixtures/chaos/sink.ts'
import type { Order } from '../fixtures/chaos/source.ts'
import type { Takings } from '../fixtures/chaos/till.ts'
import { LISTENERS, ORACLES, REPORT, SOURCES, WORKERS } from '../fixtures/chaos/traffic.ts'
import type { Worked } from '../fixtures/chaos/worker.ts'
import { ChaosTeam } from '../fixtures/chaos-team.ts'
import { countingClock } from '../soak/counting-clock.ts'
import { killFromOutside } from './kills.ts'
import { Ledger } from './ledger.ts'
import { PATIENT, planOf, type Size } from './plan.ts'

const BATCH = 250 // numbers of a source's turn

/** What the agents say of themselves when all is through. */
export interface Reports {
  workers: Worked[]
  oracles: Asked[]
  till: Takings
  sink: Sunk
  listeners: Heard[]
}

export async function play(seed: number, size: Size) {
  const clock = countingClock()
  const log = new StaleFrames()
  const notes = new Notes(size.each)
  notes.share()
  const team = teamThatDies(seed, size, { clock, logger: log })
  team.followThreads()
  const ledger = new Ledger(team)
  const killed = killFromOutside(team, {
    times: size.killed,
    over: size.each * SOURCES.length,
    random: seededRandom([seed, 2, 0, 0]),
  })
  const result = await team.execute('go')
  if (!result.success) {
    await team.close()
    throw result.error
  }
  const entries: BlackboardEntry[] = (await team.getBlackboard()?.query()) ?? []
  const reports = JSON.parse(result.finalOutput) as Reports
  return { team, clock, ledger, notes, killed, reports, entries, staleFrames: () => log.frames }
}

function teamThatDies(seed: number, size: Size, parts: { clock: ReturnType<typeof countingClock>; logger: Logger }) {
  const plan = planOf(seed, size)
  const role = (name: string, kind: string, more: Omit<AgentRole, 'name'> = {}): AgentRole => ({
    name,
    module: new URL(`../fixtures/chaos/${kind}.js`, import.meta.url),
    data: { deaths: plan[name] ?? {} },
    limits: { maxHeapMb: 32, maxExternalMb: 64 },
    ...more,
    supervision: { watchdogMs: PATIENT.includes(name) ? 5_000 : 700, ...more.supervision },
  })
  const restarts = { supervision: { onHandlerError: 'restart' as const } }
  return new ChaosTeam({
    agents: [
      ...SOURCES.map((name) => role(name, 'source')),
      ...WORKERS.map((name) => role(name, 'worker', { communication: { mailboxCapacity: 200 } })),
      ...ORACLES.map((name) => role(name, 'oracle', name === 'oracle-b' ? restarts : {})),
      role('till', 'till'),
      role('sink', 'sink'),
      ...LISTENERS.map((name) => role(name, 'listener')),
    ],
    orchestration: { strategy: 'custom', run: (orchestrator) => allTheWayThrough(orchestrator, size.each) },
    enableBlackboard: true,
    supervision: {
      maxRestarts: Number.POSITIVE_INFINITY,
      backoff: { baseMs: 0, capMs: 0 },
      stopGraceMs: 50,
    },
    ...parts,
  })
}

/** Ends when the last number is through: an agent takes its messages in order. */
async function allTheWayThrough(orchestrator: OrchestratorContext, each: number): Promise<string> {
  await all(orchestrator.requestAll(LISTENERS, 'listen'))
  for (let from = 0; from < each; from += BATCH) {
    const structuredData: Order = { from, to: Math.min(from + BATCH, each) }
    await all(orchestrator.requestAll(SOURCES, 'go', { structuredData }))
  }
  const report = (names: string[]) => all(orchestrator.requestAll(names, REPORT))
  const workers = await report(WORKERS)
  const oracles = await report(ORACLES)
  const [till] = await report(['till'])
  const [sink] = await report(['sink'])
  const listeners = await report(LISTENERS)
  return JSON.stringify({ workers, oracles, till, sink, listeners })
}

async function all(asked: Promise<Outcome[]>): Promise<unknown[]> {
  return (await asked).map((outcome) => {
    if (!outcome.ok) throw outcome.error
    return outcome.message.structuredData
  })
}

/** Permits that are out, or wanted. */
export function permitsLeft({ host }: ChaosTeam): string[] {
  const wanted = Atomics.load(host.team.words, PERMITS_WANTED)
  return [
    ...host.directory.byIndex.filter(({ permit }) => permit).map(({ name }) => name),
    ...(wanted ? ['somebody waits'] : []),
  ]
}

/** What the log says of frames that came too late. */
class StaleFrames implements Logger {
  frames = 0
  debug(): void {}
  info(): void {}
  warn(fields: { frames?: number }): void {
    this.frames += fields.frames ?? 0
  }
  error(): void {}
}
