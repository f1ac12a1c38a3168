/**
 * The log of earlier attempts of a redelivered turn. Each new step is matched with a logged one by kind, target and
 * input, once, in the order of their begin. It then keeps the logged id and is settled again as the log has it.
 */

import type { ReceivedMessage } from '../../mailbox/codec.ts'
import {
  CALL,
  type FrameId,
  limitOf,
  type Memory,
  NOW,
  readBody,
  SLEEP,
  sameStep,
  timeOf,
} from '../../mailbox/frame.ts'
import type { OnMismatch } from '../../mailbox/mailbox.ts'
import type { MessageType } from '../../mailbox/message.ts'
import { MODEL_TURN } from '../definition/role.ts'
import type { Outbox } from './link.ts'
import {
  describeStep,
  hasEffect,
  isCallLike,
  isCallOf,
  isNotice,
  isStepFrame,
  isStepOf,
  type Logged,
  LoggedTurn,
  type Script,
  type Settled,
  sameByName,
  sameUnmarked,
} from './logged-turn.ts'
import type { RunView } from './run-views.ts'

/** Content of the reading that says which agents a script sees. */
const SEES = 'agents'

export class Replay {
  readonly #turn: LoggedTurn
  readonly #matched = new Set<Logged>()
  /** Steps of which it is not known whether they are missing, though something new was asked for in their place. */
  readonly #doubted = new Set<Logged>()
  /** Set in a run that goes on with the log of an earlier process: what the log does not have is held back. */
  onMismatch: OnMismatch | undefined
  /** Number of steps that code which is the same still has to ask for. */
  awaited = 0
  /** True if something new was asked for before all that the log has was: the code has changed, or has no order. */
  hasStrayed = false
  /** Called for each step that was asked for again. */
  onMatch: () => void = () => {}
  readonly #name: (index: number) => string
  /** All steps before this index are matched. Most turns repeat their steps in the same order. */
  #first = 0

