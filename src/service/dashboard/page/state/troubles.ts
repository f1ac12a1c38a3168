/** Things that went wrong in the team, from what was seen live and from the newest tasks. */
import { useEffect } from 'preact/hooks'
import type { DigestFact } from '../../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../../digest/digest-fold.ts'
import { isToldLater } from '../../pictures/deadlocks.ts'
import { live, version } from './live.ts'
import { keep, knownFold } from './run-folds.ts'
import { tasks } from './tasks.ts'

export interface Trouble {
  readonly fact: DigestFact
  /** Digest that tells what came of it. */
  readonly fold: DigestFold
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

/** Returns what went wrong, the newest first. */
export function useTroubles(): Trouble[] {
  version.value
  const newest = tasks.value.slice(0, MOST_TASKS).map(({ id }) => id)
  useEffect(() => {
    for (const id of newest) keep(id)
  }, [newest.join()])
  const found = new Map<string, Trouble>()
  for (const fold of [live(), ...newest.flatMap((id) => knownFold(id) ?? [])])
    for (const fact of fold.facts) if (TYPES.has(fact.type)) found.set(`${fact.seq} ${fact.type}`, { fact, fold })
  const facts = [...found.values()].map(({ fact }) => fact)
  return [...found.values()]
    .filter(({ fact }) => !isToldLater(fact, facts))
    .sort((one, other) => other.fact.at - one.fact.at)
}

export interface CrashStory {
  /** Run whose message it handled; '' if it is not known. */
  readonly runId: string
  /** Time until the agent was ready again; undefined: it has not been. */
  readonly backAfterMs: number | undefined
  /** Message that was handled when it crashed was tried again in that attempt, with that outcome. */
  readonly again: { readonly attempt: number; readonly tookMs: number; readonly failed: boolean } | undefined
  /** True if a message lay on the agent. */
  readonly hadMessage: boolean
}

/** Returns what was done about a crash. */
export function storyOfCrash({ agent, at, seq }: DigestFact, { facts, agents, turns, names }: DigestFold): CrashStory {
  const ready = facts.find((fact) => fact.type === 'agent.ready' && fact.agent === agent && fact.seq > seq)
  const exit = facts.findLast(
    (fact) => fact.type === 'agent.exited' && fact.agent === agent && fact.seq <= seq && at - fact.at < 1_000,
  )
  const { columns, dropped } = turns
  const row = agents
    .get(String(agent))
    ?.turnRows.map((absolute) => absolute - dropped)
    .find((row) => columns.start.at(row) >= at - 1 && columns.attempt.at(row) > 1)
  return {
    runId: row === undefined ? '' : (names[columns.run.at(row)] ?? ''),
    backAfterMs: ready && ready.at - at,
    hadMessage: typeof exit?.messageId === 'string' || row !== undefined,
    again:
      row === undefined
        ? undefined
        : {
            attempt: columns.attempt.at(row),
            tookMs: columns.end.at(row) - columns.start.at(row),
            failed: columns.failed.at(row) > 0,
          },
  }
}
