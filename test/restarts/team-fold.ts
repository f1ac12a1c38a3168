/** What a log says of a team, as a later process reads it, beside what the team itself has. */
import { oldFacts } from '../../src/runtime/durability/old-facts.ts'
import { OldLog } from '../../src/runtime/durability/old-log.ts'
import type { TeamParts } from '../../src/runtime/durability/restored-owners.ts'
import { teamFacts } from '../../src/runtime/durability/team-facts.ts'
import type { Unrecorded } from '../../src/runtime/log/records.ts'
import type { StoredBlock } from '../../src/runtime/store/log-store.ts'
import type { Supervisor } from '../../src/runtime/supervision/supervisor.ts'

/** Where the fold of the log and the team do not agree. All that the team has logged must be written. */
export async function unfoldedFacts(
  blocks: readonly StoredBlock[],
  host: Supervisor,
  parts: TeamParts,
): Promise<string[]> {
  const old = await OldLog.from(() => stored(blocks), parts.budgets.windowMs)
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
