/**
 * Patterns of a JSON schema that a stranger wrote. RE2 matches in time linear in the text and in the pattern. It knows
 * no look-around and no back references, and is loaded when the first such pattern comes.
 */
import type { RE2JS } from 're2js'
import { regexes } from 'zod'

/** Tells whether a text has a match. `steps` is the work that one character of a text costs at most. */
export interface Pattern {
  readonly steps: number
  test(text: string): boolean
}

export type Patterns = (source: string) => Pattern

/** Maximum characters of a pattern, and of its parts once they are repeated as often as `{n}` says. */
const MOST_IN_PATTERN = 2_000

/** The engine that backtracks, for patterns of the program itself. */
export const ownPatterns: Patterns = (source) => {
  const pattern = new RegExp(source, 'u')
  return { steps: 1, test: (text) => pattern.test(text) }
}

/** Returns why a pattern is none of JSON Schema, or too large to be read; undefined if it may be read. */
export function faultOf(source: string): string | undefined {
  return ofZod(source) ? undefined : (syntaxFaultOf(source) ?? sizeFaultOf(source))
}

export const isPattern = (value: unknown): value is string =>
  typeof value === 'string' && syntaxFaultOf(value) === undefined

function syntaxFaultOf(source: string): string | undefined {
  try {
    new RegExp(source, 'u')
    return undefined
  } catch (error) {
    const { message } = error as Error // it repeats the pattern before it says what is wrong
    return message.slice(message.lastIndexOf(': ') + 2)
  }
}

function sizeFaultOf(source: string): string | undefined {
  const size = sizeOf(source)
  if (size <= MOST_IN_PATTERN) return undefined
  return `it has ${size} parts with all repetitions, and at most ${MOST_IN_PATTERN} are possible`
}

let engine: typeof RE2JS | undefined

/** Resolves to what makes patterns of strangers. It throws for a pattern that RE2 does not know. */
export async function loadPatterns(): Promise<Patterns> {
  engine ??= (await import('re2js')).RE2JS
  return foreignPatterns()!
}

/** Returns the same if it is loaded, as it is once a stranger's pattern has come. */
function foreignPatterns(): Patterns | undefined {
  const found = engine
  return found && ((source) => ofZod(source) ?? inRe2(found, source))
}

/**
 * Returns what makes patterns of anybody: one that RE2 does not know is the program's own, as others are refused. One
 * that is no regular expression at all is left out of checks, so every text matches it.
 */
export function anyPatterns(): Patterns {
  const foreign = foreignPatterns() ?? ownPatterns
  const made = new Map<string, Pattern>()
  return (source) => {
    const pattern = made.get(source) ?? orOwn(foreign, source)
    made.set(source, pattern)
    return pattern
  }
}

function orOwn(foreign: Patterns, source: string): Pattern {
  if (!isPattern(source)) return { steps: 1, test: () => true }
  try {
    return foreign(source)
  } catch {
    return ownPatterns(source)
  }
}

function inRe2(re2: typeof RE2JS, source: string): Pattern {
  const fault = sizeFaultOf(source)
  if (fault !== undefined) throw new Error(fault)
  const pattern = re2.compile(re2.translateRegExp(source))
  return { steps: pattern.programSize(), test: (text) => pattern.test(text) }
}

/** Patterns that zod writes for its formats, such as that of an e-mail address: some look ahead, and all are quick. */
function ofZod(source: string): Pattern | undefined {
  const known = Object.values(regexes).find((each) => each instanceof RegExp && each.source === source)
  if (!(known instanceof RegExp)) return undefined
  return { steps: 1, test: (text) => text.length <= LONGEST_OF_ZOD && known.test(text) }
}

const LONGEST_OF_ZOD = 2_048

/** Returns how many parts a pattern has when each repetition is written out, as RE2 does. */
export function sizeOf(source: string): number {
  const groups = [{ size: 0, last: 0 }]
  const parts = /\\(?:[pPu]\{[^}]*\}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|./gs
  for (const [part, least, most] of source.matchAll(parts)) {
    const group = groups.at(-1)!
    const closed = part === ')' && groups.length > 1 ? groups.pop()! : undefined
    const into = groups.at(-1)!
    if (part === '(') groups.push({ size: 0, last: 0 })
    else if (closed) add(into, closed.size + 1)
    else if (least !== undefined) group.size += group.last * (Math.max(Number(least), Number(most || 0), 1) - 1)
    else add(group, 1)
  }
  return groups.reduce((sum, { size }) => sum + size, 0)
}

function add(group: { size: number; last: number }, size: number): void {
  group.size += size
  group.last = size
}
