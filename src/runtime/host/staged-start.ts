/**
 * Lets the turns of earlier processes begin with care after such a process has died. If nothing is known against them,
 * the first turn of each agent only waits until the log has it. Turns that may have ended processes (suspects) begin in
 * stages, and nothing else in the team begins meanwhile, so the log knows which one the process dies of.
 *
 * A stage ends when its turns have got further, have ended, or only wait for others or a model, or when its time is up.
 */

import {
  CALL,
  correlationOf,
  END,
  idOf,
  kindOf,
  lengthOf,
  limitOf,
  type Memory,
  QUIET,
  REQUEST,
  RESULT,
  recipientOf,
  SEND,
  STEP_DONE,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Timer } from '../../shared/clock.ts'
import type { Batch, GivenTurn } from '../log/records.ts'
import type { Agent } from './agent.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import type { Reader } from './journal.ts'
import type { ReplyQueue } from './replies.ts'
import type { RunState } from './run.ts'

export interface Suspect {
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
}

export interface Stage {
  readonly suspects: readonly Suspect[]
  readonly limitMs: number
}

const LONGEST_PAUSE_MS = 100
/** Frames of a turn that has got further than its earlier attempts. */
const PROGRESS: ReadonlySet<number> = new Set([SEND, REQUEST, CALL, STEP_DONE, END])

export class StagedStart implements Reader {
  readonly kinds = ['frames', 'turn.started', 'message.dead'] as const
  readonly #core: Core
  readonly #replies: ReplyQueue
  /** Agents whose first turn waits for the log; true once the log is asked. */
  readonly #firsts = new Map<Agent, boolean>()
  #stages: Stage[] = []
  #stage: Stage | undefined
  readonly #mayBegin = new Set<Envelope<RunState>>()
  /** Suspects that have begun, and have neither got further nor ended. */
  readonly #open = new Map<Envelope<RunState>, Agent>()
  /** Turns that only waited, with the number of frames that their thread had been given by then. */
  readonly #resting = new Map<Envelope<RunState>, readonly [life: Incarnation, told: number]>()
  readonly #questions = new Map<number, Envelope<RunState>>()
  #hasStarted = false
  /** True while nothing is held back: then it reads nothing. */
  isIdle = true
  readonly #waiting = new Map<Envelope<RunState>, (() => void)[]>()
  #timer: Timer | undefined

  constructor(core: Core, replies: ReplyQueue) {
    this.#core = core
    this.#replies = replies
  }

  /** True if it has to be asked before a message is handed over. */
  get isAsked(): boolean {
    return !this.isIdle || this.#firsts.size > 0
  }

  /** True while nothing begins but what is in the present stage. */
  get isHolding(): boolean {
    return !this.isIdle
  }

  /** Lets the first turn of these agents wait for the log. */
  watch(agents: Iterable<Agent>): void {
    for (const agent of agents) this.#firsts.set(agent.first, false)
  }

