/** Text of an entry. Strategies write it for their readers, and the same text finds the entry again in an answer. */
import type { BlackboardEntry } from './entry.ts'

/** Returns the value of an entry: a text as it is, anything else as JSON. */
export function entryText({ value }: Pick<BlackboardEntry, 'value'>): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Returns the key, type, author and value of an entry in one line. */
export function entryLine(entry: BlackboardEntry): string {
  return `${entry.key} (${entry.entryType} by ${entry.author}): ${entryText(entry)}`
}
