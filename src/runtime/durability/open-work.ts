/**
 * Fold of the log: the messages that are not handled, and the waits and calls that are not answered. It reads only
 * entries, so it gives the same for a log that another process has written. In tests it is compared with what the
 * supervisor itself has, after every record.
 */
import { isHead } from '../../mailbox/codec.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import {
  BEGINS_AGAIN,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  idOf,
  kindOf,
  LOG_ONLY,
  lengthOf,
  type Memory,
  NOBODY,
  REQUEST,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  SEND,
  senderOf,
  stepOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { ORCHESTRATOR_INDEX, USER_INDEX } from '../host/directory.ts'
import type { FrameBlock, LogEntry } from '../log/records.ts'

/** Finds the index of an agent by its name, as the team and that run know it. */
export type IndexOf = (name: string, run: number) => number | undefined

/** Message that was accepted, or waits for room or for other tasks, and is neither handled nor dead. */
export interface OpenMessage {
  readonly id: string
  readonly run: number
  readonly recipient: number
  readonly memory: Memory
  readonly at: number
  /** Entry that it came with. */
  readonly entry: FrameBlock
  /** Number of its turn; 0 as long as the log does not have it. */
  turn: number
  attempt: number
  /** Number of times that its turn was tried again after it threw or was late. */
  retried: number
  /** True if its duty was handed off: its turn answers nobody. */
  handedOff: boolean
  /** Processes in which its turn has begun last, and has got further last, by their number; 0: in none. */
  begunIn: number
  furtherIn: number
  /** Deaths of processes in a row at which its turn was open and had got no further. */
  deaths: number
}

/** Request whose caller waits. A handoff gives it another message. */
export interface OpenWait {
  readonly caller: number
  readonly correlation: number
  /** Turn of the caller, as its frame has it. */
  readonly turn: number
  message: OpenMessage
}

export interface OpenCallFrame {
  readonly caller: number
  readonly correlation: number
  readonly turn: number
  readonly run: number
  readonly memory: Memory
  readonly at: number
  /** Entry that it came with. */
  readonly entry: FrameBlock
}

export class OpenWork {
  readonly #indexOf: IndexOf
  /** Messages by their ids, in the order in which they came. Copies of one message have one id. */
  readonly #byId = new Map<string, OpenMessage[]>()
  readonly #byTurn = new Map<number, OpenMessage>()
  readonly #waits = new Map<number, OpenWait>()
  readonly #calls = new Map<number, OpenCallFrame>()
  readonly #openIn = new Map<number, number>()

  constructor(indexOf: IndexOf) {
    this.#indexOf = indexOf
  }

  *messages(): IterableIterator<OpenMessage> {
    for (const copies of this.#byId.values()) yield* copies
  }

  openIn(run: number): number {
    return this.#openIn.get(run) ?? 0
  }

  #count(run: number, by: 1 | -1): void {
    const count = this.openIn(run) + by
    if (count > 0) this.#openIn.set(run, count)
    else this.#openIn.delete(run)
  }

  get waits(): Iterable<OpenWait> {
    return this.#waits.values()
  }

  get calls(): Iterable<OpenCallFrame> {
    return this.#calls.values()
  }

  message(id: string, recipient: number): OpenMessage | undefined {
    const copies = this.#byId.get(id)
    return copies?.[0]?.recipient === recipient ? copies[0] : copies?.find((copy) => copy.recipient === recipient)
  }

  ofTurn(agent: number, turn: number): OpenMessage | undefined {
    return this.#byTurn.get(keyOf(agent, turn))
  }

  get hasTurns(): boolean {
    return this.#byTurn.size > 0
  }

  /** Finds the request that the caller waits for under that number. */
  wait(caller: number, correlation: number): OpenWait | undefined {
    return this.#waits.get(keyOf(caller, correlation))
  }

