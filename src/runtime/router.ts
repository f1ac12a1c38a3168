/** What becomes of the frames that an agent writes: logged in contiguous stretches, then each does what its kind says. */

import { logLevel } from '../actors/agent-loop.ts'
import type { PatchNotice } from '../actors/assignment.ts'
import {
  AgentTerminatedError,
  CancelledError,
  type DramatisError,
  MailboxFullError,
  StepMismatchError,
  UnknownAgentError,
} from '../errors.ts'
import { errorOf, isFailure } from '../mailbox/codec.ts'
import {
  ACCEPTED,
  ANNOUNCED,
  ASKS,
  CALL,
  CANCEL,
  CHUNK,
  correlationOf,
  END,
  FRAGMENT,
  flagsOf,
  HAS_METADATA,
  HAS_NAME,
  idOf,
  kindOf,
  LOG,
  lengthOf,
  limitOf,
  PATCH,
  priorityOf,
  REFUSED,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  runOf,
  SEND,
  STREAM_READ,
  STREAMS,
  senderOf,
  setCorrelation,
  setFlag,
  setKind,
  setTurn,
  stepOf,
  turnOf,
} from '../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../mailbox/mailbox.ts'
import { allocate, type Memory } from '../mailbox/memory.ts'
import { OUT_BLOCKED } from '../mailbox/window.ts'
import type { Cell, Life, OpenRequest } from './cell.ts'
import { type Core, ORCHESTRATOR_INDEX, type Routing, USER_INDEX } from './core.ts'
import type { OwnFrame } from './host-frames.ts'
import { nearest } from './nearest.ts'
import type { RunState } from './run-state.ts'

type Refusal = 'unknown_agent' | 'stopped' | 'rejected' | 'cancelled'

const FRAMES_A_TICK = 256 // of one agent; then it is the next one's turn

export class Router implements Routing {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** Takes what the agent has written, up to its share; true: there is more. */
  drain(cell: Cell, life: Life, share = FRAMES_A_TICK): boolean {
    const ring = life.window.outbox
    let count = 0
    while (count < share) {
      const at = ring.peek()
      if (at < 0) break
      if (kindOf(ring.memory, at) === FRAGMENT) {
        const whole = life.joiner.join(ring.memory, at)
        ring.pass(lengthOf(ring.memory, at))
        ring.release()
        if (whole) this.#takeLarge(cell, life, whole)
        count += 1
        continue
      }
      count += this.#takeStretch(cell, life, at, share - count)
    }
    if (count > 0) ring.release()
    this.#answerBlocked(life)
    return count >= share
  }

