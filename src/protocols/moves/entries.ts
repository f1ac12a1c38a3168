/** Blackboard entries as text for the next reader, and one entry as a result. */
import type { ScriptResult } from '../../actors/definition/protocol.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { entryLine, entryText } from '../../blackboard/entry-text.ts'

/** Returns one line per entry: its key, type, author and value. */
export function entriesAsText(entries: readonly BlackboardEntry[]): string {
  return entries.map((entry) => `- ${entryLine(entry)}`).join('\n')
}

/** Returns the value of an entry: a text as it is, anything else as data with its JSON as content. */
export function resultOfEntry(entry: BlackboardEntry): ScriptResult {
  return typeof entry.value === 'string' ? entry.value : { content: entryText(entry), structuredData: entry.value }
}

/** Returns the first entry with the highest confidence. The list must not be empty. */
export function surest(entries: readonly BlackboardEntry[]): BlackboardEntry {
  return entries.reduce((best, entry) => (entry.confidence > best.confidence ? entry : best))
}
