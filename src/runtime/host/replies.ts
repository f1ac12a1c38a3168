/**
 * Replies to the threads: answers, acknowledgements, and notices of the host. Of messages only nested requests enter
 * their ring. A reply for a turn that gave up its permit waits until the turn has it back.
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
import type { Agent } from './agent.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import type { RunState } from './run.ts'

export class ReplyQueue {
  readonly #core: Core
  #lastQuestion = 0

  constructor(core: Core) {
    this.#core = core
  }

  /** Queues a frame behind the other replies. Replies to a thread that has ended are in the log. */
  reply(to: Agent, frame: OwnFrame): void {
    const turn = turnOf(frame.memory, 0)
    const agent = turn === 0 ? to : to.holderOf(turn)
    const incarnation = agent?.incarnation
    if (!agent || !incarnation) return
    if (!isProbe(frame)) incarnation.gives(turn, timeOf(frame.memory, 0))
    if (isHeldBack(agent, incarnation, runOf(frame.memory, 0), turn)) incarnation.held.push(frame)
    else incarnation.backlog.push(frame)
    this.#core.ready.touchInstance(agent)
    this.#core.loop.wake()
  }

  /** Passes on a frame of another agent as a reply: directly into the ring if no other reply waits. */
  passOn(to: Agent, memory: Memory, at: number, kind: number, turn: number): void {
    const agent = to.instances.length === 1 ? to : to.holderOf(turn)
    const incarnation = agent?.incarnation
    if (!agent || !incarnation) return
    const { i32 } = memory
    const bytes = i32[at >> 2]!
    const ring = incarnation.channel.replies
    const suspended = agent.mailbox.handed.suspended.size
    const waits = incarnation.backlog.length + incarnation.held.length + agent.withoutPermit.size + suspended > 0
    const open = incarnation.ready && !waits && bytes <= ring.inlineLimit
    const place = open ? ring.reserve(bytes) : -1
    const target = place < 0 ? allocate(bytes) : ring.memory
    const start = Math.max(place, 0)
    copyFrame(memory, at, target, start, bytes)
    const copy = target.i32
    const i = start >> 2
    copy[i + KIND] = (copy[i + KIND]! & ~0xff) | kind
    copy[i + TURN] = turn
    if (place < 0) return this.reply(agent, { memory: target, bytes })
    ring.advance(bytes)
    ring.publish()
    incarnation.gives(turn, timeOf(memory, at))
    incarnation.wantsWakeup = 'reply'
    incarnation.wake()
  }

  /**
   * Asks the thread whether a turn waits for others alone. It answers with QUIET, when its loop is idle. Returns the
   * number of the question.
   */
  probe(agent: Agent, turn: number): number {
    this.#lastQuestion = (this.#lastQuestion + 1) & 0x7fff_ffff
    this.reply(agent, this.#core.frames.make({ kind: PROBE, correlation: this.#lastQuestion, step: turn }))
    return this.#lastQuestion
  }

  /**
   * The run is over, so the threads can forget it. A thread is told with the next run that it learns of: to wake it for
   * that alone would cost as much as a message.
   */
  runOver(run: RunState): void {
    for (const index of run.members)
      for (const agent of this.#core.directory.byIndex[index]?.instances ?? []) {
        const { incarnation } = agent
        if (!incarnation?.announced.delete(run.index)) continue
        if (incarnation.holds(run.index))
          this.reply(agent, this.#overNotice(run.index)) // behind what is held back for it
        else incarnation.forgets.push(run.index)
      }
  }

  /** Queues the notices of runs that are over: before that of the next run, which may have the index of one. */
  tellOver(incarnation: Incarnation): void {
    for (const run of incarnation.forgets.splice(0)) incarnation.backlog.push(this.#overNotice(run))
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
export function isHeldBack(
  { interleaves, mailbox, withoutPermit }: Agent,
  incarnation: Incarnation,
  run: number,
  turn: number,
): boolean {
  if (mailbox.handed.suspended.has(turn)) return true
  return interleaves && (withoutPermit.has(run) || (incarnation.held.length > 0 && incarnation.holds(run)))
}

/** Returns what the thread has to know of a run before its first message. */
export function runNotice(core: Core, agent: Agent, run: RunState): OwnFrame {
  core.agentStates.conversations.begin(agent, run)
  const state = run.states.get(agent.index)
  const notice: RunNotice = {
    metadata: run.toldMetadata,
    ...(run.tenant !== undefined && { tenant: run.tenant }),
    ...(run.threadId !== undefined && { threadId: run.threadId }),
    ...(state !== undefined && { runState: JSON.stringify(state) }),
    ...(run.unlogged.has(agent.index) && { isUnlogged: true }),
    ...(run.output?.jsonSchema && { output: run.output.jsonSchema }),
    ...(run.streams && { streams: true }),
    // A script in the host's own thread reads the team itself.
    ...(!agent.settings.isAgent && agent.incarnation?.thread.isolated && { roster: core.roster(run) }),
    ...(run.agents.size > 0 && { agents: [...run.agents].map(([name, index]) => ({ name, index })) }),
  }
  return core.frames.runNotice(run.index, run.id, notice)
}