  /** The thread waits for room in its outbox: it has some now. */
  #answerBlocked({ window, thread }: Life): void {
    if (Atomics.load(window.words, OUT_BLOCKED) === 1 && Atomics.compareExchange(window.words, OUT_BLOCKED, 1, 0) === 1)
      thread.ring()
  }

  #takeLarge(cell: Cell, life: Life, memory: Memory): void {
    const run = this.#core.runs.get(runOf(memory, 0))
    if (!run) return
    this.#core.appendOwned(run, memory, lengthOf(memory, 0))
    this.#route(cell, life, run, memory, 0)
  }

  /** Frames of one run that stand one after the other: one copy into the log, then each is routed from there. */
  #takeStretch(cell: Cell, life: Life, start: number, share: number): number {
    const ring = life.window.outbox
    const { memory } = ring
    const limit = ring.limit()
    const index = runOf(memory, start)
    let end = start
    let count = 0
    while (count < share && end < limit) {
      const length = lengthOf(memory, end)
      if (length <= 0 || runOf(memory, end) !== index || kindOf(memory, end) === FRAGMENT) break
      end += length
      count += 1
    }
    const run = this.#core.runs.get(index)
    if (run) {
      const block = this.#core.appendFrames(run, memory, start, end, count)
      for (let at = block.from; at < block.to; at += lengthOf(block.memory, at))
        this.#route(cell, life, run, block.memory, at)
    }
    ring.pass(end - start)
    return count
  }

  #route(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void {
    switch (kindOf(memory, at)) {
      case SEND:
        life.lastTurn = turnOf(memory, at)
        life.lastStep = stepOf(memory, at)
        noteCorrelation(cell, correlationOf(memory, at))
        return this.message(cell, run, memory, at, undefined)
      case REQUEST:
        life.lastTurn = turnOf(memory, at)
        life.lastStep = stepOf(memory, at)
        noteCorrelation(cell, correlationOf(memory, at))
        return this.message(cell, run, memory, at, undefined)
      case END:
        return this.#end(cell, life, run, memory, at)
      case CHUNK:
        if (flagsOf(memory, at) & STREAMS) this.#chunk(memory, at)
        return
      case CALL:
        noteCorrelation(cell, correlationOf(memory, at))
        return this.#core.calls.serve(cell, run, memory, at)
      case CANCEL:
        return this.cancel(cell, correlationOf(memory, at), undefined)
      case STREAM_READ:
        return this.#streamRead(cell, memory, at)
      case PATCH:
        return this.#patch(life, memory, at)
      case LOG:
        return this.#log(cell, run, memory, at)
    }
  }

  // ---- messages

  /** A message for somebody's mailbox, from an agent or (with `settle`) from a caller in the host. */
  message(sender: Cell, run: RunState, memory: Memory, at: number, settle: OpenRequest['settle']): void {
    const named = flagsOf(memory, at) & HAS_NAME ? readBody(memory, at).name : undefined
    const callee = named === undefined ? this.#core.cells[recipientOf(memory, at)] : this.#core.cell(named)
    const name = named ?? callee?.name ?? `#${recipientOf(memory, at)}`
    const refuse = (reason: Refusal, error: DramatisError) => {
      this.#refuse(sender, run, memory, at, reason, error, settle)
      if (callee && !(flagsOf(memory, at) & ASKS)) this.freed(callee, lengthOf(memory, at)) // its sender had claimed it
    }
    if (run.ending) return refuse('cancelled', run.ending)
    if (!callee || !mayReach(sender, callee)) return refuse('unknown_agent', this.#unknown(name))
    if (callee.stopped) return refuse('stopped', this.#terminated(callee))
    const envelope: Envelope<RunState> = {
      memory,
      at,
      bytes: lengthOf(memory, at),
      run,
      priority: priorityOf(memory, at),
      turn: 0,
      attempt: 1,
      lane: 'plain',
      windowAt: 0,
      windowEnd: 0,
      handedSeq: 0,
      acceptedAt: 0,
      startedAt: NOT_YET,
      begunAt: NOT_YET,
      announced: false,
      cancelled: false,
      deaths: null,
    }
    if (kindOf(memory, at) === REQUEST) this.#open(sender, callee, run, memory, at, envelope, settle)
    run.open += 1
    if (flagsOf(memory, at) & ASKS) this.#ask(callee, envelope)
    else this.#accept(callee, envelope)
  }

  #open(
    caller: Cell,
    callee: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    envelope: Envelope<RunState>,
    settle: OpenRequest['settle'],
  ): void {
    const correlation = correlationOf(memory, at)
    caller.open.set(correlation, {
      caller,
      correlation,
      run,
      turn: turnOf(memory, at),
      callee,
      envelope,
      streams: (flagsOf(memory, at) & STREAMS) !== 0,
      settle,
    })
  }

  #accept(callee: Cell, envelope: Envelope<RunState>): void {
    if (callee.settings.queueTimeoutMs !== false) envelope.acceptedAt = this.#core.clock.monotonic()
    callee.mailbox.push(envelope)
    this.#core.delivery.touch(callee)
  }

  /** The sender found no room. There may be some by now; a message larger than the mailbox is taken when it is alone. */
  #ask(callee: Cell, envelope: Envelope<RunState>): void {
    const { team } = this.#core
    if (callee.mailbox.parked.length === 0) {
      if (team.claim(callee.index, envelope.bytes)) return this.#admit(callee, envelope)
      if (envelope.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty) {
        team.force(callee.index, envelope.bytes)
        return this.#admit(callee, envelope)
      }
    }
    if (callee.settings.mailbox.overflow === 'block') return callee.mailbox.parked.push(envelope)
    const { capacity, bytes } = callee.settings.mailbox
    const error = new MailboxFullError(
      `The mailbox of agent "${callee.name}" is full (${capacity} messages or ${bytes} bytes); its overflow policy is 'reject'. Send more slowly, or raise communication.mailboxCapacity.`,
      { agent: callee.name, capacity, bytes },
    )
    const { run, memory, at } = envelope
    const request = this.requestOf(envelope)
    request?.caller.open.delete(request.correlation)
    run.open -= 1
    this.#refuse(this.#senderOf(envelope), run, memory, at, 'rejected', error, request?.settle)
  }

  #admit(callee: Cell, envelope: Envelope<RunState>): void {
    const { memory, at } = envelope
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0)
      this.#verdict(this.#senderOf(envelope), envelope.run, memory, at, undefined)
    this.#accept(callee, envelope)
  }

  /** A message has left the mailbox: its room goes to who waits for it, else back to all. */
  freed(callee: Cell, bytes: number): void {
    const { team } = this.#core
    team.release(callee.index, bytes)
    if (callee.stopped) return
    for (let parked = callee.mailbox.parked.peek(); parked; parked = callee.mailbox.parked.peek()) {
      const alone = parked.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty
      if (alone) team.force(callee.index, parked.bytes)
      else if (!team.claim(callee.index, parked.bytes)) return
      callee.mailbox.parked.shift()
      this.#admit(callee, parked)
    }
  }

  #senderOf(envelope: Envelope<RunState>): Cell {
    return this.#core.cells[senderOf(envelope.memory, envelope.at)]!
  }

  /** The message is dead, and its sender is told why. */
  #refuse(
    sender: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    reason: Refusal,
    error: DramatisError,
    settle: OpenRequest['settle'],
  ): void {
    this.#core.deadLetter(run, memory, at, reason, [error])
    const correlation = correlationOf(memory, at)
    if (kindOf(memory, at) === REQUEST)
      this.#answer(sender, run, correlation, senderOf(memory, at), turnOf(memory, at), error, settle)
    else if (correlation !== 0) this.#verdict(sender, run, memory, at, error)
  }

  /** Tells a sender that had to ask what came of it. */
  #verdict(sender: Cell, run: RunState, memory: Memory, at: number, error: DramatisError | undefined): void {
    const inHost = sender.verdicts.get(correlationOf(memory, at))
    if (inHost) {
      sender.verdicts.delete(correlationOf(memory, at))
      return inHost(error)
    }
    const fields = {
      sender: 0,
      recipient: sender.index,
      run: run.index,
      turn: turnOf(memory, at),
      correlation: correlationOf(memory, at),
    }
    const frame = error
      ? this.#core.frames.failure(REFUSED, fields, error)
      : this.#core.frames.make({ kind: ACCEPTED, ...fields })
    if (error) this.#core.appendOwned(run, frame.memory, frame.bytes)
    this.#core.delivery.reply(sender, frame)
  }

  /** A send that was still waiting for room will never get any. */
  refuseParked(envelope: Envelope<RunState>, error: DramatisError): void {
    if (correlationOf(envelope.memory, envelope.at) !== 0)
      this.#verdict(this.#senderOf(envelope), envelope.run, envelope.memory, envelope.at, error)
  }

  #unknown(name: string): UnknownAgentError {
    const agents = this.#core.cells.filter((cell) => cell.settings.counted).map((cell) => cell.name)
    const near = nearest(name, agents)
    return new UnknownAgentError(
      `No agent of this team is named "${name}"${near ? `; did you mean "${near}"?` : `; there are ${agents.join(', ')}.`}`,
      { agent: name, agents },
    )
  }

  #terminated(cell: Cell): AgentTerminatedError {
    return new AgentTerminatedError(
      `Agent "${cell.name}" is stopped: ${cell.stopped?.message ?? 'the team is closing.'}`,
      { agent: cell.name },
      cell.stopped,
    )
  }

  // ---- the end of a turn

  #end(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void {
    const { lives, delivery, gate } = this.#core
    const turn = turnOf(memory, at)
    const failed = isFailure(memory, at)
    const envelope = cell.mailbox.handed.get(turn)
    if (!envelope) return
    if (envelope.announced) setFlag(memory, at, ANNOUNCED)
    if (failed && lives.tryAgain(cell, envelope, memory, at)) return setCorrelation(memory, at, 0) // no answer
    if (failed && correlationOf(memory, at) === 0) cell.mailbox.discard(envelope)
    else cell.mailbox.commit(turn)
    run.open -= 1
    cell.turns += 1
    cell.suspects.delete(envelope)
    cell.lastEndAt = this.#core.clock.monotonic()
    if (life.patches.size > 0) {
      if (!failed) this.#applyPatches(cell, life, run, turn)
      life.patches.delete(turn)
    }
    this.freed(cell, envelope.bytes)
    if (cell.mailbox.handed.size === 0) gate.release(run, cell)
    delivery.touch(cell)
    if (!failed && flagsOf(memory, at) & HAS_METADATA) this.#mismatch(cell, run, memory, at, readMissed(memory, at))
    this.#settleEnd(run, envelope, memory, at, failed)
  }

  #settleEnd(run: RunState, envelope: Envelope<RunState>, memory: Memory, at: number, failed: boolean): void {
    const correlation = correlationOf(memory, at)
    if (correlation === 0) {
      if (failed)
        this.#core.deadLetter(run, envelope.memory, envelope.at, envelope.cancelled ? 'cancelled' : 'failed', [
          errorOf(memory, at),
        ])
      return
    }
    const caller = this.#core.cells[recipientOf(memory, at)]
    const request = caller?.open.get(correlation)
    if (!caller || !request || request.envelope !== envelope) {
      if (!failed || !envelope.cancelled) this.#core.deadLetter(run, memory, at, 'late', [])
      return
    }
    caller.open.delete(correlation)
    if (request.settle) return request.settle(memory, at)
    const bytes = lengthOf(memory, at)
    const copy = allocate(bytes)
    copy.u8.set(memory.u8.subarray(at, at + bytes))
    setKind(copy, 0, RESPONSE)
    setTurn(copy, 0, request.turn)
    this.#core.delivery.reply(caller, { memory: copy, bytes })
  }

  #mismatch(cell: Cell, run: RunState, memory: Memory, at: number, missed: string[]): void {
    const error = new StepMismatchError(
      `Agent "${cell.name}" took another way when its turn was tried again: it did not ask again for ${missed.join(', ')}. What the earlier attempt did stands beside it. Decide by the message and by steps alone.`,
      { agent: cell.name, missed },
    )
    this.#core.record(run, { kind: 'step.mismatch', agent: cell.name, messageId: idOf(memory, at), error })
  }

  #patch(life: Life, memory: Memory, at: number): void {
    const turn = turnOf(memory, at)
    const notices = life.patches.get(turn) ?? []
    notices.push(JSON.parse(readBody(memory, at).data ?? '{}') as PatchNotice)
    life.patches.set(turn, notices)
  }

  #applyPatches(cell: Cell, life: Life, run: RunState, turn: number): void {
    for (const notice of life.patches.get(turn) ?? []) this.#core.lives.applyPatch(cell, run, notice)
  }

  // ---- answers that the host makes

  /** Settles a request with an error of the host's making. The log has it too: a redelivered turn gets the same answer. */
  answerWithError(request: OpenRequest, error: DramatisError): void {
    if (!request.caller.open.delete(request.correlation)) return
    this.#answer(
      request.caller,
      request.run,
      request.correlation,
      request.callee.index,
      request.turn,
      error,
      request.settle,
      request.envelope,
    )
  }

  #answer(
    caller: Cell,
    run: RunState,
    correlation: number,
    from: number,
    turn: number,
    error: DramatisError,
    settle: OpenRequest['settle'],
    envelope?: Envelope<RunState>,
  ): void {
    const frame = this.#core.frames.failure(
      RESPONSE,
      { sender: from, recipient: caller.index, run: run.index, turn, correlation },
      error,
    )
    if (envelope)
      for (let word = 8; word < 12; word++) frame.memory.i32[word] = envelope.memory.i32[(envelope.at >> 2) + word]!
    this.#core.appendOwned(run, frame.memory, frame.bytes)
    if (settle) settle(frame.memory, 0)
    else this.#core.delivery.reply(caller, frame)
    this.#core.wake()
  }

  /** Somebody in the host answers in the place of the agent that was asked; that agent is told to stop. */
  answerInstead(request: OpenRequest, frame: OwnFrame): void {
    const { caller, correlation, callee, envelope, run, settle } = request
    caller.open.delete(correlation)
    this.#core.appendOwned(run, frame.memory, frame.bytes)
    setKind(frame.memory, 0, RESPONSE)
    if (settle) settle(frame.memory, 0)
    else this.#core.delivery.reply(caller, frame)
    this.withdraw(
      callee,
      envelope,
      new CancelledError(`The request to "${callee.name}" was answered by somebody else.`, { agent: callee.name }),
    )
    this.#core.wake()
  }

  /** The request that a message is, if its caller still waits. */
  requestOf(envelope: Envelope<RunState>): OpenRequest | undefined {
    if (kindOf(envelope.memory, envelope.at) !== REQUEST) return undefined
    const request = this.#senderOf(envelope).open.get(correlationOf(envelope.memory, envelope.at))
    return request?.envelope === envelope ? request : undefined
  }

  // ---- cancellation and streams

  /** The caller no longer waits. A message that waits is taken out; a turn under way is told to stop. */
  cancel(caller: Cell, correlation: number, reason: DramatisError | undefined): void {
    const request = caller.open.get(correlation)
    if (!request) {
      this.#core.calls.cancel(caller, correlation)
      return
    }
    caller.open.delete(correlation)
    this.withdraw(
      request.callee,
      request.envelope,
      reason ??
        new CancelledError(`The request of "${caller.name}" was withdrawn.`, {
          agent: request.callee.name,
          caller: caller.name,
        }),
    )
  }

  /** Takes a message back, wherever it is. */
  withdraw(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    if (envelope.cancelled) return
    envelope.cancelled = true
    const { lives, delivery, gate } = this.#core
    this.withdrawRequests(callee, envelope)
    if (callee.mailbox.handed.get(envelope.turn) === envelope) {
      if (callee.life?.begun(envelope)) gate.excuse(callee)
      delivery.reply(callee, this.#core.frames.abort(envelope.turn, reason))
      lives.killAfterGrace(callee, envelope)
      return
    }
    if (callee.mailbox.parked.remove(envelope)) this.drop(envelope, 'cancelled', [reason])
    else if (callee.mailbox.discard(envelope)) {
      this.drop(envelope, 'cancelled', [reason])
      this.freed(callee, envelope.bytes)
    }
  }

  /** What a turn that is to end was waiting for is wanted by nobody any more. */
  withdrawRequests(cell: Cell, { turn, run }: Envelope<RunState>): void {
    for (const request of [...cell.open.values()])
      if (request.turn === turn) this.cancel(cell, request.correlation, run.ending)
  }

  /** The message is out of its mailbox and dead. */
  drop(
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'stopped' | 'expired' | 'poison' | 'failed',
    errors: DramatisError[],
  ): void {
    envelope.run.open -= 1
    this.#core.deadLetter(envelope.run, envelope.memory, envelope.at, reason, errors)
  }

  #chunk(memory: Memory, at: number): void {
    const caller = this.#core.cells[recipientOf(memory, at)]
    const request = caller?.open.get(correlationOf(memory, at))
    if (!caller || !request || request.settle) return
    const bytes = lengthOf(memory, at)
    const copy = allocate(bytes)
    copy.u8.set(memory.u8.subarray(at, at + bytes))
    this.#core.delivery.reply(caller, { memory: copy, bytes })
  }

  #streamRead(cell: Cell, memory: Memory, at: number): void {
    const request = cell.open.get(correlationOf(memory, at))
    if (!request) return
    const frame = this.#core.frames.make({ kind: STREAM_READ, turn: request.envelope.turn, limit: limitOf(memory, at) })
    this.#core.delivery.reply(request.callee, frame)
  }

  #log(cell: Cell, run: RunState, memory: Memory, at: number): void {
    const { content, data } = readBody(memory, at)
    if (content === '' && data === undefined) return
    const fields = data === undefined ? {} : (JSON.parse(data) as object)
    this.#core.logger[logLevel(limitOf(memory, at))]({ ...fields, agent: cell.name, runId: run.id }, content)
  }
}

/** Agents can be reached by everybody, the protocol script by the caller alone. */
const mayReach = (sender: Cell, callee: Cell) =>
  callee.settings.counted || (sender.index === USER_INDEX && callee.index === ORCHESTRATOR_INDEX)

/** Sends that were held back come later than waits with a higher number, and numbers begin anew at their end. */
function noteCorrelation(cell: Cell, correlation: number): void {
  if (correlation > cell.correlation || cell.correlation - correlation > 2 ** 30) cell.correlation = correlation
}

/** What a redelivered turn did not ask for again: an END has no other metadata. */
function readMissed(memory: Memory, at: number): string[] {
  return (JSON.parse(readBody(memory, at).metadata ?? '{"missed":[]}') as { missed: string[] }).missed
}
