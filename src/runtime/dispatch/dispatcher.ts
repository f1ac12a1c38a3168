/**
 * Moves messages from the mailboxes into the rings of the threads (the window), and wakes the threads. The order is
 * kept, and ring space and permits are the limit. A window holds messages of one run at a time, so that a permit is
 * held only for work that is really under way. For an agent with turns of several runs at once it holds one message of
 * each run.
 */
import type { Scheduler } from '../../clock.ts'
import type { DramatisError } from '../../errors.ts'
import {
  copyFrame,
  KIND,
  kindOf,
  ownCopyOf,
  REPLAY,
  REQUEST,
  runOf,
  setAttempt,
  setTurn,
  TURN,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Ring } from '../../mailbox/ring.ts'
import { inlineLimit, ROOM_WANTED } from '../../mailbox/window.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import { loggedFrames } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { CautiousStart } from './cautious-start.ts'
import { handNested } from './nested-requests.ts'
import { NextMessage, ranksLarge } from './next-message.ts'
import type { Gate } from './permits.ts'
import { isHeldBack, type ReplyLane } from './reply-lane.ts'
import type { RunNotices } from './run-notices.ts'
import type { Shelf } from './shelf.ts'
import type { StopGrace } from './stop-grace.ts'

interface Needs {
  readonly caution: CautiousStart
  readonly clock: Scheduler
  readonly frames: HostFrames
  readonly gate: Gate
  readonly journal: Journal
  readonly limits: LimitNotices
  readonly loop: HostLoop
  readonly ready: Ready
  /** Checks whether a message that is tried again has to wait for what its earlier attempts have done. */
  recalls(cell: Cell, envelope: Envelope<RunState>): boolean
  readonly replies: ReplyLane
  readonly runNotices: RunNotices
  readonly shelf: Shelf
  readonly stopGrace: StopGrace
  /** Begins threads for agents that have none and for which there is something. */
  awaken(cells: readonly Cell[]): void
}

export class Dispatcher {
  readonly #needs: Needs
  readonly #next: NextMessage
  /**
   * Full rings, with the agent that waits for space in each; one thread can have several. The thread wakes the host
   * when it has freed space.
   */
  readonly cramped = new Map<Ring, { cell: Cell; life: Life }>()

  /** Passivated agents that were marked as ready. */
  readonly #asleep: Cell[] = []

  constructor(needs: Needs) {
    this.#needs = needs
    this.#next = new NextMessage(needs)
  }

  /**
   * Stops the turn of that message. A turn that gave up its permit is notified when it has it back, before the answers
   * that it waited for: the remaining work of the turn needs a permit too.
   */
  stop(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    const { life } = cell
    if (!life) return
    const { run, turn } = envelope
    const frame = this.#needs.frames.abort(run.index, envelope, reason)
    const isShelved = cell.mailbox.handed.shelved.has(turn)
    const line = !isShelved && isHeldBack(cell, life, run.index, turn) ? life.held : life.backlog
    const isLarge = frame.bytes > inlineLimit(life.window.replies) // then it cannot pass one that is half written
    const at = isLarge ? -1 : line.findIndex(({ memory }) => turnOf(memory, 0) === turn && isForOpenTurn(memory))
    line.splice(at < 0 ? line.length : at, 0, frame)
    life.gives(turn, timeOf(frame.memory, 0))
    if (cell.suspended.has(run.index)) life.unstopped.add(envelope)
    else this.#needs.stopGrace.begin(cell, envelope)
    this.#needs.ready.touchInstance(cell)
    this.#needs.loop.wake()
  }

  /** Hands over all messages that can be handed over, publishes them, and wakes sleeping threads. */
  flush(): void {
    if (this.cramped.size > 0) this.roomAgain()
    const { ready } = this.#needs
    while (ready.marked.size > 0) for (const cell of ready.takeAll()) this.#serve(cell)
    if (this.#asleep.length > 0) this.#needs.awaken(this.#asleep.splice(0))
  }

  /** Does the same only for agents with a frame that a turn waits for. */
  hurry(): void {
    for (const cell of this.#needs.ready.takeHurried()) this.#serve(cell)
  }

  #serve(cell: Cell): void {
    const { life } = cell
    if (!life?.ready) {
      if (cell.dormant === 'asleep') this.#asleep.push(cell)
      return
    }
    const { handed, line } = cell.mailbox
    if (life.backlog.length + life.held.length > 0) this.#sendReplies(cell, life)
    if (line.waiting > 0 || life.sending || cell.interleaves || handed.size === 0) this.#handOver(cell, life)
    if (line.nested.length > 0) this.#handNested(cell, life)
    if (life.wantsBell !== 'none') life.wake() // before the records: the thread can begin meanwhile
    const { first } = handed
    if (cell.interleaves || handed.nested + handed.ranked > 0) this.#announceTurns(cell)
    else if (first && (!first.announced || first.startedAt < cell.lastEndAt)) this.#announceTurns(cell)
  }

  /**
   * Checks whether a thread has freed ring space since its last full write. Asks for a wake-up before it looks, as with
   * every sleep.
   */
  roomAgain(): boolean {
    for (const [ring, { cell, life }] of this.cramped) {
      Atomics.store(life.window.words, ROOM_WANTED, 1)
      if (cell.life === life && ring.free() < ring.capacity >> 1) continue
      this.cramped.delete(ring)
      this.#needs.ready.touchInstance(cell)
    }
    return this.#needs.ready.marked.size > 0
  }

  /**
   * Checks whether replies may go out: a turn that gave up its permit must get one back first. For an agent with one
   * turn at a time all other replies wait too.
   */
  #mayReply(cell: Cell): boolean {
    if (!cell.interleaves) for (const run of cell.suspended.values()) return this.#resume(run, cell)
    return true
  }