  /** Holds everything back until the suspects have begun, stage by stage. */
  hold(stages: readonly Stage[]): void {
    if (stages.length === 0) return
    this.#stages.push(...stages)
    this.isIdle = false
    if (this.#hasStarted) this.#core.clock.defer(() => this.#go())
  }

  /** Notes that the agents have started: what ends the process from now on is no code that starts. */
  start(): void {
    this.#hasStarted = true
    this.#go()
  }

  #go(): void {
    if (!this.isIdle && !this.#stage) this.#next()
  }

  /** Resolves when the turn of that message may begin, or will not begin any more; undefined if nothing is held. */
  until(envelope: Envelope<RunState>): Promise<void> | undefined {
    if (this.isIdle || this.#mayBegin.has(envelope)) return undefined
    return new Promise((resolve) => {
      this.#waiting.set(envelope, [...(this.#waiting.get(envelope) ?? []), resolve])
    })
  }

  allows(envelope: Envelope<RunState>): boolean {
    return this.isIdle || this.#mayBegin.has(envelope)
  }

  heldFor(agent: Agent): Envelope<RunState> | undefined {
    if (!agent.interleaves && agent.mailbox.handed.size > 0) return undefined
    for (const envelope of nextOf(agent)) if (this.#mayBegin.has(envelope) && !agent.isAt(envelope.run)) return envelope
    return undefined
  }

  /** Checks whether the first turn of the agent has to wait until the log has it. */
  waitsForLog(agent: Agent): boolean {
    const { first, mailbox } = agent
    const isAsked = this.#firsts.get(first)
    if (isAsked !== false || mailbox.waiting === 0) return isAsked === true
    const next = nextOf(first)
    if (next.length === 0) {
      this.#firsts.delete(first) // a turn of it has begun
      return false
    }
    this.#firsts.set(first, true)
    const begins = () => {
      this.#firsts.delete(first)
      this.#wake([first])
    }
    this.#log(
      next.map((envelope) => ({ agent: first, envelope })),
      false,
    ).then(begins, begins) // without a log the run is interrupted anyway
    return true
  }

  #log(suspects: Iterable<Suspect>, alone: boolean): Promise<void> {
    const turns: GivenTurn[] = []
    for (const { agent, envelope } of suspects) {
      agent.mailbox.number(envelope)
      turns.push([agent.index, envelope.turn, envelope.attempt, idOf(envelope.memory, envelope.at)])
    }
    this.#core.journal.keep(undefined, { kind: 'turn.begins', turns, alone })
    return Promise.resolve(this.#core.journal.written())
  }

  #wake(agents: Iterable<Agent>): void {
    for (const agent of agents) this.#core.ready.touch(agent)
    this.#core.loop.wake()
  }

  // ---- stages

  #next(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#stage = undefined
    for (let stage = this.#stages.shift(); stage; stage = this.#stages.shift()) {
      const suspects = stage.suspects.flatMap((suspect) => this.#withOuter(suspect))
      const next = suspects.filter(({ agent, envelope }) => isNext(agent, envelope))
      if (next.length === 0) continue
      this.#stage = stage
      void this.#begin(stage, next)
      return
    }
    const release = () => {
      if (this.#stages.length > 0) this.#next()
      else this.#release()
    }
    this.#log([], false).then(release, release) // what begins now is not the last stage's fault
  }

  /** Returns a suspect, behind the turns within which it runs. */
  #withOuter({ agent, envelope }: Suspect): Suspect[] {
    const all: Suspect[] = []
    for (let each: typeof envelope | undefined = envelope; each; each = each.within)
      all.unshift({ agent, envelope: each })
    return all
  }

  async #begin(stage: Stage, suspects: readonly Suspect[]): Promise<void> {
    const alone = this.#areAlone()
    for (const { agent, envelope } of suspects) this.#open.set(envelope, agent)
    const all = Array.from(this.#open, ([envelope, agent]) => ({ agent, envelope }))
    try {
      await this.#log(all, alone)
    } catch {
      return this.#release() // the log is lost, and so the runs are interrupted
    }
    if (this.#stage !== stage) return
    for (const { envelope } of suspects) this.#let(envelope)
    this.#wake(suspects.map(({ agent }) => agent))
    this.#timer = this.#core.clock.timer(stage.limitMs, () => this.#next())
  }

  #let(envelope: Envelope<RunState>): void {
    this.#mayBegin.add(envelope)
    for (const resolve of this.#waiting.get(envelope) ?? []) resolve()
    this.#waiting.delete(envelope)
  }

  /** Checks that no turn is under way but suspects that have begun, and turns that only wait. */
  #areAlone(): boolean {
    for (const agent of this.#core.directory.actors)
      for (const envelope of agent.mailbox.handed.values())
        if (!this.#open.has(envelope) && !this.#rests(agent, envelope)) return false
    return true
  }

  #rests({ incarnation }: Agent, envelope: Envelope<RunState>): boolean {
    const [known, told] = this.#resting.get(envelope) ?? []
    return incarnation !== undefined && incarnation === known && incarnation.told === told
  }

  #release(): void {
    this.isIdle = true
    this.#mayBegin.clear()
    this.#open.clear()
    this.#resting.clear()
    this.#questions.clear()
    for (const waiting of this.#waiting.values()) for (const resolve of waiting) resolve()
    this.#waiting.clear()
    this.#wake(this.#core.directory.actors)
  }

  // ---- what the suspects do

  next(batch: Batch): void {
    for (const entry of batch)
      if (entry.kind === 'frames')
        for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry.memory, at)
      else if (entry.kind === 'turn.started') this.#began(entry.index, entry.turn)
      else if (entry.kind === 'message.dead')
        this.#clear(({ memory, at }) => idOf(memory, at) === entry.letter.message.id)
    if (this.#stage?.suspects.every(({ envelope }) => !this.#open.has(envelope)) && this.#timer) this.#next()
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (kind === QUIET) return this.#answered(memory, at)
    const [sender, turn] = [senderOf(memory, at), turnOf(memory, at)]
    const whose = PROGRESS.has(kind) ? sender : kind === RESULT ? recipientOf(memory, at) : undefined
    if (whose !== undefined) this.#clear((envelope, agent) => agent.index === whose && envelope.turn === turn)
  }

  #clear(fits: (envelope: Envelope<RunState>, agent: Agent) => boolean): void {
    for (const [envelope, agent] of this.#open) if (fits(envelope, agent)) this.#open.delete(envelope)
  }

  /** Asks a turn that was handed over whether it only waits. */
  #began(index: number, turn: number): void {
    for (const [envelope, agent] of this.#open)
      if (agent.index === index && envelope.turn === turn) this.#ask(agent, envelope, 1)
  }

  #ask(agent: Agent, envelope: Envelope<RunState>, pauseMs: number): void {
    if (!this.#open.has(envelope)) return
    const holder = agent.holderOf(envelope.turn)
    if (holder?.incarnation?.begun(envelope)) {
      this.#questions.set(this.#replies.probe(holder, envelope.turn), envelope)
      return
    }
    this.#core.clock.timer(pauseMs, () => {
      this.#ask(agent, envelope, Math.min(2 * pauseMs, LONGEST_PAUSE_MS))
      this.#core.loop.wake()
    })
  }

