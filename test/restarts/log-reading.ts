/** What a log says, read without the code that goes on with it. */
import { isFailure } from '../../src/mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  kindOf,
  lengthOf,
  RESULT,
  readBody,
  recipientOf,
  STEP_DONE,
  senderOf,
} from '../../src/mailbox/frame.ts'
import type { Block } from '../../src/runtime/store/log-files.ts'
import { entriesIn } from '../durability/log-entries.ts'

const KEY = /<([^<>]+)>/

/** Keys of the steps, calls of models and calls of tools whose outcome stands in the log. They are written <in brackets>. */
export function outcomesIn(blocks: Iterable<Block>): Set<string> {
  const done = new Set<string>()
  const calls = new Map<string, string>()
  for (const entry of entriesIn(blocks)) {
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      if (kind !== CALL && kind !== RESULT && kind !== STEP_DONE) continue
      const { content, data } = readBody(memory, at)
      if (kind === CALL) {
        const key = KEY.exec(data ?? '')?.[1]
        if (key && (content === 'model' || content === 'tool'))
          calls.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, key)
      } else if (!isFailure(memory, at)) {
        const key =
          kind === RESULT
            ? calls.get(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`)
            : KEY.exec(content)?.[1]
        if (key) done.add(key)
      }
    }
  }
  return done
}

/** Ids of the runs whose end stands in the log. */
export function endedIn(blocks: Iterable<Block>): string[] {
  const ids = new Map<number, string>()
  const ended: string[] = []
  for (const entry of entriesIn(blocks)) {
    if (entry.kind === 'run.launched') ids.set(entry.run, entry.id)
    if (entry.kind === 'run.finished') ended.push(ids.get(entry.run) ?? '')
  }
  return ended
}
