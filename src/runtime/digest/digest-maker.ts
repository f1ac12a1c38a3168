/**
 * Makes lines of the digest from entries of a log. Of frames it reads the headers: what a message says is decoded for
 * nobody. So a watched message costs the host a fraction of what its events cost.
 */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { isCopy, isFailure, isHead, isMessage } from '../../mailbox/codec.ts'
import {
  attemptOf,
  BEGINS_AGAIN,
  bodyBytesOf,
  END,
  flagsOf,
  HAS_THREAD,
  ID,
  kindOf,
  lengthOf,
  NOBODY,
  recipientOf,
  STEP_DONE,
  senderOf,
  startedOf,
  timeOf,
  turnOf,
  typeIndexOf,
} from '../../mailbox/frame.ts'
import { idFrom } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import { AGAIN, COPY, type Digest, type DigestFact, NONE, TO_SEVERAL } from './digest-line.ts'
import { RecentNumbers } from './recent-numbers.ts'

interface Needs {
  /** Returns the name of the agent with that index. */
  name(index: number): string
  /** Returns the id of the run with that index; '' for none. */
  runId(index: number): string
  /** Returns a record in short; undefined if it is no rare event. */
  factOf(record: HostRecord): DigestFact | undefined
  /** Removes the team's keys from a name. */
  shown(name: string): string
}

export class DigestMaker {
  readonly #needs: Needs
  readonly #names = new Map<string, number>()
  readonly #shown: string[] = []
  /** Number of names that lines have told. */
  #told = 0
  /** Place of each agent's name, by index, the name that it has there, and the block in which it was looked up. */
  readonly #agents: { name: string; at: number; block: number }[] = []
  /** Number of blocks that were seen: within one, no index gets another name. */
  #block = 0
  #run = { index: -1, at: NONE }
  /** Numbers of messages by their ids, of those that a turn may still end for. */
  readonly #numbers = new RecentNumbers()
  #message = newMessages()
  #turn = newTurns()
  #call = newCalls()
  #facts: DigestFact[] = []
  #seq = -1
  #at: number | undefined
  #n = 0

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Number of rows that the next line has. */
  get rows(): number {
    return this.#message.n.length + this.#turn.message.length + this.#call.message.length + this.#facts.length
  }

  see(entry: LogEntry): void {
    this.#seq = lastSeq(entry)
    if (this.#at === undefined) {
      this.#at = Math.round(entry.at)
      this.#n = entry.seq / SEQ_STEP
    }
    if (entry.kind === 'frames') return this.#frames(entry)
    if (entry.kind === 'model.called') return this.#modelCall(entry)
    if (entry.kind === 'tool.finished') return this.#hostTool(entry)
    const fact = this.#needs.factOf(entry)
    if (fact) this.#facts.push(fact)
  }

