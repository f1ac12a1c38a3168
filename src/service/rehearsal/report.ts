/** Reports of a rehearsal: a table of outcomes, the failures, the shortest run that shows one, and how to replay it. */
import type { ErrorData } from '../../errors.ts'
import { sequenceDiagram } from '../../index.ts'
import { type Fault, KINDS, tally } from '../../rehearsal.ts'
import { errorLine, groupsOf } from './failure-groups.ts'
import { type Failure, isFailure, type Played } from './job.ts'

const MOST_GROUPS = 10
const MOST_SEEDS = 8

/** The command that plays a seed. */
export type Replay = (seed: number) => string

/** Returns the report on many seeds. `shown`: the shortest failure, with its trace; `faults`: those that could come. */
export function rehearsalReport(
  played: readonly Played[],
  shown: Failure | undefined,
  replay: Replay,
  faults: readonly Fault[],
): string {
  const failures = played.filter(isFailure)
  const parts = [table(played), groups(failures)]
  if (shown) {
    const { seed, messages } = shown
    parts.push(`The shortest run that is not done is that of seed ${seed}, with ${messages} messages:`)
    parts.push(diagramOf(shown))
    parts.push(faultsOf(shown))
    parts.push(`Play it again:\n  ${replay(seed)}`)
  } else if (failures[0]) parts.push(`Play the first of them again:\n  ${replay(failures[0].seed)}`)
  return textOf(parts, faults)
}

/** Returns the report on one seed, with its trace. */
export function seedReport(played: Played, faults: readonly Fault[]): string {
  const { seed, kind, error } = played
  const parts = [diagramOf(played), faultsOf(played), `Seed ${seed}: ${kind}${error ? `: ${errorLine(error)}` : ''}`]
  return textOf(parts, faults)
}

/** A rehearsal in which nothing could go wrong proves less than it seems to. */
function textOf(parts: readonly string[], faults: readonly Fault[]): string {
  const last = faults.length === 0 ? ['No faults were played: --faults plays crash,delay,duplicate.'] : []
  return `${[...parts, ...last].filter((part) => part !== '').join('\n\n')}\n`
}

function diagramOf({ trace }: Played): string {
  return trace ? sequenceDiagram(trace).trimEnd() : ''
}

/** Describes the injected faults, with their times. */
function faultsOf({ faults, trace }: Played): string {
  if (faults.length === 0) return 'No faults.'
  const began = trace?.messageFlow[0]?.at ?? 0
  const injected = faults.map(
    ({ fault, agent, at }) => `  ${fault} of ${agent}, ${Math.round(at - began)} ms after the begin`,
  )
  return `Faults:\n${injected.join('\n')}`
}

function table(played: readonly Played[]): string {
  const counts = tally(played)
  const width = String(Math.max(...Object.values(counts))).length
  const rows = KINDS.map((kind) => `${kind.padEnd(10)}${String(counts[kind]).padStart(width)}`)
  return [`${played.length} runs`, '', ...rows].join('\n')
}

function groups(failures: readonly Failure[]): string {
  const all = groupsOf(failures)
  const rows = all.slice(0, MOST_GROUPS).map(({ words, seeds }) => `${seeds.length} x ${words}\n  ${seedList(seeds)}`)
  if (all.length > MOST_GROUPS) rows.push(`and ${all.length - MOST_GROUPS} more kinds of failure (see --json)`)
  return rows.join('\n')
}

function seedList(seeds: readonly number[]): string {
  const first = seeds.slice(0, MOST_SEEDS).join(', ')
  return `${seeds.length === 1 ? 'seed' : 'seeds'} ${first}${seeds.length > MOST_SEEDS ? ', ...' : ''}`
}

/** The same as data. */
export function rehearsalData(played: readonly Played[], shown: Failure | undefined, replay: Replay): object {
  const failures = played.filter(isFailure).map(({ seed, kind, error, messages, faults }) => {
    return { seed, outcome: kind, error: plain(error), messages, faults, replay: replay(seed) }
  })
  return {
    runs: played.length,
    outcomes: tally(played),
    failures,
    shortest: shown ? shortestData(shown, replay) : null,
  }
}

function shortestData(shown: Failure, replay: Replay): object {
  const { seed, faults } = shown
  return { seed, diagram: diagramOf(shown), faults, replay: replay(seed) }
}

/** Returns the outcome of one seed as data. */
export function seedData({ seed, kind, error, messages, faults, refused, trace }: Played): object {
  return { seed, outcome: kind, error: error && plain(error), messages, faults, refused, trace }
}

const plain = ({ code, message, details }: ErrorData) => ({ code, message, details })
