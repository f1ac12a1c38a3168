/** Things that went wrong in the team, from what was seen live and from the newest tasks. */
import { useEffect } from 'preact/hooks'
import type { DigestFact } from '../../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../../digest/digest-fold.ts'
import { isToldLater } from '../../pictures/deadlocks.ts'
import { live, version } from './live.ts'
import { keep, knownFold } from './run-folds.ts'
import { team } from './session.ts'
import { tasks } from './tasks.ts'

export interface Troubles {
  /** Facts of what went wrong, the newest first. */
  readonly facts: readonly DigestFact[]
  /** Digests that tell what came of it. */
  readonly folds: readonly DigestFold[]
}

const TYPES: ReadonlySet<string> = new Set([
  'agent.crashed',
  'message.dead',
  'deadlock',
  'livelock',
  'stall',
  'step.mismatch',
  'budget',
  'limit.reached',
])
/** Tasks whose history is asked for. */
const MOST_TASKS = 12

/** Facts that are kept at most, and of which team and log they are. */
const MOST_FACTS = 5_000
let kept = { of: '', facts: new Map<string, DigestFact>() }

/**
 * Returns what went wrong, with what earlier looks have found: a task that is no longer among the newest takes nothing
 * back.
 */
export function useTroubles(): Troubles {
  version.value
  const newest = tasks.value.slice(0, MOST_TASKS).map(({ id }) => id)
  useEffect(() => {
    for (const id of newest) keep(id)
  }, [newest.join()])
  const folds = [live(), ...newest.flatMap((id) => knownFold(id) ?? [])]
  const of = `${team.value} ${live().log}`
  if (kept.of !== of) kept = { of, facts: new Map() }
  for (const { facts } of folds)
    for (const fact of facts) if (TYPES.has(fact.type)) kept.facts.set(`${fact.seq} ${fact.type}`, fact)
  for (const key of [...kept.facts.keys()].slice(0, Math.max(0, kept.facts.size - MOST_FACTS))) kept.facts.delete(key)
  const all = [...kept.facts.values()]
  return { folds, facts: all.filter((fact) => !isToldLater(fact, all)).sort((one, other) => other.at - one.at) }
}
