/** Rare events in short, as JSON: for those who watch a whole team, and ask for the rest when they want it. */
import { DramatisError } from '../../errors.ts'
import type { HostRecord } from '../log/records.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { DigestFact } from './digest-line.ts'

/** Records that are rows of the digest's tables, or too many for it. */
const NO_FACTS: ReadonlySet<HostRecord['kind']> = new Set([
  'turn.started',
  'model.piece',
  'model.superseded',
  'model.called',
  'tool.started',
  'tool.finished',
  'tool.progress',
])

/** Checks whether a record can be a fact: no event need be made of others. */
export const mayBeFact = ({ kind }: HostRecord): boolean => !NO_FACTS.has(kind)

const LONGEST_TEXT = 200
const MOST_ITEMS = 20
const DEEPEST = 4

/** Returns an event in short; undefined if it is none to tell. `shown` makes a text that may leave the team. */
export function factOf(event: RuntimeEvent<unknown>, shown: Shown): DigestFact | undefined {
  if (event.type === 'guardrail' && event.outcome === 'passed') return undefined
  const told = event.type === 'run.finished' ? { ...event, result: resultInShort(event.result) } : event
  return short(told, shown) as DigestFact
}

type Shown = (text: string) => string

/** Reads no part of a result that is folded from the log when it is read. */
function resultInShort({ success, finalOutput, error, executionTimeMs, totalTokenUsage, failures }: Result): object {
  return { success, finalOutput, error, executionTimeMs, totalTokenUsage, failures: failures.length }
}

type Result = MultiAgentResult<unknown>

/** Returns a copy as JSON in which long texts and lists are cut, and what lies deep is left out. */
function short(value: unknown, shown: Shown, depth = 0): unknown {
  if (typeof value === 'string') return cut(shown(value))
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof DramatisError) return { code: value.code, message: cut(shown(value.message)) }
  if (depth === DEEPEST) return CUT
  if (Array.isArray(value)) return value.slice(0, MOST_ITEMS).map((item) => short(item, shown, depth + 1))
  const entries = Object.entries(value).slice(0, MOST_ITEMS)
  return Object.fromEntries(entries.map(([key, item]) => [shown(key), short(item, shown, depth + 1)]))
}

const CUT = '…'

const cut = (text: string): string => (text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}${CUT}` : text)