  /**
   * Returns the line of all that was seen since the last one; undefined if there is nothing to tell. `looked`:
   * state of the team to tell with it.
   */
  take(looked: Pick<Digest, 'agent' | 'waits'> = {}, now = 0): Digest | undefined {
    if (this.rows === 0 && !looked.agent && !looked.waits) return undefined
    const line: Digest = {
      seq: this.#seq,
      at: this.#at ?? Math.round(now),
      n: this.#n,
      ...(this.#shown.length > this.#told && { names: this.#shown.slice(this.#told) }),
      ...(this.#message.n.length > 0 && { message: this.#message }),
      ...(this.#turn.message.length > 0 && { turn: this.#turn }),
      ...(this.#call.message.length > 0 && { call: this.#call }),
      ...looked,
      ...(this.#facts.length > 0 && { facts: this.#facts }),
    }
    this.#told = this.#shown.length
    if (line.message) this.#message = newMessages()
    if (line.turn) this.#turn = newTurns()
    if (line.call) this.#call = newCalls()
    this.#facts = []
    this.#at = undefined
    return line
  }

  /** Table of names. */
  get names(): readonly string[] {
    return this.#shown
  }

  /** Returns the place of a name in the table. */
  placeOf(name: string): number {
    let at = this.#names.get(name)
    if (at === undefined) {
      at = this.#shown.push(this.#needs.shown(name)) - 1
      this.#names.set(name, at)
    }
    return at
  }

  #agent(index: number): number {
    const known = this.#agents[index]
    if (known?.block === this.#block) return known.at
    const name = this.#needs.name(index)
    const at = known?.name === name ? known.at : this.placeOf(name)
    if (known?.name === name) known.block = this.#block
    else this.#agents[index] = { name, at, block: this.#block }
    return at
  }

  #runAt(index: number): number {
    if (index !== this.#run.index) {
      const id = this.#needs.runId(index)
      this.#run = { index, at: id === '' ? NONE : this.placeOf(id) }
    }
    return this.#run.at
  }

  #frames({ memory, from, to, seq, run, at: loggedAt }: FrameBlock): void {
    this.#block += 1
    let n = seq / SEQ_STEP
    for (let at = from; at < to; at += lengthOf(memory, at), n += 1) {
      if (isMessage(memory, at)) this.#sent(memory, at, n, run, loggedAt)
      const kind = kindOf(memory, at)
      if (kind === END) this.#ended(memory, at, run)
      else if (kind === STEP_DONE && flagsOf(memory, at) & HAS_THREAD) this.#threadTool(memory, at, run)
    }
  }

  #sent(memory: Memory, at: number, n: number, run: number, loggedAt: number): void {
    const message = this.#message
    const copy = isCopy(memory, at)
    const head = !copy && isHead(memory, at)
    const recipient = recipientOf(memory, at)
    message.n.push(n - this.#n)
    message.run.push(this.#runAt(run))
    message.from.push(this.#agent(senderOf(memory, at)))
    message.to.push(head || recipient === NOBODY ? NONE : this.#agent(recipient))
    message.type.push(typeIndexOf(memory, at) | (head ? TO_SEVERAL : 0) | (copy ? COPY : 0))
    message.at.push(Math.round(loggedAt) - this.#at!)
    message.bytes.push(bodyBytesOf(memory, at))
    message.turn.push(turnOf(memory, at))
    if (kindOf(memory, at) !== END && !copy) this.#numbers.set(keyAt(memory, at), n)
  }

  #ended(memory: Memory, at: number, run: number): void {
    const turn = this.#turn
    turn.message.push(this.#numberOf(keyAt(memory, at)))
    turn.run.push(this.#runAt(run))
    turn.agent.push(this.#agent(senderOf(memory, at)))
    turn.turn.push(turnOf(memory, at))
    turn.start.push(Math.round(startedOf(memory, at)) - this.#at!)
    turn.end.push(Math.round(timeOf(memory, at)) - this.#at!)
    turn.attempt.push(attemptOf(memory, at))
    turn.failed.push(outcomeOf(memory, at))
  }

  #modelCall(record: Extract<HostRecord, { kind: 'model.called' }>): void {
    const { agent, at, durationMs, error, messageId, model, run, usage } = record
    this.#called(run, agent, messageId, { kind: MODEL, name: model, end: at, durationMs, error, usage })
  }

  #hostTool(record: Extract<HostRecord, { kind: 'tool.finished' }>): void {
    const { agent, at, durationMs, error, messageId, run, tool } = record
    this.#called(run, agent, messageId, { kind: TOOL, name: tool, end: at, durationMs, error })
  }

  /** Adds a call of a tool that ran in the thread of its agent. */
  #threadTool(memory: Memory, at: number, run: number): void {
    const event = toolEventOf(memory, at, this.#needs.name(senderOf(memory, at)))
    if (event?.type !== 'tool.finished') return
    const { agent, durationMs, error, messageId, tool } = event
    this.#called(run, agent, messageId, { kind: TOOL, name: tool, end: timeOf(memory, at), durationMs, error })
  }

  #called(
    run: number,
    agent: string,
    messageId: string | undefined,
    { kind, name, end, durationMs, error, usage }: Called,
  ): void {
    const call = this.#call
    const ended = Math.round(end) - this.#at!
    call.message.push(this.#numberOf(messageId ? keyOfText(messageId) : Number.NaN))
    call.run.push(this.#runAt(run))
    call.agent.push(this.placeOf(agent))
    call.kind.push(kind)
    call.name.push(this.placeOf(name))
    call.start.push(ended - Math.round(durationMs))
    call.end.push(ended)
    call.in.push(usage?.inputTokens ?? 0)
    call.out.push(usage?.outputTokens ?? 0)
    call.failed.push(error ? 1 : 0)
  }

  /** Returns the number of a message, as the line has it. */
  #numberOf(key: number): number {
    return this.#numbers.get(key) - this.#n
  }
}

/** A call that has ended. */
interface Called {
  readonly kind: number
  readonly name: string
  readonly end: number
  readonly durationMs: number
  readonly error: unknown
  readonly usage?: TokenUsage
}

const MODEL = 0
const TOOL = 1

type Table<Name extends 'message' | 'turn' | 'call'> = NonNullable<Digest[Name]>

const newMessages = (): Table<'message'> => ({
  n: [],
  run: [],
  from: [],
  to: [],
  type: [],
  at: [],
  bytes: [],
  turn: [],
})
const newTurns = (): Table<'turn'> => ({
  message: [],
  run: [],
  agent: [],
  turn: [],
  start: [],
  end: [],
  attempt: [],
  failed: [],
})
const newCalls = (): Table<'call'> => ({
  message: [],
  run: [],
  agent: [],
  kind: [],
  name: [],
  start: [],
  end: [],
  in: [],
  out: [],
  failed: [],
})

const outcomeOf = (memory: Memory, at: number): number => {
  if (flagsOf(memory, at) & BEGINS_AGAIN) return AGAIN
  return isFailure(memory, at) ? 1 : 0
}

/** Makes a number of the id of a message. Two messages that are under way have different ones. */
const keyAt = ({ i32 }: Memory, at: number): number => keyOf(i32[(at >> 2) + ID + 2]!, i32[(at >> 2) + ID + 3]!)

function keyOfText(id: string): number {
  const [, , third, fourth] = idFrom(id)
  return keyOf(third, fourth)
}

/** The words of an id that differ most: the counter of its source, and what identifies the source. */
const keyOf = (third: number, fourth: number): number => (third >>> 0) * 2 ** 21 + (fourth >>> 11)