  /**
   * Gets a permit for a suspended turn; returns false if there is none. Turns that must stop get their grace time from
   * now on.
   */
  #resume(run: RunState, cell: Cell): boolean {
    if (!this.#needs.gate.resume(run, cell)) return false
    for (const envelope of cell.life?.unstopped ?? []) {
      if (envelope.run !== run) continue
      cell.life?.unstopped.delete(envelope)
      this.#needs.stopGrace.begin(cell, envelope)
    }
    return true
  }

  #letIn(cell: Cell, life: Life): void {
    const returned: number[] = []
    life.held = life.held.filter((frame) => {
      const shelved = cell.mailbox.handed.shelved.get(turnOf(frame.memory, 0))
      if (shelved && !this.#needs.shelf.takeBack(cell, life, shelved)) return true
      if (shelved) returned.push(shelved.turn)
      const run = cell.suspended.get(runOf(frame.memory, 0))
      if (run && !this.#resume(run, cell)) return true
      life.backlog.push(frame)
      life.told += 1 // a deadlock probe may have passed it
      return false
    })
    // They may have got something else than the answer of the person.
    for (const turn of returned) this.#needs.shelf.consider(cell.first, turn)
  }

  #sendReplies(cell: Cell, life: Life): void {
    if (life.held.length > 0) this.#letIn(cell, life)
    const { backlog } = life
    if (backlog.length === 0 || !this.#mayReply(cell)) return
    const before = life.window.replies.written
    let sent = 0
    for (const { memory, bytes } of backlog) {
      if (!life.replies.write(memory.u8, 0, bytes)) break
      sent += 1
    }
    backlog.splice(0, sent)
    if (backlog.length > 0) this.cramped.set(life.window.replies, { cell, life })
    if (life.window.replies.written !== before) life.wantsBell = 'reply' // also for the first parts of a large one
    life.window.replies.publish()
  }

  #handOver(cell: Cell, life: Life): void {
    const { mailbox } = cell
    const { line, handed } = mailbox
    const { plain, ranked } = life.window
    let any = false
    for (;;) {
      if (life.sending && !this.#sendLarge(cell, life)) break
      if (life.backlog.length > 0) break // replies carry what a message needs to be understood
      const envelope = this.#next.of(cell, life)
      if (!envelope) break
      const isKnown = envelope.attempt === 1 && life.announced.has(envelope.run.index)
      if (!isKnown && !this.#introduce(cell, life, envelope)) break
      if (!this.#place(cell, life, envelope)) {
        this.cramped.set(life.window[envelope.lane], { cell, life })
        break
      }
      any = true
      if (life.wantsBell === 'none') life.wantsBell = 'message'
      if (line.waiting === 0 && handed.size > 0 && !cell.interleaves && !life.sending) break
    }
    if (!any) return
    plain.publish()
    if (handed.ranked > 0) ranked.publish()
  }

  #handNested(cell: Cell, life: Life): void {
    handNested(this.#needs, cell, life, (run) => {
      const shelved = cell.shelvedOf(run)
      if (shelved && !this.#needs.shelf.takeBack(cell, life, shelved)) return false
      return !cell.suspended.has(run.index) || this.#resume(run, cell)
    })
    this.#sendReplies(cell, life)
  }

  /**
   * Sends the thread what it must know before the message: its run, and the logged frames of its earlier attempts.
   * Returns false if these are not sent completely.
   */
  #introduce(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    const { run } = envelope
    const isReplayed = envelope.attempt === 1 || (life.replayed === envelope && life.replayedFor === envelope.attempt)
    if (life.announced.has(run.index) && isReplayed) return true
    if (!life.announced.has(run.index)) {
      life.announced.add(run.index)
      run.members.add(cell.index)
      this.#needs.replies.tellOver(life)
      life.backlog.push(this.#needs.runNotices.of(cell, run))
    }
    if (!isReplayed) {
      life.replayed = envelope
      life.replayedFor = envelope.attempt
      const replay = this.#needs.frames.replay(envelope.turn, loggedFrames(cell, envelope), envelope.onMismatch)
      if (replay) life.backlog.push(replay)
    }
    this.#sendReplies(cell, life)
    return life.backlog.length === 0
  }

  /** Writes the message into the window. Returns false if there is no room now. */
  #place(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    const { memory, at, bytes } = envelope
    // A large message is sent in parts, and parts cannot be reordered by priority.
    if (envelope.priority !== 0 && ranksLarge(life, envelope)) life.ranksLarge = envelope
    envelope.lane = envelope.priority === 0 || life.ranksLarge === envelope ? 'plain' : 'ranked'
    const ring = life.window[envelope.lane]
    if (bytes > inlineLimit(ring)) {
      cell.mailbox.hand(envelope)
      const copy = ownCopyOf(memory, at, bytes)
      setTurn(copy, 0, envelope.turn)
      setAttempt(copy, 0, envelope.attempt)
      envelope.windowEnd = (ring.written + 0x4000_0000) | 0 // not before it is whole
      life.sending = { memory: copy, bytes, envelope }
      this.#started(cell, envelope)
      this.#sendLarge(cell, life)
      return true
    }
    const to = ring.reserve(bytes)
    if (to < 0) return false
    cell.mailbox.hand(envelope)
    copyFrame(memory, at, ring.memory, to, bytes)
    const { i32 } = ring.memory
    const i = to >> 2
    i32[i + TURN] = envelope.turn
    // The log has the sender's retry policy there.
    i32[i + KIND] = (i32[i + KIND]! & ~0xff_0000) | (Math.min(envelope.attempt - 1, 255) << 16)
    ring.advance(bytes)
    envelope.windowAt = to
    envelope.windowEnd = ring.written
    this.#started(cell, envelope)
    return true
  }

