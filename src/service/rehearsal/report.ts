/** What a rehearsal says: a table of outcomes, what went wrong, the shortest run that shows it, and how to play it again. */
import type { ErrorData } from '../../errors.ts'
import { sequenceDiagram } from '../../index.ts'
import { KINDS, tally } from '../../rehearsal.ts'
import { oneLine } from '../one-line.ts'
import { type Failure, isFailure, type Played } from './job.ts'

const MOST_GROUPS = 10
const MOST_SEEDS = 8
const LONGEST_ERROR = 400

/** The command that plays a seed. */
export type Replay = (seed: number) => string

/** Of many seeds. `shown`: the shortest failure, with its trace. */
export function rehearsalReport(played: readonly Played[], shown: Failure | undefined, replay: Replay): string {
  const failures = played.filter(isFailure)
  const parts = [table(played), groups(failures)]
  if (shown) {
    const { seed, messages } = shown
    parts.push(`The shortest run that is not done is that of seed ${seed}, with ${messages} messages:`)
    parts.push(diagramOf(shown))
    parts.push(`Play it again:\n  ${replay(seed)}`)
  } else if (failures[0]) parts.push(`Play the first of them again:\n  ${replay(failures[0].seed)}`)
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

/** Of one seed, with its trace. */
export function seedReport(played: Played): string {
  const { seed, kind, error, faults, trace } = played
  const began = trace?.messageFlow[0]?.at ?? 0
  const injected = faults.map(
    ({ fault, agent, at }) => `  ${fault} of ${agent}, ${Math.round(at - began)} ms after the begin`,
  )
  const parts = [
    diagramOf(played),
    injected.length === 0 ? 'No faults.' : `Faults:\n${injected.join('\n')}`,
    `Seed ${seed}: ${kind}${error ? `: ${words(error)}` : ''}`,
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

function diagramOf({ trace }: Played): string {
  return trace ? sequenceDiagram(trace).trimEnd() : ''
}

function table(played: readonly Played[]): string {
  const counts = tally(played)
  const width = String(Math.max(...Object.values(counts))).length
  const rows = KINDS.map((kind) => `${kind.padEnd(10)}${String(counts[kind]).padStart(width)}`)
  return [`${played.length} runs`, '', ...rows].join('\n')
}

/** Failures of the same words together, the most frequent first. */
function groups(failures: readonly Failure[]): string {
  const byWords = new Map<string, number[]>()
  for (const { seed, error } of failures) {
    const text = words(error).replaceAll(/\bseed \d+\b/gi, 'The seed')
    byWords.set(text, [...(byWords.get(text) ?? []), seed])
  }
  const sorted = [...byWords].sort(([, a], [, b]) => b.length - a.length || a[0]! - b[0]!)
  const rows = sorted.slice(0, MOST_GROUPS).map(([text, seeds]) => `${seeds.length} x ${text}\n  ${seedList(seeds)}`)
  if (sorted.length > MOST_GROUPS) rows.push(`and ${sorted.length - MOST_GROUPS} more kinds of failure (see --json)`)
  return rows.join('\n')
}

function seedList(seeds: readonly number[]): string {
  const first = seeds.slice(0, MOST_SEEDS).join(', ')
  return `${seeds.length === 1 ? 'seed' : 'seeds'} ${first}${seeds.length > MOST_SEEDS ? ', ...' : ''}`
}

const words = ({ code, message }: ErrorData) => `${code}: ${oneLine(message, LONGEST_ERROR)}`

/** The same as data. */
export function rehearsalData(played: readonly Played[], shown: Failure | undefined, replay: Replay): object {
  const failures = played.filter(isFailure).map(({ seed, kind, error, messages, faults }) => {
    return { seed, outcome: kind, error: plain(error), messages, faults, replay: replay(seed) }
  })
  return {
    runs: played.length,
    outcomes: tally(played),
    failures,
    shortest: shown ? { seed: shown.seed, diagram: diagramOf(shown), replay: replay(shown.seed) } : null,
  }
}

/** Of one seed. */
export function seedData({ seed, kind, error, messages, faults, refused, trace }: Played): object {
  return { seed, outcome: kind, error: error && plain(error), messages, faults, refused, trace }
}

const plain = ({ code, message, details }: ErrorData) => ({ code, message, details })
