/**
 * Finds turns that wait for each other, or for nobody who could come, names them and breaks it (rules 22 to 27). It looks when
 * a wait begins or ends that can have closed a cycle: what it looks at is read from the host's own books. Before it says
 * anything each thread concerned has told that the turn does nothing but wait; before it breaks anything, a second time.
 */
import type { AgentTask } from '../../actors/task.ts'
import type { Timer } from '../../clock.ts'
import {
  ACCEPTED,
  ASKS,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  limitOf,
  PROBE,
  QUIET,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  SEND,
  STREAM_WAIT,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell } from '../cell.ts'
import type { Core, Part } from '../core.ts'
import { Breaker } from '../deadlock-breaker.ts'
import { isProbe } from '../delivery.ts'
import type { Life } from '../life.ts'
import type { Batch } from '../records.ts'
import { namedWaits, type Stuck, sentenceOf, stuckNow } from '../stuck.ts'
import type { TurnNode } from '../wait-edges.ts'

/** A turn that has something else to do is asked again ever more seldom, up to that. */
const LONGEST_PAUSE_MS = 60_000

/** One group of turns that look stuck. */
interface Case {
  stuck: Stuck
  /** Turns that have not said yet whether they do nothing but wait. */
  asked: number
  /** One of them has something else to do. */
  busy: boolean
  /** What their threads had been told when they were asked: with anything since then they may go on. */
  readonly told: Map<Life, number>
  named: boolean
  /** They have been asked for the second time. */
  confirming: boolean
  pauseMs: number
  timer: Timer | undefined
}

export const deadlock =
  (mode: 'break' | 'report', confirmMs: number, foreignScript: boolean): Part =>
  (core) => {
    const detector = new Detector(core, mode, confirmMs, foreignScript)
    return { next: (batch) => detector.next(batch), close: () => detector.close() }
  }

/** Something has come for one of them since it was asked, or waits in the host, for a permit or for room: it may go on by that. */
const mayGoOn = ({ told, stuck }: Case): boolean =>
  [...told].some(([life, before]) => life.told !== before || !life.backlog.every(isProbe)) ||
  stuck.turns.some(({ cell: { life }, envelope }) => life?.holds(envelope.run.index))

const isHeld = ({ status, dependencies }: AgentTask) => status === 'blocked' && dependencies.length > 0

class Detector {
  readonly #core: Core
  readonly #mode: 'break' | 'report'
  readonly #confirmMs: number
  /** The protocol is a function of the user's, in the host. */
  readonly #foreignScript: boolean
  readonly #breaker: Breaker
  readonly #cases = new Map<string, Case>()
  /** Which case has asked which turn, by the number of the question. */
  readonly #questions = new Map<number, { of: Case; turn: TurnNode }>()
  #question = 0
  /** Agents that found a mailbox full, and perhaps wait for room still. */
  readonly #askers = new Set<number>()
  /** Somebody waits for what anybody may write. */
  #waitedFor = false

  constructor(core: Core, mode: 'break' | 'report', confirmMs: number, foreignScript: boolean) {
    this.#foreignScript = foreignScript
    this.#core = core
    this.#mode = mode
    this.#confirmMs = confirmMs
    this.#breaker = new Breaker(core)
  }

