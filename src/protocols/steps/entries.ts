/** Entries of a blackboard as text for the next reader, and one of them as a result. */
import type { ScriptResult } from '../../actors/definition/protocol.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { entryLine, entryText } from '../../blackboard/entry-text.ts'

/** One line an entry: its key, what it is, who wrote it, and its value. */
export function entriesAsText(entries: readonly BlackboardEntry[]): string {
  return entries.map((entry) => `- ${entryLine(entry)}`).join('\n')
}

/** The value of an entry: a text as it is, anything else as data with its JSON for words. */
export function resultOfEntry(entry: BlackboardEntry): ScriptResult {
  return typeof entry.value === 'string' ? entry.value : { content: entryText(entry), structuredData: entry.value }
}

/** The one with the highest confidence; of several the first. There has to be one. */
export function surest(entries: readonly BlackboardEntry[]): BlackboardEntry {
  return entries.reduce((best, entry) => (entry.confidence > best.confidence ? entry : best))
}
