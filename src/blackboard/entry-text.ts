/** An entry in words: what a strategy writes for its readers is what finds the entry again in an answer. */
import type { BlackboardEntry } from './entry.ts'

/** Its value: a text as it is, anything else as JSON. */
export function entryText({ value }: Pick<BlackboardEntry, 'value'>): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Its key, what it is, who wrote it, and its value. */
export function entryLine(entry: BlackboardEntry): string {
  return `${entry.key} (${entry.entryType} by ${entry.author}): ${entryText(entry)}`
}
