/** Reports on old runs that were played with the code of today: what became of each, and what differs. */
import type { ErrorData } from '../../errors.ts'
import { sequenceDiagram } from '../../index.ts'
import { jsonText } from '../json-text.ts'
import { oneLine } from '../one-line.ts'
import { errorLine } from './failure-groups.ts'
import type { PlayedOld } from './job.ts'

/** An old run that could not be played. */
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

/** Returns the report on one run, with the diagram of its play. */
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

/** The same as data. */
export function oldRunsText(outcomes: readonly OldOutcome[]): string {
  const same = outcomes.filter(isSame).length
  return jsonText({ runs: outcomes.length, same, different: outcomes.length - same, results: outcomes })
}