  #sendLarge(cell: Cell, life: Life): boolean {
    const { memory, bytes, envelope } = life.sending!
    const whole = life.plain.write(memory.u8, 0, bytes)
    life.window.plain.publish()
    if (life.wantsBell === 'none') life.wantsBell = 'message'
    if (!whole) {
      this.cramped.set(life.window.plain, { cell, life })
      return false
    }
    envelope.windowEnd = life.window.plain.written
    life.sending = undefined
    return true
  }

  #started(cell: Cell, envelope: Envelope<RunState>): void {
    const { journal } = this.#needs
    envelope.handedSeq ||= journal.seq
    if (journal.isKept) journal.handed(cell, envelope)
    if (cell.life) cell.life.run = envelope.run
    if (cell.interleaves) cell.promised.delete(envelope.run)
    if (cell.mailbox.handed.size === 1 || cell.interleaves) this.#begins(envelope)
    if (envelope.attempt > 1) this.#needs.shelf.consider(cell.first, envelope.turn) // it may have asked a person before
  }

  #begins(envelope: Envelope<RunState>, at = this.#needs.clock.monotonic()): void {
    envelope.startedAt = at
    if (envelope.begunAt === NOT_YET || envelope.attempt === 1) envelope.begunAt = at
  }

  /** Records which turn an agent has begun: once for each turn, and only for turns that did not end at once. */
  #announceTurns(cell: Cell): void {
    const { handed } = cell.mailbox
    if (cell.interleaves || handed.nested > 0) this.#announceOpen(cell)
    if (cell.interleaves) return
    const { current } = cell
    if (!current) return
    if (!current.announced) return this.#announce(cell, current)
    // This message was the next, and then one of higher priority overtook it.
    if (current.startedAt < cell.lastEndAt && !current.wasShelved) this.#begins(current, cell.lastEndAt)
  }

  /** Records the open turns of an agent that may have several. A nested turn begins when its thread has reported it. */
  #announceOpen(cell: Cell): void {
    for (const envelope of cell.mailbox.handed.values()) {
      const isOpen = envelope.within ? envelope.startedAt !== NOT_YET : cell.interleaves
      if (isOpen && !envelope.announced) this.#announce(cell, envelope)
    }
  }

  /** Handles the thread's report that a nested turn has begun. */
  nestedBegan(cell: Cell, envelope: Envelope<RunState>): void {
    this.#begins(envelope)
    this.#needs.ready.touchInstance(cell)
  }

  #announce(cell: Cell, envelope: Envelope<RunState>): void {
    envelope.announced = true
    if (envelope.startedAt === NOT_YET) this.#begins(envelope)
    this.#needs.journal.record(envelope.run, {
      kind: 'turn.started',
      ...cell.whose,
      messageId: idOf(envelope.memory, envelope.at),
      attempt: envelope.attempt,
      turn: envelope.turn,
      beside: cell.interleaves || cell.instances.length > 1 || envelope.within !== undefined,
    })
  }
}

/** Checks for a frame that is for an open turn, and does not open it. */
const isForOpenTurn = (memory: Memory): boolean => kindOf(memory, 0) !== REQUEST && kindOf(memory, 0) !== REPLAY
