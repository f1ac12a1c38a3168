/** Facts of the team as its log has them, for who looks after a log without its team. */
import type { GivenTurn } from '../log/records.ts'
import type { OldLog } from './old-log.ts'
import type { Fact } from './team-facts.ts'

/**
 * Time for which model calls are counted by who does not know the window of the team (`budget.perTeam`): longer windows
 * lose what is older.
 */
export const LONGEST_WINDOW_MS = 31 * 86_400_000

interface Options {
  /** Selects the runs whose open turns, and whose agents, are among the facts. */
  isKept?: (run: number) => boolean
  /** Added to all numbers that were used: how many more the log may have had. */
  margin?: number
}

/** Returns the numbers of the records of the team that are carried under them (see `Compactor`). */
export const carriedRecords = ({ left, parts, referrers }: OldLog): ReadonlySet<number> =>
  new Set([...Array.from(left.values(), ({ seq }) => seq), ...parts.needed(referrers)])

/** Yields all facts of the team. */
export function* oldFacts(
  old: OldLog,
  now: number,
  { isKept = () => true, margin = 0 }: Options = {},
): Generator<Fact> {
  const { counters, lastHostNumber, lastRun, names, states, team, work } = old
  const known = new Set([...counters.keys(), ...names.keys()])
  const agents = Array.from(known, (index) => {
    const { turn, correlation, epoch } = counters.get(index) ?? { turn: 0, correlation: 0, epoch: 0 }
    return { index, turn: turn + margin, correlation: correlation + margin, epoch: epoch + margin }
  })
  yield { kind: 'numbers', agents, lastHostNumber: lastHostNumber - margin, lastRun: lastRun + margin }
  for (const [index, { name, run }] of names) if (run === 0 && name !== '') yield { kind: 'name', index, name }
  const turns: GivenTurn[] = []
  for (const { run, recipient, turn, attempt, id } of work.messages())
    if (turn > 0 && isKept(run)) turns.push([recipient, turn, attempt, id])
  yield { kind: 'turns', turns, again: true }
  for (const { index, name, role, by } of team.joined.values()) yield { kind: 'agent.joined', index, name, role, by }
  // An agent of a run goes with its run: the next one in its place begins without what it had.
  const isThere = (index: number) => {
    const { run } = names.get(index) ?? { run: 0 }
    return run === 0 || isKept(run)
  }
  for (const [index, value] of states.ofAgents) if (isThere(index)) yield { kind: 'state', index, value }
  for (const [threadId, owner] of states.conversations.owners.all()) yield { kind: 'thread', threadId, owner }
  for (const { agent: index, threadId, conversation } of states.conversations.all())
    if (isThere(index)) yield { kind: 'conversation', index, threadId, conversation }
  for (const { kind, scope, owner, key, version, value } of team.shared)
    if (owner === undefined) yield { kind, scope, key, version, value }
    else if (isThere(owner)) yield { kind, scope, owner, key, version, value }
  let nth = 0
  for (const entry of team.board) yield { kind: 'blackboard', entry, nth: nth++ }
  for (const { letter, bytes } of team.letters.entries) yield { kind: 'letter', letter, bytes }
  yield* team.payments.facts(now)
  yield* old.index.keyFacts()
}