  /** Reads the logged frames of that turn of agent `me`, which are contiguous in `memory` from `start` to `end`. */
  constructor(me: number, turn: number, memory: Memory, start: number, end: number, name: (index: number) => string) {
    this.#name = name
    this.#turn = new LoggedTurn(me, turn, memory, start, end)
    for (const { awaited } of this.#turn.steps) if (awaited) this.awaited += 1
  }

  /** Last step number used by earlier attempts; the new attempt continues after it. */
  get nextStep(): number {
    return this.#turn.last
  }

  /** The order in which all of it settles again. */
  get script(): Script {
    return this.#turn.script
  }

  /** Changes whenever the turn gets on. */
  get progress(): string {
    return `${this.#matched.size} ${this.script.open}`
  }

  /**
   * Returns the logged send, request, call or chunk that is the same. Its frame has the number of the wait. One that
   * failed with its attempt is done again (`isUndone`).
   */
  match(frame: Memory): Logged | undefined {
    return this.#take(
      (step) =>
        sameStep(step.memory, step.at, frame, 0) ||
        sameByName(step.memory, step.at, frame, this.#name) ||
        sameUnmarked(step.memory, step.at, frame),
    )
  }

  /** Matches a host call by its leading arguments alone. The arguments after them may differ between attempts. */
  matchCall(operation: string, alike: object): Logged | undefined {
    const isLike = isCallLike(operation, alike)
    return this.#take((step) => !step.isUndone && isLike(step)) ?? this.#take(isLike)
  }

  /**
   * Checks whether the log has that call of a tool, and no approval before it: an earlier version asked a person within
   * the call, or nobody had to be asked.
   */
  asksWithin(callId: string): boolean {
    const has = (operation: string) =>
      this.#turn.steps.some((step) => !step.isUndone && isCallOf(step, operation, callId))
    return has('tool') && !has('approve')
  }

  /** Returns the first unmatched step that fits and marks it as matched. */
  #take(fits: (step: Logged) => boolean): Logged | undefined {
    const { steps } = this.#turn
    const matched = this.#matched
    for (let step = steps[this.#first]; step && matched.has(step); step = steps[this.#first]) this.#first += 1
    for (let i = this.#first; i < steps.length; i++) {
      const step = steps[i]!
      if (matched.has(step) || !fits(step)) continue
      matched.add(step)
      if (step.awaited) this.awaited -= 1
      this.onMatch()
      return step
    }
    this.hasStrayed ||= this.script.open < Number.POSITIVE_INFINITY
    return undefined
  }

  matchStep(name: string, callId: string | undefined): Logged | undefined {
    return this.#take(isStepOf(name, callId))
  }

  /** Returns the next logged reading of the clock. */
  matchNow(): number | undefined {
    const found = this.#take(({ kind, memory, at }) => kind === NOW && readBody(memory, at).content === '')
    return found && timeOf(found.memory, found.at)
  }

  /** Returns the next logged look at the agents. `names`: undefined if they were the same as at the look before. */
  matchAgents(): { names: string[] | undefined } | undefined {
    const found = this.#take(({ kind, memory, at }) => kind === NOW && readBody(memory, at).content === SEES)
    if (!found) return undefined
    const { data } = readBody(found.memory, found.at)
    return { names: data === undefined ? undefined : JSON.parse(data) }
  }

  /**
   * Returns how many turns of its conversation a model's turn began with; undefined if the log does not say. It has a
   * reading unless there were none, or the answer of the host, which older versions always asked.
   */
  matchKnown(): number | undefined {
    if (this.nextStep === 0) return undefined
    const found = this.#take(
      ({ kind, memory, at }) => (kind === NOW || kind === CALL) && readBody(memory, at).content === MODEL_TURN,
    )
    if (!found) return 0
    if (found.settled) found.settled.isOver = true // nobody waits for it here
    const frame = found.kind === CALL ? found.settled?.frame : found
    const data = frame && readBody(frame.memory, frame.at).data
    return data === undefined ? undefined : (JSON.parse(data) as { known: number }).known
  }

  matchSleep(ms: number): Logged | undefined {
    return this.#take(({ kind, memory, at }) => kind === SLEEP && limitOf(memory, at) === ms)
  }

  /**
   * Stores a response that arrived before the new attempt repeated the step. Returns false if the step is not logged.
   */
  settle(correlation: number, memory: Memory): boolean {
    const step = this.#turn.find(correlation)
    if (!step) return false
    step.settled ??= this.#arrived(step, memory)
    this.script.last = { correlation, piece: 0 }
    return true
  }

  /** Stores a chunk that arrived before the new attempt repeated the step. Returns false if the step is not logged. */
  push(correlation: number, memory: Memory): boolean {
    const step = this.#turn.find(correlation)
    if (!step) return false
    this.script.last = { correlation, piece: step.pieces.push(this.#arrived(step, memory)) }
    return true
  }

  /** Makes the settlement of a step that was not asked for again yet. Later ones wait for that. */
  #arrived({ awaited }: Logged, memory: Memory): Settled {
    const settled = { frame: { memory, at: 0 }, index: this.script.next(), isRequired: awaited, isOver: false }
    this.script.add(settled)
    return settled
  }

  /**
   * Returns the steps that may be missing: nobody has asked for them, and they may be parts of a step that is open
   * still. Code that is the same comes to nothing new before that step is done.
   */
  doubts(): Logged[] {
    const isOpen = ({ settled }: Logged) => settled?.isOver === false
    const doubts = this.#turn.steps.filter(
      (step) => step.within.some(isOpen) && !this.#matched.has(step) && isDone(step),
    )
    for (const step of doubts) this.#doubted.add(step)
    return doubts
  }

  isMatched(step: Logged): boolean {
    return this.#matched.has(step)
  }

  /** Returns descriptions of the steps that code which is the same asks for, and that were not asked for again. */
  missing(name: (index: number) => string): string[] {
    return this.#turn.steps
      .filter((step) => (step.awaited || this.#doubted.has(step)) && !this.#matched.has(step))
      .map((step) => describeStep(step, name))
  }

  /** Returns descriptions of logged steps with an effect that the new attempt did not repeat. */
  unmatched(name: (index: number) => string): string[] {
    return this.#turn.steps
      .filter((step) => isDone(step) && !this.#matched.has(step) && !isNotice(step))
      .map((step) => describeStep(step, name))
  }
}

/** Checks for a step with an effect, which the next attempt does not do again. */
const isDone = (step: Logged): boolean =>
  !step.isUndone && (isStepFrame(step.kind) ? step.settled !== undefined : hasEffect(step.kind))

/*
 * Agents that a protocol script sees, in a team with a durable log. Agents come and go, so each look is logged: a
 * script that goes on in a later process sees at each place those that it saw there before.
 */

export class SeenAgents {
  readonly #outbox: Outbox
  readonly #turn: { readonly start: TurnStart; step: number }
  /** Names that were seen last. */
  #names: readonly string[] = []

  constructor(outbox: Outbox, turn: { readonly start: TurnStart; step: number }) {
    this.#outbox = outbox
    this.#turn = turn
  }

  /** Returns those that the script sees now. */
  among<T extends { readonly name: string }>(agents: readonly T[]): readonly T[] {
    const logged = this.#turn.start.replay?.matchAgents()
    if (!logged) {
      this.#log(agents.map(({ name }) => name))
      return agents
    }
    if (logged.names) this.#names = logged.names
    const byName = new Map(agents.map((agent) => [agent.name, agent]))
    return this.#names.flatMap((name) => byName.get(name) ?? [])
  }

  /** The log has the names again only where they have changed. */
  #log(names: readonly string[]): void {
    const isSame = names.length === this.#names.length && names.every((name, at) => name === this.#names[at])
    this.#names = names
    const { run, turn } = this.#turn.start
    this.#outbox.begin(NOW, run, turn, ++this.#turn.step, SEES, isSame ? undefined : JSON.stringify(names))
    this.#outbox.write(this.#outbox.size(), 'soon')
  }
}

/** Data of the message that a turn handles. */
export interface TurnStart {
  turn: number
  run: number
  view: RunView
  id: FrameId
  /** undefined for the start hook. */
  message: ReceivedMessage | undefined
  attempt: number
  /** Index of the caller, and its number for the request. `correlation` is 0 if no caller waits for a response. */
  caller: number
  correlation: number
  streams: boolean
  type: MessageType
  /** Epoch ms. */
  startedAt: number
  replay: Replay | undefined
  /** Slot among the open turns, for `Parking`. */
  slot: number
  /** True if the turn runs inside another turn of the agent. */
  nested: boolean
}
