/** Reports of a rehearsal: a table of outcomes, the failures, the shortest run that shows one, and how to replay it. */

import { sequenceDiagram } from '../../index.ts'
import { type Fault, KINDS, tally } from '../../rehearsal.ts'
import type { ErrorData } from '../../shared/errors.ts'
import { oneLine } from '../shared/failure.ts'
import { jsonText } from '../shared/json-text.ts'
import { errorLine, type Failure, groupsOf, isFailure, type Played, type PlayedOld } from './job.ts'

export interface UnplayedOld {
  runId: string
  error: ErrorData
}

export type OldOutcome = PlayedOld | UnplayedOld

const MOST_DIFFERENCES = 10
const LONGEST_OUTPUT = 200
const LONGEST_SENTENCE = 600

export const isSame = (outcome: OldOutcome): boolean => 'mismatches' in outcome && outcome.mismatches.length === 0

/** Returns the report on several runs. `replay`: the command that plays one alone. */
export function oldRunsReport(outcomes: readonly OldOutcome[], replay: (runId: string) => string): string {
  const others = outcomes.filter((outcome) => !isSame(outcome))
  const unplayed = others.filter((outcome) => 'error' in outcome).length
  const counts = { same: outcomes.length - others.length, different: others.length - unplayed, 'not played': unplayed }
  const width = String(outcomes.length).length
  const table = Object.entries(counts).map(([name, count]) => `${name.padEnd(12)}${String(count).padStart(width)}`)
  const parts = [`${outcomes.length} ${outcomes.length === 1 ? 'run' : 'runs'}\n\n${table.join('\n')}`]
  for (const outcome of others) parts.push(differencesOf(outcome, MOST_DIFFERENCES))
  const [first] = others
  if (first) parts.push(`Play the first of them alone:\n  ${replay(first.runId)}`)
  return `${parts.join('\n\n')}\n`
}

export function oldRunReport(outcome: OldOutcome): string {
  const diagram = 'trace' in outcome && outcome.trace ? `${sequenceDiagram(outcome.trace).trimEnd()}\n\n` : ''
  return `${diagram}${differencesOf(outcome, Number.POSITIVE_INFINITY)}\n`
}

function differencesOf(outcome: OldOutcome, most: number): string {
  const id = oneLine(outcome.runId)
  if ('error' in outcome) return `${id}: not played: ${errorLine(outcome.error)}`
  const { before, now, mismatches } = outcome
  const ends = `  then: ${endOf(before)}\n  now:  ${endOf({ ...now, status: now.success ? 'finished' : 'failed' })}`
  if (mismatches.length === 0) return `${id}: the same as then\n${ends}`
  const lines = mismatches.slice(0, most).map(({ sentence }) => `  - ${oneLine(sentence, LONGEST_SENTENCE)}`)
  if (mismatches.length > most) lines.push(`  and ${mismatches.length - most} more`)
  const count = `${mismatches.length} ${mismatches.length === 1 ? 'difference' : 'differences'}`
  return `${id}: ${count}\n${ends}\n${lines.join('\n')}`
}

function endOf({ status, error, finalOutput }: Pick<PlayedOld['before'], 'status' | 'error' | 'finalOutput'>): string {
  const words = error ? `${error.code}: ${error.message}` : (finalOutput ?? '')
  return `${status}${words === '' ? '' : `: ${oneLine(words, LONGEST_OUTPUT)}`}`
}

export function oldRunsText(outcomes: readonly OldOutcome[]): string {
  const same = outcomes.filter(isSame).length
  return jsonText({ runs: outcomes.length, same, different: outcomes.length - same, results: outcomes })
}

const MOST_GROUPS = 10
const MOST_SEEDS = 8

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

export function seedData({ seed, kind, error, messages, faults, refused, trace }: Played): object {
  return { seed, outcome: kind, error: error && plain(error), messages, faults, refused, trace }
}

const plain = ({ code, message, details }: ErrorData) => ({ code, message, details })
