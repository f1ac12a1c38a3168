/** Handles the frames that agents write: logs them in contiguous stretches, then acts on each by its kind. */

import { logLevel } from '../../actors/definition/tool.ts'
import { BROKEN, OUT_BLOCKED } from '../../mailbox/channel.ts'
import { decodeMessage, jsonIn } from '../../mailbox/codec.ts'
import { remainsOf } from '../../mailbox/dead-letters.ts'
import {
  ASKS,
  AWAITS_LOG,
  blank,
  CALL,
  CANCEL,
  CHUNK,
  CORRELATION,
  contentBytes,
  contentOf,
  correlationOf,
  END,
  FAILED,
  FRAGMENT,
  flagsOf,
  flawOf,
  frameFits,
  GO_ON,
  GROUP,
  HAS_THREAD,
  HEADER,
  KIND,
  kindOf,
  LIMIT_WAIT,
  LOG,
  lengthOf,
  limitOf,
  type Memory,
  MOST_GROUPS,
  NESTED,
  NOBODY,
  NOTHING,
  ownCopyOf,
  PART,
  PATCH,
  QUIET,
  REJECTED,
  REQUEST,
  RUN_INDEX,
  readBody,
  recipientOf,
  runOf,
  SEND,
  SLEEP,
  SLEPT,
  STEP,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  STREAM_WAIT,
  STREAMS,
  setCorrelation,
  setKind,
  setRecipient,
  stepOf,
  stringsFit,
  TO_ALL,
  TURN,
  timeOf,
  turnOf,
  WANTS_PERMIT,
  WHO,
  WRITTEN,
} from '../../mailbox/frame.ts'
import { AgentCrashedError, describe, type ErrorData, errorFrom, MessageRejectedError } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Incarnation, OwnDoing } from '../host/incarnation.ts'
import type { RunState } from '../host/run.ts'
import { fieldsIn, wordsIn } from '../logging/printed-lines.ts'
import type { Owners } from './owners.ts'

const FRAMES_A_SHARE = 64 // limit per agent; then the next agent is served
/** Limit on the calls of one agent that the host has not answered. */
const MOST_CALLS = 65_536
const LONGEST_NAME = 200

export class Router {
  readonly #host: Owners
  /** Epoch ms at which the frames that are routed were taken. */
  #takenAt = 0

  constructor(host: Owners) {
    this.#host = host
  }

  /** Takes what the agent has written, up to its share. True: there is more. */
  drain(agent: Agent, incarnation: Incarnation, share = FRAMES_A_SHARE): boolean {
    if (incarnation.broken) return false
    let more = false
    try {
      more = this.#drain(agent, incarnation, share)
    } catch (error) {
      this.#broken(agent, incarnation, describe(error))
    }
    if (Atomics.load(incarnation.channel.words, OUT_BLOCKED) === 1) this.#answerBlocked(incarnation)
    return more
  }