  next(batch: Batch): void {
    let suspicious = this.#cases.size > 0
    for (const entry of batch) {
      if (entry.kind === 'frames') {
        const { memory, to } = entry
        for (let at = entry.from; at < to; at += lengthOf(memory, at)) if (this.#frame(memory, at)) suspicious = true
      } else if (entry.kind === 'agent.status' && entry.status !== 'starting') suspicious = true
      // What it had asked before it was cut off it waits for again, and says so to nobody.
      else if (entry.kind === 'turn.started' && entry.attempt > 1) suspicious = true
      else if (entry.kind === 'task' && isHeld(entry.task)) suspicious = true
    }
    if (suspicious) this.#look()
  }

  close(): void {
    for (const each of this.#cases.values()) each.timer?.cancel()
  }

  // ---- when to look

  /** Whether it can have left somebody stuck: only a wait for one who waits can. */
  #frame(memory: Memory, at: number): boolean {
    const { cells } = this.#core
    switch (kindOf(memory, at)) {
      case SEND:
        // What had its room already may have taken that of others.
        if (!(flagsOf(memory, at) & ASKS)) return this.#isFull(cells[recipientOf(memory, at)])
        this.#askers.add(senderOf(memory, at))
        return true
      case REQUEST: {
        if (flagsOf(memory, at) & ASKS) this.#askers.add(senderOf(memory, at))
        const callee = cells[recipientOf(memory, at)]
        return callee === undefined || this.#mayWait(callee)
      }
      case CALL: {
        const waits = cells[senderOf(memory, at)]?.calls.get(correlationOf(memory, at))?.waitsFor !== undefined
        this.#waitedFor ||= waits
        return waits
      }
      case END:
        if (this.#waitedFor || this.#isBlocking(cells[senderOf(memory, at)])) return true
        return correlationOf(memory, at) > 0 && this.#waitsOn(cells[recipientOf(memory, at)])
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED:
        return this.#waitsOn(cells[recipientOf(memory, at)])
      case CANCEL:
        return this.#waitsOn(cells[senderOf(memory, at)])
      case STREAM_WAIT:
        return limitOf(memory, at) === 1
      case QUIET:
        this.#answered(memory, at)
        return true
      default:
        return false
    }
  }

  #isFull(cell: Cell | undefined): boolean {
    return cell !== undefined && cell.mailbox.parked.length > 0
  }

  /** Others wait for its turns, and what is left of these may wait, too. */
  #isBlocking(cell: Cell | undefined): boolean {
    return cell !== undefined && (cell.mailbox.waiting > 0 || this.#isFull(cell)) && this.#mayWait(cell)
  }

  #mayWait({ first }: Cell): boolean {
    if (first.open.size > 0 || first.calls.size > 0 || this.#askers.has(first.index)) return true
    return first.instances.some(({ life }) => life !== undefined && life.awaitReader.size > 0)
  }

  /** Whether it has a wait left for somebody who may wait himself. */
  #waitsOn(cell: Cell | undefined): boolean {
    if (!cell) return false
    for (const { callee } of cell.open.values()) if (this.#mayWait(callee)) return true
    return cell.calls.size > 0 || this.#askers.has(cell.index)
  }

  // ---- what is there

  #look(): void {
    this.#askers.clear()
    this.#waitedFor = false
    for (const { mailbox, calls } of this.#core.cells) {
      for (const { waitsFor } of calls.values()) this.#waitedFor ||= waitsFor !== undefined
      for (const { memory, at } of mailbox.parked) this.#askers.add(senderOf(memory, at))
    }
    const found = new Map(stuckNow(this.#core).map((stuck) => [stuck.key, stuck]))
    for (const [key, each] of this.#cases) if (!found.has(key)) this.#drop(key, each)
    for (const [key, stuck] of found) {
      const known = this.#cases.get(key)
      if (known) known.stuck = stuck
      else this.#open(key, stuck)
    }
    for (const [key, each] of [...this.#cases]) if (each.asked === 0 && !each.timer) this.#judge(key, each)
  }

  /** Time, or somebody else, has freed it. */
  #drop(key: string, dropped: Case): void {
    dropped.timer?.cancel()
    this.#cases.delete(key)
    for (const [number, { of }] of this.#questions) if (of === dropped) this.#questions.delete(number)
  }

  #open(key: string, stuck: Stuck): void {
    const opened: Case = {
      stuck,
      asked: 0,
      busy: false,
      told: new Map(),
      named: false,
      confirming: false,
      pauseMs: Math.max(1, this.#confirmMs),
      timer: undefined,
    }
    this.#cases.set(key, opened)
    this.#ask(opened)
  }

  #ask(asking: Case): void {
    const { frames, delivery } = this.#core
    asking.busy = false
    asking.told.clear()
    for (const turn of asking.stuck.turns) {
      this.#question = (this.#question + 1) & 0x7fff_ffff
      this.#questions.set(this.#question, { of: asking, turn })
      asking.asked += 1
      const { life } = turn.cell
      if (life) asking.told.set(life, life.told)
      delivery.reply(turn.cell, frames.make({ kind: PROBE, correlation: this.#question, step: turn.envelope.turn }))
    }
  }

  #answered(memory: Memory, at: number): void {
    const question = this.#questions.get(correlationOf(memory, at))
    if (!question || question.turn.cell.index !== senderOf(memory, at)) return
    if (question.turn.envelope.turn !== turnOf(memory, at)) return
    this.#questions.delete(correlationOf(memory, at))
    question.of.asked -= 1
    if (limitOf(memory, at) !== 1) question.of.busy = true
  }

  #judge(key: string, judged: Case): void {
    if (judged.busy || mayGoOn(judged)) {
      judged.confirming = false
      this.#later(judged, judged.pauseMs)
      judged.pauseMs = Math.min(judged.pauseMs * 2, LONGEST_PAUSE_MS)
    } else if (judged.confirming) this.#break(key, judged)
    else {
      if (!judged.named) this.#name(judged)
      if (this.#mode === 'report' || this.#isForOthers(judged.stuck)) return
      if (judged.stuck.turns.some(({ cell }) => cell.life?.thread.isolated)) {
        judged.confirming = true
        this.#later(judged, this.#confirmMs)
      } else this.#break(key, judged) // in this thread, and so in virtual time, nothing more can come
    }
  }

  /**
   * A stall that somebody else may end yet: who has a handle of the run, or a script of the user's in the host's own thread,
   * where nobody can tell what of all that is open there is its own. The built-in ones wait for their verbs alone.
   */
  #isForOthers({ cycle, runs, turns }: Stuck): boolean {
    if (cycle.length > 0) return false
    if ([...runs].some(({ held }) => held !== false)) return true
    return this.#foreignScript && !this.#core.clock.virtual && turns.some(({ cell }) => !cell.life?.thread.isolated)
  }

  #later(asking: Case, ms: number): void {
    asking.timer = this.#core.clock.timer(ms, () => {
      asking.timer = undefined
      this.#ask(asking)
      this.#core.wake()
    })
  }

  // ---- what is said and done

  #name(named: Case): void {
    named.named = true
    this.#tell(named.stuck, null)
  }

  #tell(stuck: Stuck, victim: string | null): void {
    const { cycle, tail, runs, turns } = stuck
    for (const run of runs) {
      if (cycle.length === 0) {
        const evidence = turns.map(sentenceOf)
        this.#core.record(run, { kind: 'stall', evidence })
      } else
        this.#core.record(run, {
          kind: 'deadlock',
          cycle: cycle.map(({ cell }) => cell.name),
          tail: tail.map(({ cell }) => cell.name),
          waits: namedWaits(stuck),
          victim,
        })
    }
  }

  #break(key: string, broken: Case): void {
    this.#drop(key, broken)
    const victim = this.#breaker.break(broken.stuck)
    if (victim && broken.stuck.cycle.length > 0) this.#tell(broken.stuck, victim)
  }
}
