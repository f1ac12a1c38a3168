/** What a log says of a team, as a later process reads it, beside what the team itself has. */

import type { OpenMessage } from '../../src/runtime/durability/open-work.ts'
import { logSince, oldFacts, RecoveredLog } from '../../src/runtime/durability/recovered-log.ts'
import type { LoggedRun } from '../../src/runtime/durability/run-index.ts'
import { Slices } from '../../src/runtime/durability/slices.ts'
import { type TeamParts, teamFacts } from '../../src/runtime/durability/team-facts.ts'
import type { Unrecorded } from '../../src/runtime/log/records.ts'
import type { ReadOptions, StoredBlock } from '../../src/runtime/store/log-files.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import type { Disk } from './mortal-store.ts'

/**
 * Where the fold of the log and the team do not agree, and that of its last checkpoint with what stands behind. All that
 * the team has logged must be written.
 */
export async function unfoldedFacts(disk: Disk, host: Supervisor, parts: TeamParts): Promise<string[]> {
  const { windowMs } = parts.budgets
  const read = ({ from = 0 }: ReadOptions = {}) => stored(disk.blocks.filter(({ position }) => position >= from))
  const old = await RecoveredLog.from(read, windowMs)
  const differences = differencesOf(old, host, parts)
  const checkpoint = disk.found
  if (!checkpoint) return differences
  const since = await logSince(checkpoint, { read }, windowMs, new Slices(host.clock))
  const open = (log: RecoveredLog) =>
    JSON.stringify([[...log.runs.keys()].sort(), [...log.work.messages()].map(told).sort()])
  if (open(since) !== open(old)) differences.push(`by the checkpoint ${open(since)} is open, and not ${open(old)}`)
  const runs = (log: RecoveredLog) => JSON.stringify(Array.from(log.index.values(), toldRun).sort())
  if (runs(since) !== runs(old)) differences.push(`by the checkpoint there are ${runs(since)}, and not ${runs(old)}`)
  return [...differences, ...differencesOf(since, host, parts).map((what) => `by the checkpoint ${what}`)]
}

const told = ({ id, run, recipient, turn, attempt, handedOff }: OpenMessage): string =>
  [id, run, recipient, turn, attempt, handedOff].join(' ')

const toldRun = ({ id, query, status, endedAt, usage, open }: LoggedRun): string =>
  JSON.stringify([id, query, status, endedAt, usage, open])

function differencesOf(old: RecoveredLog, host: Supervisor, parts: TeamParts): string[] {
  const live = textsOf(teamFacts(host, parts))
  const read = textsOf(oldFacts(old, host.clock.now()))
  return [
    ...[...live].filter((fact) => !read.has(fact)).map((fact) => `the log lacks ${fact}`),
    ...[...read].filter((fact) => !live.has(fact)).map((fact) => `the log has ${fact}, and the team has not`),
  ]
}

async function* stored(blocks: readonly StoredBlock[]): AsyncGenerator<StoredBlock> {
  yield* blocks
}

/** Numbers and turns go on while the log is read. */
const MOVING: ReadonlySet<Unrecorded['kind']> = new Set(['numbers', 'turns'])

const textsOf = (facts: Iterable<Unrecorded>): Set<string> =>
  new Set(Array.from(facts).flatMap((fact) => (MOVING.has(fact.kind) ? [] : textOf(fact))))

/** The same for a fact that was logged: then it has numbers, too. */
function textOf(fact: Unrecorded): string[] {
  if (fact.kind === 'budget.window') return fact.paid.map((paid) => `a payment ${JSON.stringify(paid)}`)
  const { seq: _seq, at: _at, run: _run, ...fields } = { seq: 0, at: 0, run: 0, ...fact }
  return [JSON.stringify(fields, Object.keys(fields).sort().concat(everyKeyIn(fields)))]
}

/** All keys at any depth, in their order: objects are the same in whatever order they have their fields. */
function everyKeyIn(value: unknown, keys = new Set<string>()): string[] {
  if (typeof value === 'object' && value !== null)
    for (const [key, inner] of Object.entries(value)) {
      keys.add(key)
      everyKeyIn(inner, keys)
    }
  return [...keys].sort()
}