  see(entry: LogEntry): void {
    switch (entry.kind) {
      case 'frames':
        for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry, entry.memory, at)
        return
      case 'turn.started':
        return this.#begun(entry.messageId, entry.index, entry.turn, entry.attempt)
      case 'turns':
      case 'turn.begins':
        for (const [index, turn, attempt, id] of entry.turns) this.#begun(id, index, turn, attempt)
        return
      case 'turn.retried': {
        const message = this.message(entry.messageId, entry.index)
        if (message) message.retried = entry.tried - 1
        return
      }
      case 'runs.gone':
        return this.#forget(new Set(entry.runs))
      case 'message.dead':
        return this.#dead(entry.run, entry.letter)
      case 'message.refused':
        return this.#gone(entry.messageId, entry.index)
      case 'handoff':
        if (entry.step === 'handed_off' && entry.offer !== undefined) this.#move(entry.messageId, entry.offer)
    }
  }

  /** Forgets what is left of runs that the log has forgotten: they had ended. */
  #forget(runs: ReadonlySet<number>): void {
    for (const [id, copies] of this.#byId) if (runs.has(copies[0]!.run)) this.#byId.delete(id)
    for (const [key, { run }] of this.#byTurn) if (runs.has(run)) this.#byTurn.delete(key)
    for (const [key, { message }] of this.#waits) if (runs.has(message.run)) this.#waits.delete(key)
    for (const [key, { run }] of this.#calls) if (runs.has(run)) this.#calls.delete(key)
    for (const run of runs) this.#openIn.delete(run)
  }

  #frame(entry: FrameBlock, memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    switch (kind) {
      case SEND:
        if (isDelivered(memory, at)) this.#add(entry, memory, at)
        return
      case REQUEST: {
        const message = this.#add(entry, memory, at)
        const [caller, correlation, turn] = [senderOf(memory, at), correlationOf(memory, at), turnOf(memory, at)]
        if (message) this.#waits.set(keyOf(caller, correlation), { caller, correlation, turn, message })
        return
      }
      case CALL: {
        const [caller, correlation, turn] = [senderOf(memory, at), correlationOf(memory, at), turnOf(memory, at)]
        this.#calls.set(keyOf(caller, correlation), { caller, correlation, turn, run: entry.run, memory, at, entry })
        return
      }
      case END:
        if (flagsOf(memory, at) & BEGINS_AGAIN) return this.#again(idOf(memory, at), senderOf(memory, at))
        return this.#ended(memory, at)
      case RESPONSE:
        this.#waits.delete(keyOf(recipientOf(memory, at), correlationOf(memory, at)))
        return
      case RESULT:
        this.#calls.delete(keyOf(recipientOf(memory, at), correlationOf(memory, at)))
        return
      case CANCEL: {
        const key = keyOf(senderOf(memory, at), correlationOf(memory, at))
        if (!this.#waits.delete(key)) this.#calls.delete(key)
      }
    }
  }

  /** Adds a message. Returns undefined if it has no recipient: then it is refused. */
  #add(entry: FrameBlock, memory: Memory, at: number): OpenMessage | undefined {
    const { run } = entry
    const named = recipientOf(memory, at) === NOBODY ? readBody(memory, at).name : undefined
    const recipient = named === undefined ? recipientOf(memory, at) : this.#indexOf(named, run)
    if (recipient === undefined || recipient === NOBODY) return undefined
    const id = idOf(memory, at)
    const begins = { turn: 0, attempt: 1, retried: 0, handedOff: false, begunIn: 0, furtherIn: 0, deaths: 0 }
    const message = { id, run, recipient, memory, at, entry, ...begins }
    const copies = this.#byId.get(id)
    if (copies) copies.push(message)
    else this.#byId.set(id, [message])
    this.#count(run, 1)
    return message
  }

  /**
   * Handles the end of a turn. It answers the request that its message is; after a handoff the END is addressed to the
   * caller of the duty instead, and the offer itself is answered too.
   */
  #ended(memory: Memory, at: number): void {
    const [id, sender] = [idOf(memory, at), senderOf(memory, at)]
    const message = this.message(id, sender)
    if (message && kindOf(message.memory, message.at) === REQUEST) {
      const own = keyOf(senderOf(message.memory, message.at), correlationOf(message.memory, message.at))
      if (this.#waits.get(own)?.message === message) this.#waits.delete(own)
    }
    if (message) this.#gone(id, sender)
    this.#waits.delete(keyOf(recipientOf(memory, at), correlationOf(memory, at)))
  }

  #gone(id: string, recipient: number): void {
    const copies = this.#byId.get(id)
    const at = copies?.findIndex((message) => message.recipient === recipient) ?? -1
    if (!copies || at < 0) return
    const { run, turn } = copies[at]!
    this.#count(run, -1)
    this.#byTurn.delete(keyOf(recipient, turn))
    if (copies.length === 1) this.#byId.delete(id)
    else copies.splice(at, 1)
  }

  #begun(id: string, recipient: number, turn: number, attempt: number): void {
    const message = this.message(id, recipient)
    if (!message) return
    this.#byTurn.delete(keyOf(recipient, message.turn))
    this.#byTurn.set(keyOf(recipient, turn), message)
    Object.assign(message, { turn, attempt })
  }

  #again(id: string, recipient: number): void {
    const message = this.message(id, recipient)
    if (message) message.attempt += 1
  }

  #dead(run: number, { message }: DeadLetter): void {
    const copies = this.#byId.get(message.id)
    if (!copies) return
    const { recipient: to } = message
    const index = typeof to === 'string' ? this.#indexOf(to, run) : undefined
    this.#gone(message.id, index ?? copies[0]!.recipient)
  }

  /** Moves the duty of the turn that has handed it off: who waited for it waits for the offer's message. */
  #move(messageId: string, offerId: string): void {
    const [offer] = this.#byId.get(offerId) ?? []
    const [own] = this.#byId.get(messageId) ?? []
    if (own) own.handedOff = true
    if (!offer) return
    const duty = [...this.#waits.values()].find(({ message }) => message.id === messageId)
    if (!duty) return
    // Several have offered it, if who was offered it handed it on before it was known to have it.
    for (const [key, { message }] of this.#waits) if (message === offer) this.#waits.delete(key)
    duty.message = offer
  }
}

/** Checks for a message that is for a mailbox, and not only for readers of the log. */
function isDelivered(memory: Memory, at: number): boolean {
  if (stepOf(memory, at) === LOG_ONLY || isHead(memory, at)) return false
  const isForScript = recipientOf(memory, at) === ORCHESTRATOR_INDEX && typeOf(memory, at) === 'report'
  return !isForScript || senderOf(memory, at) <= USER_INDEX
}

/** Makes a number of an agent, which has up to 16 bits, and a turn or correlation of 32: a text would be slow. */
export const keyOf = (agent: number, number: number): number => agent * 2 ** 32 + (number >>> 0)
