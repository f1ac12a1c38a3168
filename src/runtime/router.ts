/** What becomes of the frames that an agent writes: logged in contiguous stretches, then each does what its kind says. */

import { logLevel } from '../actors/turn-log.ts'
import { describe, type ErrorData, errorFrom } from '../errors.ts'
import {
  CALL,
  CANCEL,
  CHUNK,
  correlationOf,
  END,
  FRAGMENT,
  flagsOf,
  kindOf,
  LOG,
  lengthOf,
  limitOf,
  PATCH,
  REJECTED,
  REQUEST,
  readBody,
  recipientOf,
  runOf,
  SEND,
  STREAM_READ,
  STREAM_WAIT,
  STREAMS,
  stepOf,
  turnOf,
} from '../mailbox/frame.ts'
import type { Memory } from '../mailbox/memory.ts'
import type { Remains } from '../mailbox/remains.ts'
import { OUT_BLOCKED } from '../mailbox/window.ts'
import type { Cell, Life } from './cell.ts'
import type { Core, Routing } from './core.ts'
import type { RunState } from './run-state.ts'

const FRAMES_A_TICK = 512 // of one agent; then it is the next one's turn

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
    if (!run) return this.#withoutRun(cell, memory, 0)
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
    } else for (let at = start; at < end; at += lengthOf(memory, at)) this.#withoutRun(cell, memory, at)
    ring.pass(end - start)
    return count
  }

  /** From a start hook, which belongs to no run, or from a run that is forgotten: only what it says to people counts. */
  #withoutRun(cell: Cell, memory: Memory, at: number): void {
    if (kindOf(memory, at) === LOG) this.#log(cell, undefined, memory, at)
  }

  /** A frame that cannot be what it says costs itself, never the host. */
  #route(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void {
    try {
      this.#routeFrame(cell, life, run, memory, at)
    } catch (error) {
      this.#core.logger.error({ agent: cell.name, error: describe(error) }, 'a frame of the agent was refused')
    }
  }

  #routeFrame(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void {
    switch (kindOf(memory, at)) {
      case SEND:
        life.lastTurn = turnOf(memory, at)
        life.lastStep = stepOf(memory, at)
        noteCorrelation(cell, correlationOf(memory, at))
        return this.#core.admission.message(cell, run, memory, at, undefined)
      case REQUEST:
        life.lastTurn = turnOf(memory, at)
        life.lastStep = stepOf(memory, at)
        noteCorrelation(cell, correlationOf(memory, at))
        return this.#core.admission.message(cell, run, memory, at, undefined)
      case END:
        return this.#core.settlement.end(cell, life, run, memory, at)
      case CHUNK:
        if (flagsOf(memory, at) & STREAMS) this.#chunk(memory, at)
        return
      case CALL:
        noteCorrelation(cell, correlationOf(memory, at))
        return this.#core.calls.serve(cell, run, memory, at)
      case CANCEL:
        return this.#core.settlement.cancel(cell, correlationOf(memory, at), undefined)
      case STREAM_READ:
        return this.#streamRead(cell, memory, at)
      case STREAM_WAIT:
        life.awaitsReader = limitOf(memory, at) === 1
        return
      case REJECTED: {
        const { remains, error } = JSON.parse(readBody(memory, at).data!) as { remains: Remains; error: ErrorData }
        return this.#core.refused(run, remains, errorFrom(error))
      }
      case PATCH:
        return this.#core.settlement.patch(life, memory, at)
      case LOG:
        return this.#log(cell, run, memory, at)
    }
  }

  #chunk(memory: Memory, at: number): void {
    const caller = this.#core.cells[recipientOf(memory, at)]
    const request = caller?.open.get(correlationOf(memory, at))
    if (!caller || !request || request.settle) return
    this.#core.delivery.passOn(caller, memory, at, CHUNK, turnOf(memory, at))
  }

  #streamRead(cell: Cell, memory: Memory, at: number): void {
    const request = cell.open.get(correlationOf(memory, at))
    if (!request) return
    const frame = this.#core.frames.make({ kind: STREAM_READ, turn: request.envelope.turn, limit: limitOf(memory, at) })
    this.#core.delivery.reply(request.callee, frame)
  }

  #log(cell: Cell, run: RunState | undefined, memory: Memory, at: number): void {
    const { content, data } = readBody(memory, at)
    if (content === '' && data === undefined) return
    const fields = data === undefined ? {} : (JSON.parse(data) as object)
    this.#core.logger[logLevel(limitOf(memory, at))](
      { ...fields, agent: cell.name, ...(run && { runId: run.id }) },
      content,
    )
  }
}

/** Sends that were held back come later than waits with a higher number, and numbers begin anew at their end. */
function noteCorrelation(cell: Cell, correlation: number): void {
  if (correlation > cell.correlation || cell.correlation - correlation > 2 ** 30) cell.correlation = correlation
}
