/**
 * Turns of a run that a log has: for each its message, and what it has asked the world outside of the team, with the
 * answers.
 */

import type { Content } from '../../actors/definition/content.ts'
import { REMOTE } from '../../actors/definition/role.ts'
import { decodeMessage, errorOf, isCopy, isFailure, isHead, isMessage, jsonIn } from '../../mailbox/codec.ts'
import {
  BEGINS_AGAIN,
  type Body,
  CALL,
  correlationOf,
  END,
  flagsOf,
  idOf,
  kindOf,
  lengthOf,
  type Memory,
  NOBODY,
  NOW,
  RESULT,
  readBody,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { canonical, own } from '../../shared/values.ts'
import { USER_INDEX } from '../host/directory.ts'
import { STEERED } from '../host/steering.ts'
import type { LogEntry } from '../log/records.ts'
import type { RecordedRun } from '../views/recorded-runs.ts'

const ID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/gi

const TIME = /(?<![\w.])[1-3]\d{12}(?:\.\d+)?(?![\w.])/g

/** Returns one text for all values that count as the same. */
export const keyOf = (value: unknown): string => canonical(value).replaceAll(ID, '*').replaceAll(TIME, '*')

/** Place at which two values differ, and what stands there in each. */
export interface Difference {
  /** Fields and positions on the way there, like `messages[1].content`; '' for the whole value. */
  path: string
  before: unknown
  now: unknown
}

/** Returns the first difference of two values; undefined if they count as the same. */
export function differenceOf(before: unknown, now: unknown, path = ''): Difference | undefined {
  if (keyOf(before) === keyOf(now)) return undefined
  if (Array.isArray(before) && Array.isArray(now)) {
    for (let i = 0; i < Math.max(before.length, now.length); i++) {
      const found = differenceOf(before[i], now[i], `${path}[${i}]`)
      if (found) return found
    }
  } else if (isObject(before) && isObject(now)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(now)])) {
      const found = differenceOf(own(before, name), own(now, name), path === '' ? name : `${path}.${name}`)
      if (found) return found
    }
  }
  return { path, before, now }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Kinds of what a turn asks the world outside of the team. */
export type AskedKind = 'model' | 'tool' | 'question' | 'step'

export type OldOutcome = { readonly value: unknown } | { readonly error: DramatisError }

/** A call of a model or a tool, a question to a person, or a step, with what came of it. */
export interface OldEffect {
  readonly kind: AskedKind
  readonly name: string
  /** Input of the model, the tool or the person. A step has none in the log. */
  readonly input: unknown
  readonly key: string
  /** Undefined if no answer came before the turn or the log ended. */
  outcome: OldOutcome | undefined
  /** Time of the answer, in ms since the start of the run. */
  settledAtMs: number
  /** True if it was asked for while a step was open: it may be a part of that, and a step is answered as a whole. */
  readonly isWithin: boolean
}

export interface OldTurn {
  readonly agent: string
  readonly message: TypedMessage
  readonly effects: OldEffect[]
  readonly readings: number[]
  attempts: number
  /** True if the log has no end of it, or it ended because the run was aborted. */
  isOpen: boolean
  /** True if its message was sent while a step was open, or by another turn of which that holds. */
  readonly isWithin: boolean
  /** Turn that sent its message; undefined for one from outside. */
  parent: OldTurn | undefined
}

export interface OutsideMessage {
  readonly atMs: number
  readonly message: TypedMessage
}

/** Words that a person has said to the run while it worked. */
export interface OldWords {
  atMs: number
  readonly id: string
  content: Content
  readonly to: string | null
  readonly by: string | null
  readonly interrupts: boolean
}

/**
 * Contents of the log of a run, as a play of it needs them. Times are those of the team: they stand still while no
 * process has the log, and until it has started its agents.
 */
export interface OldTurns {
  readonly turns: readonly OldTurn[]
  readonly outside: readonly OutsideMessage[]
  readonly words: readonly OldWords[]
  readonly startedAt: number
  readonly lengthMs: number
  readonly aborted: { readonly atMs: number; readonly reason: string } | undefined
  /** True if the run was cut off from outside, or goes on: turns that were open then might have done more. */
  readonly isCutOff: boolean
}

export function oldTurnsOf(run: RecordedRun): OldTurns {
  const reader = new TurnReader(run)
  for (const entry of run.entries) reader.see(entry)
  return reader.end()
}

/** Acts of a turn, before it is known which message it had. */
interface Doing {
  readonly agent: number
  readonly effects: OldEffect[]
  readonly readings: number[]
  messageId: string | undefined
  attempts: number
  isOpen: boolean
  readonly openSteps: Map<number, OldEffect>
}

interface Sent {
  readonly message: TypedMessage
  /** The turn that sent it, and whether a step of that was open. */
  readonly by: Doing | undefined
  readonly isInStep: boolean
}