  #drain(agent: Agent, incarnation: Incarnation, share: number): boolean {
    const ring = incarnation.channel.outbox
    let count = 0
    while (count < share) {
      const at = ring.peekInvalid()
      if (at === BROKEN) throw new Error('a position or a length that cannot be')
      if (at < 0) break
      const kind = ring.memory.i32[(at >> 2) + KIND]! & 0xff
      if (kind !== FRAGMENT && kind !== PART) {
        count += this.#takeStretch(agent, incarnation, at, share - count)
        continue
      }
      const length = lengthOf(ring.memory, at)
      if (kind === FRAGMENT) {
        const whole = incarnation.joiner.join(ring.memory, at, length)
        ring.done(length)
        if (whole) this.#takeLarge(agent, incarnation, whole)
        count += 1
        continue
      }
      const index = runOf(ring.memory, at)
      if (!frameFits(ring.memory, at, ring.limit(), index)) throw new Error('a part of a length that none has')
      const whole = ownCopyOf(ring.memory, at, length)
      ring.done(length)
      this.#takePart(agent, incarnation, whole)
      count += 1
    }
    return count >= share
  }

  /**
   * Rings a thread that waits for room in its outbox, once half of the ring is free. That always happens: what is left
   * there is read soon.
   */
  #answerBlocked({ channel, thread }: Incarnation): void {
    if (channel.outbox.used() > channel.outbox.capacity >> 1) return
    if (Atomics.compareExchange(channel.words, OUT_BLOCKED, 1, 0) === 1) thread.wake()
  }

  #takeLarge(agent: Agent, incarnation: Incarnation, memory: Memory): void {
    const index = runOf(memory, 0)
    if (!frameFits(memory, 0, memory.u8.length, index)) throw new Error('a frame that is not what its parts were of')
    if (kindOf(memory, 0) === PART) return this.#takePart(agent, incarnation, memory)
    const run = this.#runOf(agent, index)
    if (!run) return this.#withoutRun(agent, incarnation, memory, 0)
    this.#takenAt = this.#host.journal.appendOwned(run, memory, lengthOf(memory, 0)).at
    this.#route(agent, incarnation, run, memory, 0)
  }

  /** Stores the bytes of a part. Frames behind it refer to them by their hash, which the host computes itself. */
  #takePart(agent: Agent, incarnation: Incarnation, memory: Memory): void {
    const run = this.#runOf(agent, runOf(memory, 0))
    const flaw = flawOf(memory, 0, agent.index)
    const bytes = flaw === undefined ? contentBytes(memory, 0) : undefined
    if (!run) return
    if (!bytes) return this.#refuse(agent, incarnation, run, memory, 0, flaw ?? 'it has no bytes')
    try {
      this.#host.parts.put(run, bytes)
    } catch (error) {
      this.#host.logger.error({ agent: agent.name, runId: run.id, error: describe(error) }, 'a part was not stored')
    }
  }

  /**
   * Takes frames of one run that stand one after the other: copies them into the log at once, then routes each from
   * there. The thread can still write to the ring, so only the copy counts.
   */
  #takeStretch(agent: Agent, incarnation: Incarnation, start: number, share: number): number {
    const ring = incarnation.channel.outbox
    const { memory } = ring
    const { i32 } = memory
    const limit = ring.limit()
    const index = i32[(start >> 2) + RUN_INDEX]!
    let end = start
    let count = 0
    while (count < share && end < limit) {
      const kind = i32[(end >> 2) + KIND]! & 0xff
      const length = i32[end >> 2]!
      if (kind === FRAGMENT || kind === PART || i32[(end >> 2) + RUN_INDEX] !== index) break
      if (length < HEADER || (length & 7) !== 0 || length > limit - end) break
      end += length
      count += 1
    }
    if (count === 0) throw new Error('a frame of a length that none has')
    const known = this.#host.runs.get(index)
    const run = known?.members.has(agent.index) ? known : undefined
    const logged = run && this.#host.journal.appendFrames(run, memory, start, end, count)
    const block = logged ?? { memory: ownCopyOf(memory, start, end - start), from: 0, to: end - start }
    if (logged) this.#takenAt = logged.at
    ring.done(end - start)
    const copy = block.memory.i32
    for (let at = block.from; at < block.to; at += copy[at >> 2]!) {
      if (!frameFits(block.memory, at, block.to, index)) {
        blank(block.memory, at, block.to)
        throw new Error('a frame that changed while it was read')
      }
      this.#host.journal.frames |= 1 << (copy[(at >> 2) + KIND]! & 31)
      if (run) this.#route(agent, incarnation, run, block.memory, at)
      else this.#withoutRun(agent, incarnation, block.memory, at)
    }
    return count
  }

  #runOf(agent: Agent, index: number): RunState | undefined {
    const run = this.#host.runs.get(index)
    return run?.members.has(agent.index) ? run : undefined
  }

  /**
   * Handles a frame from a start hook, which belongs to no run, or from a run that is forgotten. Only its log output
   * for people counts.
   */
  #withoutRun(agent: Agent, incarnation: Incarnation, memory: Memory, at: number): void {
    const flaw = flawOf(memory, at, agent.index)
    const kind = kindOf(memory, at)
    if (flaw === undefined && kind === LOG) return this.#log(agent, undefined, memory, at)
    if (flaw === undefined && kind === WANTS_PERMIT) return this.#goOn(agent, memory, at)
    if (flaw !== undefined || kind === SEND || kind === REQUEST)
      this.#refuse(
        agent,
        incarnation,
        undefined,
        memory,
        at,
        flaw ?? 'it belongs to no run that its agent takes part in',
      )
  }

  #route(agent: Agent, incarnation: Incarnation, run: RunState, memory: Memory, at: number): void {
    const flaw = flawOf(memory, at, agent.index)
    if (flaw !== undefined) return this.#refuse(agent, incarnation, run, memory, at, flaw)
    try {
      const { i32 } = memory
      const i = at >> 2
      const kind = i32[i + KIND]! & 0xff
      if (kind === END) {
        const envelope = agent.mailbox.handed.get(i32[i + TURN]!)
        incarnation.doings.over(i32[i + TURN]!)
        if (envelope?.run === run) return this.#host.commits.end(agent, incarnation, envelope, memory, at)
        return this.#ofNoTurn(agent, incarnation, run, memory, at)
      }
      const turn = i32[i + TURN]!
      if (turn !== 0 && kind !== QUIET) incarnation.doings.stirs(turn, this.#takenAt)
      if (kind !== SEND && kind !== REQUEST) return this.#routeOther(agent, incarnation, run, memory, at)
      const correlation = i32[i + CORRELATION]!
      const sender = agent.instances[0]!
      incarnation.lastTurn = turn
      incarnation.lastStep = i32[i + STEP]!
      if (kind === REQUEST && agent.open.has(correlation))
        return this.#refuse(agent, incarnation, run, memory, at, 'it asks under the number of a request that is open')
      if (correlation !== 0) noteCorrelation(agent, correlation)
      if (kind === SEND && i32[i + WHO]! >>> 16 === NOBODY && ((i32[i + KIND]! >>> 8) & TO_ALL) !== 0)
        return this.#host.hostMessages.broadcast(sender, run, memory, at)
      this.#host.admission.message({ sender, run, memory, at, settle: undefined })
      if (kind === REQUEST && agent.mailbox.handed.get(turn)?.cancelled) this.#giveBack(agent, run, memory, at)
    } catch (error) {
      this.#host.logger.error({ agent: agent.name, error: describe(error) }, 'a frame of the agent was refused')
    }
  }

  #routeOther(agent: Agent, incarnation: Incarnation, run: RunState, memory: Memory, at: number): void {
    switch (kindOf(memory, at)) {
      case CHUNK:
        if (flagsOf(memory, at) & STREAMS) this.#chunk(agent, memory, at)
        return
      case CALL:
        noteCorrelation(agent, correlationOf(memory, at))
        if (isWithdrawn(agent, memory, at)) return this.#giveBack(agent, run, memory, at)
        if (agent.calls.size < MOST_CALLS) return this.#host.calls.serve(agent.first, run, memory, at)
        return this.#refuse(agent, incarnation, run, memory, at, `it has ${MOST_CALLS} calls open`)
      case CANCEL:
        return this.#host.cancellation.cancel(agent.first, correlationOf(memory, at), undefined)
      case STREAM_READ:
        return this.#streamRead(agent, memory, at)
      case STREAM_WAIT:
        if (limitOf(memory, at) === 1) incarnation.awaitReader.set(turnOf(memory, at), timeOf(memory, at))
        else incarnation.awaitReader.delete(turnOf(memory, at))
        return
      case REJECTED: {
        const { remains, error } = Object(jsonIn(readBody(memory, at).data)) as { remains: unknown; error: ErrorData }
        const left = remainsOf(remains)
        if (left) return this.#host.journal.refused(run, { ...left, sender: agent.name }, errorFrom(error))
        return this.#refuse(agent, incarnation, run, memory, at, 'it tells of a message to nobody')
      }
      case GROUP:
        return this.#group(agent, memory, at)
      case PATCH:
        if (agent.mailbox.handed.get(turnOf(memory, at))?.run === run)
          return this.#host.commits.patch(incarnation, memory, at)
        return this.#ofNoTurn(agent, incarnation, run, memory, at)
      case NESTED: {
        const envelope = agent.mailbox.handed.get(turnOf(memory, at))
        if (envelope?.run === run && envelope.within && !incarnation.begun(envelope))
          return this.#host.dispatcher.nestedBegan(agent, envelope)
        return this.#ofNoTurn(agent, incarnation, run, memory, at)
      }
      case WANTS_PERMIT:
        return this.#goOn(agent, memory, at)
      case QUIET:
        if (limitOf(memory, at) !== 1) return
        if (incarnation.quiet.answered(turnOf(memory, at), correlationOf(memory, at)))
          this.#host.ready.touchInstance(agent)
        return this.#host.suspension.consider(agent.first, turnOf(memory, at))
      case SLEEP:
        return this.#begins(agent, incarnation, memory, at, 'sleep')
      case STEP_DONE:
      case SLEPT:
        return incarnation.doings.ends(turnOf(memory, at), stepOf(memory, at))
      case STEP_BEGAN:
        if (this.#host.isHandingOver && flagsOf(memory, at) & FAILED) return setKind(memory, at, NOTHING)
        this.#begins(agent, incarnation, memory, at, flagsOf(memory, at) & HAS_THREAD ? 'tool' : 'step')
        if (flagsOf(memory, at) & AWAITS_LOG)
          void this.#beginWhenWritten(agent, run, turnOf(memory, at), stepOf(memory, at))
        return
      case LIMIT_WAIT:
        return this.#host.keptLimits.take(agent, incarnation, run, memory, at)
      case LOG:
        return this.#log(agent, run, memory, at)
    }
  }

  /**
   * Takes back what a turn asks for that was withdrawn and does not know it yet, as its thread would when it learns it:
   * a model, a tool or an agent would work for nobody.
   */
  #giveBack(agent: Agent, run: RunState, memory: Memory, at: number): void {
    const [correlation, turn] = [correlationOf(memory, at), turnOf(memory, at)]
    this.#host.cancellation.logCancel({ caller: agent.first, correlation, run, turn })
    if (agent.first.open.has(correlation)) this.#host.cancellation.cancel(agent.first, correlation, run.ending)
  }

  /** Notes what an open turn begins to do in its thread. */
  #begins({ mailbox }: Agent, { doings }: Incarnation, memory: Memory, at: number, kind: OwnDoing['kind']): void {
    const turn = turnOf(memory, at)
    if (!mailbox.handed.get(turn)) return
    const name = contentOf(memory, at).slice(0, LONGEST_NAME)
    doings.begins(turn, stepOf(memory, at), { kind, name, since: this.#takenAt })
  }

  /** Lets a step begin when the durable log has it. If the log is lost, its run is ended. */
  async #beginWhenWritten(agent: Agent, run: RunState, turn: number, step: number): Promise<void> {
    const isWritten = await Promise.resolve(this.#host.journal.written()).then(
      () => true,
      () => false,
    )
    if (isWritten)
      this.#host.replies.reply(agent, this.#host.frames.make({ kind: WRITTEN, run: run.index, turn, step }))
  }

  /**
   * Answers a turn that gave up its permit and would resume by itself. The answer arrives when the turn has a permit
   * again, like everything that it waits for.
   */
  #goOn(agent: Agent, memory: Memory, at: number): void {
    this.#host.replies.reply(agent, this.#host.frames.control(GO_ON, runOf(memory, at), turnOf(memory, at)))
  }

  /** Handles a frame of a turn that is not open. Frames of an abandoned protocol script are ignored. */
  #ofNoTurn(agent: Agent, incarnation: Incarnation, run: RunState, memory: Memory, at: number): void {
    if (agent.settings.isAgent) this.#refuse(agent, incarnation, run, memory, at, 'the agent has no such turn open')
    else setKind(memory, at, NOTHING)
  }

  /** Passes a piece of an answer on to who waits for it: after a handoff that is not who has asked this agent. */
  #chunk(agent: Agent, memory: Memory, at: number): void {
    const envelope = agent.mailbox.handed.get(turnOf(memory, at))
    const request = envelope && this.#host.requests.of(envelope)
    if (!request || request.settle) return
    setRecipient(memory, at, request.caller.index)
    setCorrelation(memory, at, request.correlation)
    this.#host.replies.passOn(request.caller, memory, at, CHUNK, request.turn)
  }

  /** Notes a group of requests. One of a turn that is not open would be kept for ever, so it is ignored. */
  #group({ first, mailbox }: Agent, memory: Memory, at: number): void {
    const [turn, group] = [turnOf(memory, at), correlationOf(memory, at)]
    const envelope = mailbox.handed.get(turn)
    if (!envelope || group < 1 || group > MOST_GROUPS) return
    first.groups.note(turn, group, Math.max(0, limitOf(memory, at)), envelope.attempt)
  }

  #streamRead(agent: Agent, memory: Memory, at: number): void {
    const request = agent.open.get(correlationOf(memory, at))
    if (!request) return
    const { run, turn } = request.envelope
    const frame = this.#host.frames.make({ kind: STREAM_READ, run: run.index, turn, limit: limitOf(memory, at) })
    this.#host.replies.reply(request.callee, frame)
  }

  #log(agent: Agent, run: RunState | undefined, memory: Memory, at: number): void {
    const { content, data } = readBody(memory, at)
    if (flagsOf(memory, at) & HAS_THREAD) return // output for viewers of the run: see toolEventOf
    if (content === '' && data === undefined) return
    this.#host.logger[logLevel(limitOf(memory, at))](
      { ...fieldsIn(data), agent: agent.name, ...(run && { runId: run.id }) },
      wordsIn(content),
    )
  }

  // ---- bytes that the runtime did not write

  /** Ends a thread whose outbox cannot be read, since the thread could go on writing. Its open work is given back. */
  #broken(agent: Agent, incarnation: Incarnation, what: string): void {
    incarnation.broken = true
    const error = new AgentCrashedError(
      `The outbox of agent "${agent.name}" cannot be read any more (${what}), so its thread was ended. Only the runtime writes there: look for code in its thread that gets hold of shared memory.`,
      { agent: agent.name, epoch: incarnation.epoch },
    )
    this.#host.logger.error(
      { agent: agent.name, epoch: incarnation.epoch, error: error.message },
      'the agent was ended',
    )
    if (agent.incarnation === incarnation) incarnation.kill(error)
  }

  /**
   * Refuses a frame: it has no effect beyond this. For a message the recipient gets a dead letter, and the sender is
   * notified.
   */
  #refuse(
    agent: Agent,
    incarnation: Incarnation,
    run: RunState | undefined,
    memory: Memory,
    at: number,
    flaw: string,
  ): void {
    const kind = kindOf(memory, at)
    this.#warn(agent, incarnation, kind, flaw)
    const isMessage = kind === SEND || kind === REQUEST
    const error = new MessageRejectedError(`A frame of agent "${agent.name}" was refused: ${flaw}.`, {
      agent: agent.name,
      kind,
      flaw,
    })
    if (isMessage) this.#bury(agent, run, memory, at, error)
    setKind(memory, at, NOTHING)
    const correlation = correlationOf(memory, at)
    if (!isMessage || !run || correlation <= 0 || agent.open.has(correlation)) return
    if (kind === SEND) return this.#host.requests.acknowledge(agent, run, memory, at, error)
    const turn = turnOf(memory, at)
    this.#host.requests.refuse({ caller: agent, correlation, run, turn, settle: undefined, from: 0, memory, at }, error)
  }

  /** Logs the refusal. In a flood it logs ever more rarely: with the first, the second, the fourth. */
  #warn(agent: Agent, incarnation: Incarnation, kind: number, flaw: string): void {
    incarnation.refusedFrames += 1
    if ((incarnation.refusedFrames & (incarnation.refusedFrames - 1)) !== 0) return
    this.#host.logger.warn(
      { agent: agent.name, epoch: incarnation.epoch, kind, flaw, frames: incarnation.refusedFrames },
      'the agent wrote a frame that no agent may write; it was refused',
    )
  }

  #bury(agent: Agent, run: RunState | undefined, memory: Memory, at: number, error: MessageRejectedError): void {
    const callee = this.#host.directory.byIndex[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#host.mailboxes.freed(callee, lengthOf(memory, at))
    const given = stringsFit(memory, at) ? decodeMessage(memory, at, this.#host.names) : { recipient: undefined }
    const remains = remainsOf({ ...given, recipient: callee?.name ?? given.recipient, sender: agent.name })
    if (remains) this.#host.journal.refused(run, remains, error)
  }
}

const isWithdrawn = (agent: Agent, memory: Memory, at: number): boolean =>
  agent.mailbox.handed.get(turnOf(memory, at))?.cancelled === true

/**
 * Notes the highest number of the agent's waits. Sends that were held back come later than waits with a higher number,
 * and the numbers begin anew at their end. A turn that another instance began may write a number of that instance.
 */
function noteCorrelation(agent: Agent, correlation: number): void {
  if ((correlation - agent.correlation) % agent.settings.instances !== 0) return
  if (correlation > agent.correlation || agent.correlation - correlation > 2 ** 30) agent.correlation = correlation
}
