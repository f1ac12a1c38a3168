/**
 * Finds what agents have put into words in a run: their answers, and their blackboard entries. A fold over the run's
 * log.
 */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { entryLine, entryText } from '../../blackboard/entry-text.ts'
import { type Directory, isFailure, isMessage, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  END,
  kindOf,
  RESPONSE,
  RESULT,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'

/** Answer or blackboard entry of an agent. */
export interface Speech {
  agent: string
  /** Texts of the answer. An entry has two: as it stands on the board, and as a list of entries shows it. */
  texts: string[]
  entry?: BlackboardEntry
}

/** Returns the speeches in the order in which they were made. The script, the caller and the runtime have none. */
export function speechesIn(log: RunLog, directory: Pick<Directory, 'name'>, until: number): Speech[] {
  const speeches: Speech[] = []
  const writes = new Set<string>()
  for (const [memory, at] of framesOf(log, until)) {
    const kind = kindOf(memory, at)
    if (kind === CALL && readBody(memory, at).content === 'blackboard.write')
      writes.add(callOf(senderOf(memory, at), memory, at))
    else if (kind === RESULT && writes.delete(callOf(recipientOf(memory, at), memory, at)) && !isFailure(memory, at)) {
      const entry = jsonIn(readBody(memory, at).data) as BlackboardEntry
      speeches.push({ agent: entry.author, texts: [entryText(entry), entryLine(entry)], entry })
    } else if ((kind === END || kind === RESPONSE) && isMessage(memory, at) && !isFailure(memory, at)) {
      const { content, data } = readBody(memory, at)
      // An answer with data alone has no other words; strategies treat it the same way.
      speeches.push({ agent: directory.name(senderOf(memory, at)), texts: [content === '' ? (data ?? '') : content] })
    }
  }
  return speeches.filter(({ agent }) => !agent.startsWith('$'))
}

const callOf = (caller: number, memory: Memory, at: number) =>
  `${caller} ${turnOf(memory, at)} ${correlationOf(memory, at)}`