class TurnReader {
  readonly #run: RecordedRun
  readonly #doings = new Map<string, Doing>()
  readonly #sent = new Map<string, Sent>()
  readonly #open = new Map<string, OldEffect>()
  readonly #outside: OutsideMessage[] = []
  readonly #words = new Map<string, OldWords>()
  /** Time of the last answer from outside. */
  #settledAtMs = 0
  #isLaunched = false
  #aborted: OldTurns['aborted']
  #startedAt: number | undefined
  /** Time for which nothing could go on, in ms. */
  #gapsMs = 0
  #lastAt: number
  /** True if a process has the log, and nothing has happened in the run since. */
  #isStarting = false

  constructor(run: RecordedRun) {
    this.#run = run
    this.#lastAt = run.launched.startedAt
  }

  get #now(): number {
    return this.#startedAt === undefined ? 0 : Math.max(0, this.#lastAt - this.#startedAt - this.#gapsMs)
  }

  #passed({ kind, run, at }: LogEntry): void {
    if (kind === 'log.opened') this.#isStarting = true
    if (this.#isStarting) this.#gapsMs += Math.max(0, at - this.#lastAt)
    if (run !== 0) this.#isStarting = false
    this.#lastAt = Math.max(this.#lastAt, at)
    if (kind === 'run.started' && this.#startedAt === undefined) {
      this.#startedAt = at
      this.#gapsMs = 0
    }
  }

  see(entry: LogEntry): void {
    this.#passed(entry)
    switch (entry.kind) {
      case 'frames':
        for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry.memory, at)
        return
      case 'turns':
        for (const [agent, turn, attempt, id] of entry.turns) this.#begun(agent, turn, attempt, id)
        return
      case 'turn.started':
        return this.#begun(entry.index, entry.turn, entry.attempt, entry.messageId)
      case 'steer': {
        const { steerId: id, text: content, to, by, interrupts = false } = entry
        this.#words.set(id, { atMs: this.#now, id, content, to, by, interrupts })
        return
      }
      case 'run.aborted':
        this.#aborted ??= { atMs: this.#now, reason: entry.reason }
    }
  }

  #begun(agent: number, turn: number, attempt: number, messageId: string): void {
    const doing = this.#doing(agent, turn)
    doing.messageId = messageId
    doing.attempts = Math.max(doing.attempts, attempt)
  }

  #doing(agent: number, turn: number): Doing {
    const key = `${agent} ${turn}`
    let doing = this.#doings.get(key)
    if (!doing) {
      doing = {
        ...{ agent, effects: [], readings: [], messageId: undefined, attempts: 1, isOpen: true },
        openSteps: new Map(),
      }
      this.#doings.set(key, doing)
    }
    return doing
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    const agent = senderOf(memory, at)
    if (isMessage(memory, at) && kind !== END) return this.#message(memory, at)
    switch (kind) {
      case END: {
        const doing = this.#doing(agent, turnOf(memory, at))
        doing.messageId ??= idOf(memory, at)
        doing.isOpen = (flagsOf(memory, at) & BEGINS_AGAIN) !== 0 || this.#aborted !== undefined
        return
      }
      case NOW:
        this.#doing(agent, turnOf(memory, at)).readings.push(timeOf(memory, at))
        return
      case CALL:
        return this.#call(memory, at, readBody(memory, at))
      case RESULT:
        return this.#settled(`call ${recipientOf(memory, at)} ${correlationOf(memory, at)}`, memory, at)
      case STEP_BEGAN:
        return this.#stepBegan(memory, at, readBody(memory, at))
      case STEP_DONE:
        this.#doing(agent, turnOf(memory, at)).openSteps.delete(stepOf(memory, at))
        this.#settled(`step ${agent} ${turnOf(memory, at)} ${stepOf(memory, at)}`, memory, at)
    }
  }

  #message(memory: Memory, at: number): void {
    const sender = senderOf(memory, at)
    const message = decodeMessage(memory, at, this.#run.directory)
    if (message.type === 'response') return
    if (sender === USER_INDEX && !isCopy(memory, at)) {
      if (this.#isLaunched && !this.#isOfWords(message)) this.#outside.push({ atMs: this.#now, message })
      this.#isLaunched = true
    }
    if (isHead(memory, at)) return
    const { name } = readBody(memory, at)
    const known = recipientOf(memory, at)
    const recipient = known === NOBODY && name !== undefined ? this.#run.indexOf(name) : known
    const by = this.#doings.get(`${sender} ${turnOf(memory, at)}`)
    this.#sent.set(`${recipient} ${message.id}`, { message, by, isInStep: isInStep(by) })
  }

  /**
   * Checks for a message that the words of a person have caused: saying them in a play causes it. What keeps an answer
   * from being that of the run has to be there before it: a guardrail that took its time then takes none in a play.
   */
  #isOfWords({ metadata, parts }: TypedMessage): boolean {
    const words = this.#words.get(String(metadata.steerId))
    if (words && parts) words.content = parts.map((part) => ({ ...part }))
    if (metadata[STEERED] === undefined) return words !== undefined
    for (const each of this.#words.values()) each.atMs = Math.min(each.atMs, this.#settledAtMs)
    return true
  }

  #call(memory: Memory, at: number, { content: verb, data }: Body): void {
    const args = Object(jsonIn(data)) as Readonly<Record<string, unknown>>
    const asked = askedBy(verb, args)
    if (asked) this.#asked(`call ${senderOf(memory, at)} ${correlationOf(memory, at)}`, memory, at, asked)
  }

  #stepBegan(memory: Memory, at: number, { content: name, data, threadId }: Body): void {
    const [agent, turn, step] = [senderOf(memory, at), turnOf(memory, at), stepOf(memory, at)]
    const isTool = threadId !== undefined // the id of its call
    const key = `step ${agent} ${turn} ${step}`
    const asked: Asked = isTool ? { kind: 'tool', name, input: jsonIn(data) } : { kind: 'step', name, input: null }
    const effect = this.#asked(key, memory, at, asked)
    if (!isTool) this.#doing(agent, turn).openSteps.set(step, effect)
  }

  #asked(key: string, memory: Memory, at: number, { kind, name, input }: Asked): OldEffect {
    const doing = this.#doing(senderOf(memory, at), turnOf(memory, at))
    const effect: OldEffect = {
      ...{ kind, name, input, isWithin: isInStep(doing) },
      key: effectKey(kind, name, input),
      outcome: undefined,
      settledAtMs: 0,
    }
    doing.effects.push(effect)
    this.#open.set(key, effect)
    return effect
  }

  #settled(key: string, memory: Memory, at: number): void {
    const effect = this.#open.get(key)
    if (!effect) return
    this.#open.delete(key)
    const { data } = readBody(memory, at)
    effect.outcome = isFailure(memory, at)
      ? { error: errorOf(memory, at) }
      : { value: data === undefined ? undefined : jsonIn(data) }
    effect.settledAtMs = this.#now
    this.#settledAtMs = this.#now
  }

  #isWithin({ agent, messageId }: Doing): boolean {
    const sent = this.#sent.get(`${agent} ${messageId}`)
    return sent !== undefined && (sent.isInStep || (sent.by !== undefined && this.#isWithin(sent.by)))
  }

  end(): OldTurns {
    const turns = new Map<string, OldTurn>()
    for (const doing of this.#doings.values()) {
      const { agent, messageId, effects, readings, attempts, isOpen } = doing
      const key = `${agent} ${messageId}`
      const sent = this.#sent.get(key)
      if (!sent) continue
      const known = turns.get(key)
      if (known) {
        known.effects.push(...effects)
        known.readings.push(...readings)
        known.attempts += attempts
        known.isOpen = isOpen
        continue
      }
      const { message, by } = sent
      const parent = by && turns.get(`${by.agent} ${by.messageId}`) // it began before
      const about = { agent: this.#run.directory.name(agent), message, parent, isWithin: this.#isWithin(doing) }
      turns.set(key, { ...about, effects, readings, attempts, isOpen })
    }
    return {
      turns: [...turns.values()],
      outside: this.#outside,
      words: [...this.#words.values()],
      lengthMs: this.#now,
      startedAt: this.#startedAt ?? this.#run.launched.startedAt,
      aborted: this.#aborted,
      isCutOff: this.#aborted !== undefined || !this.#run.finished,
    }
  }
}

export const APPROVAL = 'approval'

/** Something that a turn asks for. */
export interface Asked {
  readonly kind: AskedKind
  readonly name: string
  readonly input: unknown
}

const isInStep = (doing: Doing | undefined): boolean => doing !== undefined && doing.openSteps.size > 0

/** Returns what a call of a verb asks the world outside of the team; undefined for a verb that the team answers. */
export function askedBy(verb: string, args: Readonly<Record<string, unknown>>): Asked | undefined {
  switch (verb) {
    case 'model': {
      const { stream: _, watched: __, ...input } = args // they say how the answer is read
      return { kind: 'model', name: typeof args.model === 'string' ? args.model : 'default', input }
    }
    case 'tool':
      return { kind: 'tool', name: String(args.name), input: args.input }
    case 'ask':
      if (args.ask === 'approval')
        return { kind: 'question', name: APPROVAL, input: { tool: args.tool, input: args.input } }
      return { kind: 'question', name: 'person', input: args }
    case 'approve':
      return { kind: 'question', name: APPROVAL, input: { tool: args.name, input: args.input } }
    case REMOTE:
      return { kind: 'tool', name: 'prompt', input: { text: args.text } }
    default:
      return undefined
  }
}

export const effectKey = (kind: AskedKind, name: string, input: unknown): string =>
  kind === 'step' ? `step ${name}` : `${kind} ${name} ${keyOf(input)}`
