/** Texts of messages in lists: the digest has their sizes alone, so those in sight are asked for, many at a time. */
import { type Signal, signal } from '@preact/signals'
import type { TaskMessage } from '../http/schemas.ts'
import { live } from './live.ts'
import { ask } from './service.ts'

/** Text of a message; undefined as long as it is not known, null if the log has given it up. */
type Text = Signal<string | null | undefined>

const MOST_KEPT = 10_000
/** Time for which rows are in sight before their texts are asked for: a hand that scrolls passes many. */
const PAUSE_MS = 150
const PAGE = 100
const MOST_PAGES = 5
const LONGEST = 400
/** Events that one entry of the log can have: its message has a number of its own among them. */
export const EVENTS = 8

const known = new Map<string, Text>()
/** Numbers of messages that are to be asked for, by task. */
const wanted = new Map<string, Set<number>>()

/** Returns the text of the message of a task with that number, and asks for it if nobody has. */
export function messageText(id: string, n: number): Text {
  const key = `${id} ${n}`
  const found = known.get(key)
  if (found) return found
  const text: Text = signal(undefined)
  known.set(key, text)
  for (const oldest of [...known.keys()].slice(0, Math.max(0, known.size - MOST_KEPT))) known.delete(oldest)
  if (wanted.size === 0) setTimeout(() => void askAll(), PAUSE_MS)
  wanted.set(id, (wanted.get(id) ?? new Set()).add(n))
  return text
}

async function askAll(): Promise<void> {
  const all = [...wanted]
  wanted.clear()
  for (const [id, numbers] of all) {
    await askTexts(id, numbers).catch(() => {}) // the banner says that nobody answers
    for (const n of numbers) settle(id, n, null)
  }
}

/** Asks for the texts, page by page, and takes out the numbers that were found. */
async function askTexts(id: string, numbers: Set<number>): Promise<void> {
  const { log } = live()
  for (let page = 0; page < MOST_PAGES && numbers.size > 0 && log !== null; page++) {
    const query = { after: `${log}.${Math.min(...numbers) * EVENTS + 1}`, limit: String(PAGE) }
    const { messages } = await ask<{ messages: TaskMessage[] }>(`api/tasks/${encodeURIComponent(id)}/messages`, {
      query,
    })
    const last = Math.max(-1, ...messages.map(numberOf))
    for (const message of messages)
      if (numbers.delete(numberOf(message))) settle(id, numberOf(message), textOf(message))
    for (const n of numbers) {
      if (messages.length === PAGE && n > last) continue
      numbers.delete(n)
      settle(id, n, null)
    }
  }
}

const numberOf = ({ eventId }: TaskMessage): number => Math.floor(Number(eventId.split('.').at(-1)) / EVENTS)

function settle(id: string, n: number, text: string | null): void {
  const found = known.get(`${id} ${n}`)
  if (found) found.value = text
}

/** A message without words has data. */
function textOf({ content, structuredData }: TaskMessage): string {
  if (content !== '') return content.slice(0, LONGEST)
  return structuredData ? JSON.stringify(structuredData).slice(0, LONGEST) : '(no text)'
}
