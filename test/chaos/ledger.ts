/**
 * What became of each message, read from the frames themselves as they come into the log. It asks nothing of the
 * mailboxes: they are what it is held against.
 */
import { errorOf } from '../../src/mailbox/codec.ts'
import type { DeadLetter } from '../../src/mailbox/dead-letters.ts'
import {
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  idOf,
  kindOf,
  LOG_ONLY,
  lengthOf,
  type Memory,
  NOBODY,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  SEND,
  senderOf,
  stepOf,
} from '../../src/mailbox/frame.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import type { ChaosTeam } from '../fixtures/chaos-team.ts'

/** What became of one message for one recipient. */
export interface Posted {
  /** How it begins. */
  content: string
  recipient: string
  sent: number
  commits: number
  /** Turns of it that ended in an error for good. */
  failures: number
  /** Why it is dead: a reason, and the code of the error if that says more. */
  letters: string[]
}

export class Ledger {
  readonly #team: ChaosTeam
  /** By id and recipient: what is told to several has one id. */
  readonly #posted = new Map<string, Posted>()
  /** Requests and their answers, by who asked and its number for that. */
  readonly #asked = new Map<string, { content: string; answers: number }>()
  readonly crashes: string[] = []
  mismatches = 0
  pieces = 0

  constructor(team: ChaosTeam) {
    this.#team = team
    team.onRecord((entry) => this.#enter(entry))
  }

  get messages(): number {
    return this.#posted.size
  }

  get requests(): number {
    return this.#asked.size
  }

  /** Those that `wanted` picks, with what became of them. */
  find(wanted: (posted: Posted) => boolean): string[] {
    return [...this.#posted.entries()]
      .filter(([, posted]) => wanted(posted))
      .map(([id, posted]) => `${id}: ${JSON.stringify(posted)}`)
  }

  /** Requests that were not answered as they should have been. */
  answeredOtherThan(right: (content: string, answers: number) => boolean): string[] {
    return [...this.#asked]
      .filter(([, { content, answers }]) => !right(content, answers))
      .map(([wait, { content, answers }]) => `${wait}, "${content}": ${answers} answers`)
  }

  /** Questions that were asked another number of times than `times` says; NaN: any. */
  askedOtherThan(times: (content: string) => number): string[] {
    const counts = new Map<string, number>()
    for (const { content } of this.#asked.values()) counts.set(content, (counts.get(content) ?? 0) + 1)
    return [...counts]
      .filter(([content, count]) => Math.abs(times(content) - count) > 0)
      .map(([content, count]) => `"${content}" was asked ${count} times`)
  }

  #enter(entry: LogEntry): void {
    if (entry.kind === 'agent.crashed') this.crashes.push(`${entry.agent}: ${entry.error.message}`)
    if (entry.kind === 'step.mismatch') this.mismatches += 1
    if (entry.kind === 'message.dead') this.#dead(entry.letter)
    if (entry.kind !== 'frames') return
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) this.#frame(memory, at)
  }

  #frame(memory: Memory, at: number): void {
    if (stepOf(memory, at) === LOG_ONLY) return // it tells of something, and goes to nobody
    const kind = kindOf(memory, at)
    if (kind === CHUNK) this.pieces += 1
    if ((kind === SEND || kind === REQUEST) && recipientOf(memory, at) !== NOBODY) {
      const { content } = readBody(memory, at)
      const posted = this.#of(idOf(memory, at), this.#team.nameOf(recipientOf(memory, at)))
      posted.content = content.slice(0, 40)
      posted.sent += 1
      if (kind === REQUEST) this.#wait(senderOf(memory, at), correlationOf(memory, at)).content = posted.content
    }
    if (kind === END) {
      const posted = this.#of(idOf(memory, at), this.#team.nameOf(senderOf(memory, at)))
      if (flagsOf(memory, at) & FAILED) posted.failures += isTriedAgain(memory, at) ? 0 : 1
      else posted.commits += 1
    }
    if ((kind === END || kind === RESPONSE) && correlationOf(memory, at) !== 0)
      this.#wait(recipientOf(memory, at), correlationOf(memory, at)).answers += 1
  }

  /** A late answer is a letter of its own; what it answers is not dead. */
  #dead({ message, reason, errors }: DeadLetter): void {
    if (reason === 'late') return
    this.#of(message.id, String(message.recipient)).letters.push(reason === 'failed' ? errors[0]!.code : reason)
  }

  #of(id: string, recipient: string): Posted {
    const key = `${id} to ${recipient}`
    let posted = this.#posted.get(key)
    if (!posted) {
      posted = { content: '', recipient, sent: 0, commits: 0, failures: 0, letters: [] }
      this.#posted.set(key, posted)
    }
    return posted
  }

  #wait(caller: number, correlation: number): { content: string; answers: number } {
    const key = `${this.#team.nameOf(caller)} ${correlation}`
    let asked = this.#asked.get(key)
    if (!asked) {
      asked = { content: '', answers: 0 }
      this.#asked.set(key, asked)
    }
    return asked
  }
}

/** It answers nobody; nor does one that its caller has withdrawn, or waits for no more, and that is over: also before it began. */
const isTriedAgain = (memory: Memory, at: number) =>
  correlationOf(memory, at) === 0 && !['CANCELLED', 'REQUEST_TIMEOUT'].includes(errorOf(memory, at).code)