  #answered(memory: Memory, at: number): void {
    const envelope = this.#questions.get(correlationOf(memory, at))
    const agent = envelope && this.#open.get(envelope)
    if (!envelope || !agent || agent.index !== senderOf(memory, at) || limitOf(memory, at) === 0) return
    const { incarnation } = agent.holderOf(envelope.turn) ?? agent
    if (incarnation) this.#resting.set(envelope, [incarnation, incarnation.told])
    this.#open.delete(envelope)
  }

  close(): void {
    this.#timer?.cancel()
  }
}

/** Returns the messages that the agent could be handed now. */
function nextOf({ instances, interleaves, mailbox }: Agent): Envelope<RunState>[] {
  let free = 0
  for (const each of instances)
    if (interleaves) free += Math.max(0, each.settings.concurrency - each.openRuns)
    else if (each.mailbox.handed.size === 0) free += 1
  const next: Envelope<RunState>[] = []
  for (const envelope of mailbox.queued()) {
    if (next.length >= free) break
    if (!envelope.within) next.push(envelope)
  }
  return next
}

/** Checks whether the message could be handed over now. One that runs within a turn goes with that turn. */
function isNext(agent: Agent, envelope: Envelope<RunState>): boolean {
  if (!envelope.within) return nextOf(agent).includes(envelope)
  for (const each of agent.mailbox.nested) if (each === envelope) return true
  return false
}
