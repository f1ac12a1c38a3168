/**
 * Replies to the threads: answers, receipts, and notices of the host. User messages never enter their ring. A reply for
 * a turn that gave up its permit waits until the turn has it back.
 */

import type { RunNotice } from '../../actors/definition/assignment.ts'
import {
  allocate,
  copyFrame,
  KIND,
  kindOf,
  type Memory,
  PROBE,
  RUN_OVER,
  runOf,
  TURN,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Cell } from './agent.ts'
import type { Core } from './core.ts'
import type { Life } from './life.ts'
import type { RunState } from './run.ts'

export class ReplyLane {
  readonly #core: Core
  #lastQuestion = 0

  constructor(core: Core) {
    this.#core = core
  }

  /** Queues a frame behind the other replies. Replies to a thread that has ended are in the log. */
  reply(to: Cell, frame: OwnFrame): void {
    const turn = turnOf(frame.memory, 0)
    const cell = turn === 0 ? to : to.holderOf(turn)
    const life = cell?.life
    if (!cell || !life) return
    if (!isProbe(frame)) life.gives(turn, timeOf(frame.memory, 0))
    if (isHeldBack(cell, life, runOf(frame.memory, 0), turn)) life.held.push(frame)
    else life.backlog.push(frame)
    this.#core.ready.touchInstance(cell)
    this.#core.loop.wake()
  }

  /** Passes on a frame of another agent as a reply: directly into the ring if no other reply waits. */
  passOn(to: Cell, memory: Memory, at: number, kind: number, turn: number): void {
    const cell = to.instances.length === 1 ? to : to.holderOf(turn)
    const life = cell?.life
    if (!cell || !life) return
    const { i32 } = memory
    const bytes = i32[at >> 2]!
    const ring = life.window.replies
    const shelved = cell.mailbox.handed.shelved.size
    const waits = life.backlog.length + life.held.length + cell.suspended.size + shelved > 0
    const open = life.ready && !waits && bytes <= ring.inlineLimit
    const place = open ? ring.reserve(bytes) : -1
    const target = place < 0 ? allocate(bytes) : ring.memory
    const start = Math.max(place, 0)
    copyFrame(memory, at, target, start, bytes)
    const copy = target.i32
    const i = start >> 2
    copy[i + KIND] = (copy[i + KIND]! & ~0xff) | kind
    copy[i + TURN] = turn
    if (place < 0) return this.reply(cell, { memory: target, bytes })
    ring.advance(bytes)
    ring.publish()
    life.gives(turn, timeOf(memory, at))
    life.wantsBell = 'reply'
    life.wake()
  }

  /**
   * Asks the thread whether a turn waits for others alone. It answers with QUIET, when its loop is idle. Returns the
   * number of the question.
   */
  probe(cell: Cell, turn: number): number {
    this.#lastQuestion = (this.#lastQuestion + 1) & 0x7fff_ffff
    this.reply(cell, this.#core.frames.make({ kind: PROBE, correlation: this.#lastQuestion, step: turn }))
    return this.#lastQuestion
  }

  /**
   * The run is over, so the threads can forget it. A thread is told with the next run that it learns of: to wake it for
   * that alone would cost as much as a message.
   */
  runOver(run: RunState): void {
    for (const index of run.members)
      for (const cell of this.#core.directory.cells[index]?.instances ?? []) {
        const { life } = cell
        if (!life?.announced.delete(run.index)) continue
        if (life.holds(run.index))
          this.reply(cell, this.#overNotice(run.index)) // behind what is held back for it
        else life.forgets.push(run.index)
      }
  }

  /** Queues the notices of runs that are over: before that of the next run, which may have the index of one. */
  tellOver(life: Life): void {
    for (const run of life.forgets.splice(0)) life.backlog.push(this.#overNotice(run))
  }

  #overNotice(run: number): OwnFrame {
    return this.#core.frames.control(RUN_OVER, run, 0)
  }
}

/** Checks for a probe: it asks whether a turn waits, and no turn waits for it. */
export const isProbe = ({ memory }: OwnFrame): boolean => kindOf(memory, 0) === PROBE

/**
 * Checks whether replies for that turn must wait: until it has its permit, or its place, again, or behind replies that
 * do.
 */
export function isHeldBack({ interleaves, mailbox, suspended }: Cell, life: Life, run: number, turn: number): boolean {
  if (mailbox.handed.shelved.has(turn)) return true
  return interleaves && (suspended.has(run) || (life.held.length > 0 && life.holds(run)))
}

/** Returns what the thread has to know of a run before its first message. */
export function runNotice(core: Core, cell: Cell, run: RunState): OwnFrame {
  core.agentStates.conversations.begin(cell, run)
  const state = run.states.get(cell.index)
  const notice: RunNotice = {
    metadata: run.toldMetadata,
    ...(run.threadId !== undefined && { threadId: run.threadId }),
    ...(state !== undefined && { runState: JSON.stringify(state) }),
    ...(run.unlogged.has(cell.index) && { isUnlogged: true }),
    ...(run.output?.jsonSchema && { output: run.output.jsonSchema }),
    ...(run.streams && { streams: true }),
    // A script in the host's own thread reads the team itself.
    ...(!cell.settings.isAgent && cell.life?.thread.isolated && { roster: core.roster(run) }),
    ...(run.agents.size > 0 && { agents: [...run.agents].map(([name, index]) => ({ name, index })) }),
  }
  return core.frames.runNotice(run.index, run.id, notice)
}
