/**
 * Moves messages from the mailboxes into the rings of the threads (the window), and wakes the threads. The order is
 * kept, and ring space and permits are the limit. A window holds messages of one run at a time, so that a permit is
 * held only for work that is really under way. For an agent with turns of several runs at once it holds one message of
 * each run.
 */

import { policyOf } from '../../actors/definition/role-config.ts'
import { AT_WORK, type Ring, ROOM_WANTED } from '../../mailbox/channel.ts'
import {
  copyFrame,
  idOf,
  KIND,
  kindOf,
  type Memory,
  ownCopyOf,
  REPLAY,
  REQUEST,
  runOf,
  senderOf,
  setAttempt,
  setStep,
  setTurn,
  TURN,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import { AgentCrashedError, type DramatisError } from '../../shared/errors.ts'
import type { Cell } from './agent.ts'
import type { Core } from './core.ts'
import { ORCHESTRATOR_INDEX } from './directory.ts'
import { loggedFrames } from './journal.ts'
import type { Life } from './life.ts'
import type { Permits, Shelf } from './permits.ts'
import { isHeldBack, type ReplyLane, runNotice } from './replies.ts'
import type { RunState } from './run.ts'
import type { CautiousStart } from './staged-start.ts'

/*
 * Chooses the next message for an instance of an agent: a permit and the order must allow it, and the instance must
 * have a place for it beside the messages that it has.
 */

// More than 20 ms of work ahead would take the order by priority and the permit out of the host's control. Less would
// cause more wake-ups.
const AHEAD_MS = 20
const HANDED_AHEAD = 1024
const RANKED_AHEAD = 64

export class NextMessage {
  readonly #core: Core
  readonly #caution: CautiousStart
  readonly #permits: Permits
  readonly #replies: ReplyLane

  constructor(core: Core, caution: CautiousStart, permits: Permits, replies: ReplyLane) {
    this.#core = core
    this.#caution = caution
    this.#permits = permits
    this.#replies = replies
  }

  of(cell: Cell, life: Life): Envelope<RunState> | undefined {
    const permits = this.#permits
    const { mailbox, settings, suspects } = cell
    if (life.draining || life.retired) return this.#nothing(cell)
    if (this.#caution.isAsked) {
      if (this.#caution.isHolding) return this.#held(cell)
      if (this.#caution.waitsForLog(cell)) return this.#nothing(cell)
    }
    if (cell.interleaves && settings.isAgent) return this.#nextRun(cell, life)
    if (mailbox.handed.size > 0 && life.held.length > 0) return undefined // a shelved turn is to go on first
    const shelved = mailbox.handed.shelved
    const isOpen = shelved.size > 0 ? runsOf(shelved.values()) : NONE
    const first = mailbox.line.next
    if (first && isOpen.has(first.run)) {
      const other = mailbox.handed.size === 0 ? this.#another(cell, new Set(isOpen)) : undefined
      return other ?? (mailbox.handed.size > 0 ? undefined : this.#nothing(cell))
    }
    if (first && first.attempt > 1 && (this.#core.recalls(cell, first) || this.#isLeft(cell, first)))
      return mailbox.handed.size > 0 ? undefined : this.#nothing(cell)
    if (mailbox.handed.size > 0) {
      if (!first || suspects.size > 0 || cell.instances.length > 1) return undefined
      if (settings.isAgent && !this.#mayFollow(cell, life, first)) return undefined
    }
    if (first && (!settings.isAgent || permits.take(first.run, cell))) return first
    if (mailbox.handed.size > 0) return undefined
    const other =
      first && mailbox.isMixed && permits.mayPass(cell)
        ? this.#another(cell, new Set([...isOpen, first.run]))
        : undefined
    if (!other && cell.permit) permits.release(cell.permit, cell) // its messages are gone
    return other
  }

  /**
   * Checks whether a turn that was tried here is left to another instance. It is left once: an instance that seems free
   * may not take it yet, and nobody would ask this one again.
   */
  #isLeft(cell: Cell, { retries, run }: Envelope<RunState>): boolean {
    if (!retries || retries.instance !== cell.instance || !hasFreeOther(cell, run)) return false
    retries.instance = undefined
    this.#core.ready.touchInstance(cell)
    return true
  }

  #held(cell: Cell): Envelope<RunState> | undefined {
    const held = this.#caution.heldFor(cell)
    if (!held || (held.attempt > 1 && this.#core.recalls(cell, held))) return this.#nothing(cell)
    return !cell.settings.isAgent || this.#permits.take(held.run, cell) ? held : undefined
  }

  /** Returns the next message for an agent with several turns at once: of a run of which it has no open turn. */
  #nextRun(cell: Cell, life: Life): Envelope<RunState> | undefined {
    const { mailbox, promised, settings, suspects } = cell
    const { handed } = mailbox
    const mayCome = cell.hasPlace() && mailbox.waiting > 0
    if (!mayCome && mailbox.waiting > 0) {
      if (suspects.size > 0) this.#askWhetherQuiet(cell, life)
      else
        this.#core.limits.reached(
          {
            option: `concurrency of "${cell.name}"`,
            limit: settings.concurrency,
            runId: mailbox.peek()?.run.id,
            agent: cell.name,
          },
          'messages of other runs wait for it',
        )
    }
    const next = mayCome ? this.#another(cell, runsOf(handed.all())) : undefined
    if (next) return next
    for (const run of [...promised]) // its messages are gone, or cannot come
      if (handed.shelved.size === 0 || !cell.shelvedOf(run)) this.#permits.release(run, cell)
    return next
  }

  /** Asks the open turns whether they wait for others alone. They answer when they do. */
  #askWhetherQuiet(cell: Cell, life: Life): void {
    for (const envelope of cell.mailbox.handed.values()) {
      const { turn, within } = envelope
      if (life.quiet.isKnown(turn) || (within && !life.begun(envelope))) continue
      life.quiet.ask(turn, this.#replies.probe(cell, turn))
    }
  }

  /** Gives back the permits of messages that must wait. A turn that is open keeps its own. */
  #nothing(cell: Cell): undefined {
    for (const run of [...cell.promised]) this.#permits.release(run, cell)
    if (cell.permit && cell.mailbox.handed.size === 0) this.#permits.release(cell.permit, cell)
  }

  /**
   * Returns the next message of another run that has a permit, while the first message waits: for the permit of its
   * run, or for the end of its run's turn. Rule 16 holds: no message passes an earlier one of its own run, nor one of
   * its own sender and priority. Scripts count as separate senders in each run. Nor does a new message take the last
   * place of an interrupted turn that has asked others and waits for its permit: what they ask back runs within that
   * turn, and others wait for it. `runs`: runs whose messages wait.
   */
  #another(cell: Cell, runs: Set<RunState>): Envelope<RunState> | undefined {
    const permits = this.#permits
    const senders = new Set<number>()
    let passes = false
    let interrupted = 0
    let isSpare: boolean | undefined
    for (const envelope of cell.mailbox.queued()) {
      if (envelope.within) continue
      if (envelope.attempt > 1) interrupted += hasAsked(cell, envelope) ? 1 : 0
      else if (interrupted > 0) {
        isSpare ??= placesOf(cell) > interrupted // the interrupted ones stand before all others
        if (!isSpare) return undefined
      }
      const sender = senderOf(envelope.memory, envelope.at)
      const line = sender * 2 ** 32 + envelope.priority
      const isFree = !runs.has(envelope.run) && (sender === ORCHESTRATOR_INDEX || !senders.has(line))
      const isRecalled = isFree && envelope.attempt > 1 && this.#core.recalls(cell, envelope)
      if (isFree && !isRecalled && !this.#isLeft(cell, envelope)) {
        if (passes && !permits.mayPass(cell)) return undefined
        if (permits.take(envelope.run, cell)) return envelope
        passes = true
      }
      runs.add(envelope.run)
      senders.add(line)
    }
    return undefined
  }

  #mayFollow(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    if (life.run !== envelope.run || isAhead(cell, envelope)) return false
    // A message too large for the ranked ring goes through the plain one, outside of the order of its priority. So it
    // must be alone in the window.
    return !ranksLarge(life, envelope) && !(life.ranksLarge && cell.mailbox.handed.get(life.ranksLarge.turn))
  }
}

const placesOf = ({ instances, settings }: Cell): number =>
  instances.reduce(
    (sum, { stopped, openRuns }) => sum + (stopped ? 0 : Math.max(0, settings.concurrency - openRuns)),
    0,
  )

function hasAsked({ open }: Cell, { turn }: Envelope<RunState>): boolean {
  for (const request of open.values()) if (request.turn === turn) return true
  return false
}

const hasFreeOther = ({ instance, instances }: Cell, run: RunState): boolean =>
  instances.some((other) => {
    const { life } = other
    const isFree = life?.ready && !life.draining && !life.retired && other.hasPlace() && !other.isAt(run)
    return other.instance !== instance && isFree
  })

const NONE: ReadonlySet<RunState> = new Set()

const runsOf = (envelopes: Iterable<Envelope<RunState>>) => new Set(Array.from(envelopes, ({ run }) => run))

/**
 * Checks whether the window holds its maximum of messages. The maximum is 1 if a message may be redelivered to the same
 * thread, or may expire or be dropped before it has begun.
 */
function isAhead({ settings, mailbox, turnMs }: Cell, { priority }: Envelope<RunState>): boolean {
  const { supervision, turnRetries, queueTimeoutMs } = settings
  const { displaces } = policyOf(settings.mailbox.overflow)
  if (supervision.onHandlerError !== 'fail' || turnRetries > 0 || queueTimeoutMs !== false || displaces) return true
  const { size, ranked } = mailbox.handed
  const most = Math.ceil(AHEAD_MS / turnMs)
  return priority === 0 ? size - ranked >= Math.min(most, HANDED_AHEAD) : ranked >= Math.min(most, RANKED_AHEAD)
}

const ranksLarge = ({ window }: Life, { priority, bytes }: Envelope<RunState>): boolean =>
  priority !== 0 && bytes > window.ranked.inlineLimit

export class Dispatcher {
  readonly #core: Core
  readonly #caution: CautiousStart
  readonly #permits: Permits
  readonly #replies: ReplyLane
  readonly #shelf: Shelf
  readonly #next: NextMessage
  /**
   * Full rings, with the agent that waits for space in each; one thread can have several. The thread wakes the host
   * when it has freed space.
   */
  readonly cramped = new Map<Ring, { cell: Cell; life: Life }>()

  readonly #asleep: Cell[] = []

  constructor(core: Core, caution: CautiousStart, permits: Permits, replies: ReplyLane, shelf: Shelf) {
    this.#core = core
    this.#caution = caution
    this.#permits = permits
    this.#replies = replies
    this.#shelf = shelf
    this.#next = new NextMessage(core, caution, permits, replies)
  }

  /**
   * Stops the turn of that message. A turn that gave up its permit is notified when it has it back, before the answers
   * that it waited for: the remaining work of the turn needs a permit too.
   */
  stop(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    const { life } = cell
    if (!life) return
    const { run, turn } = envelope
    const frame = this.#core.frames.abort(run.index, envelope, reason)
    const isShelved = cell.mailbox.handed.shelved.has(turn)
    const line = !isShelved && isHeldBack(cell, life, run.index, turn) ? life.held : life.backlog
    const isLarge = frame.bytes > life.window.replies.inlineLimit // then it cannot pass one that is half written
    const at = isLarge ? -1 : line.findIndex(({ memory }) => turnOf(memory, 0) === turn && isForOpenTurn(memory))
    line.splice(at < 0 ? line.length : at, 0, frame)
    life.gives(turn, timeOf(frame.memory, 0))
    if (cell.suspended.has(run.index)) life.unstopped.add(envelope)
    else endAfterGrace(this.#core, cell, envelope)
    this.#core.ready.touchInstance(cell)
    this.#core.loop.wake()
  }

  /** Hands over all messages that can be handed over, publishes them, and wakes sleeping threads. */
  flush(): void {
    if (this.cramped.size > 0) this.roomAgain()
    while (this.#core.ready.marked.size > 0) for (const cell of this.#core.ready.takeAll()) this.#serve(cell)
    if (this.#asleep.length > 0) this.#core.awaken(this.#asleep.splice(0))
  }

  hurry(): void {
    for (const cell of this.#core.ready.takeHurried()) this.#serve(cell)
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
      this.#core.ready.touchInstance(cell)
    }
    return this.#core.ready.marked.size > 0
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
    if (!this.#permits.resume(run, cell)) return false
    for (const envelope of cell.life?.unstopped ?? []) {
      if (envelope.run !== run) continue
      cell.life?.unstopped.delete(envelope)
      endAfterGrace(this.#core, cell, envelope)
    }
    return true
  }

  #letIn(cell: Cell, life: Life): void {
    const returned: number[] = []
    life.held = life.held.filter((frame) => {
      const shelved = cell.mailbox.handed.shelved.get(turnOf(frame.memory, 0))
      if (shelved && !this.#shelf.takeBack(cell, life, shelved)) return true
      if (shelved) returned.push(shelved.turn)
      const run = cell.suspended.get(runOf(frame.memory, 0))
      if (run && !this.#resume(run, cell)) return true
      life.backlog.push(frame)
      life.told += 1 // a deadlock probe may have passed it
      return false
    })
    // They may have got something else than the answer of the person.
    for (const turn of returned) this.#shelf.consider(cell.first, turn)
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

  /**
   * Hands over the nested requests that may go now: those that run within an open turn. They do not queue. They go
   * through the ring of the replies, behind what is there, to the instance that has the turn, and with its permit. The
   * thread begins one when all its open turns of the run wait for others, and reports that. Those that may not go wait
   * until their outer turn is redelivered, or for a permit.
   */
  #handNested(cell: Cell, life: Life): void {
    for (const envelope of [...cell.mailbox.nested]) {
      if (!cell.mailbox.holds(envelope.within!)) continue
      if (!this.#caution.allows(envelope) || !this.#mayGoOn(cell, life, envelope.run)) continue
      if (envelope.attempt > 1) {
        if (this.#core.recalls(cell, envelope)) continue
        const replay = this.#core.frames.replay(envelope.turn, loggedFrames(cell, envelope))
        if (replay) life.backlog.push(replay)
      }
      cell.mailbox.hand(envelope)
      envelope.handedSeq ||= this.#core.journal.seq
      this.#core.journal.handed(cell, envelope)
      envelope.lane = 'replies'
      const memory = ownCopyOf(envelope.memory, envelope.at, envelope.bytes)
      setTurn(memory, 0, envelope.turn)
      setStep(memory, 0, envelope.within!.turn) // the step is not used otherwise: it names the outer turn
      setAttempt(memory, 0, envelope.attempt)
      life.backlog.push({ memory, bytes: envelope.bytes })
    }
    this.#sendReplies(cell, life)
  }

  /** Gets a place and a permit for the turns of that run. Returns false if there is none now. */
  #mayGoOn(cell: Cell, life: Life, run: RunState): boolean {
    const shelved = cell.shelvedOf(run)
    if (shelved && !this.#shelf.takeBack(cell, life, shelved)) return false
    return !cell.suspended.has(run.index) || this.#resume(run, cell)
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
      this.#replies.tellOver(life)
      life.backlog.push(runNotice(this.#core, cell, run))
    }
    if (!isReplayed) {
      life.replayed = envelope
      life.replayedFor = envelope.attempt
      const replay = this.#core.frames.replay(envelope.turn, loggedFrames(cell, envelope), envelope.onMismatch)
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
    if (bytes > ring.inlineLimit) {
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
    const { journal } = this.#core
    envelope.handedSeq ||= journal.seq
    if (journal.isKept) journal.handed(cell, envelope)
    if (cell.life) cell.life.run = envelope.run
    if (cell.interleaves) cell.promised.delete(envelope.run)
    if (cell.mailbox.handed.size === 1 || cell.interleaves) this.#begins(envelope)
    if (envelope.attempt > 1) this.#shelf.consider(cell.first, envelope.turn) // it may have asked a person before
  }

  #begins(envelope: Envelope<RunState>, at = this.#core.clock.monotonic()): void {
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

  nestedBegan(cell: Cell, envelope: Envelope<RunState>): void {
    this.#begins(envelope)
    this.#core.ready.touchInstance(cell)
  }

  #announce(cell: Cell, envelope: Envelope<RunState>): void {
    envelope.announced = true
    if (envelope.startedAt === NOT_YET) this.#begins(envelope)
    this.#core.journal.record(envelope.run, {
      kind: 'turn.started',
      ...cell.whose,
      messageId: idOf(envelope.memory, envelope.at),
      attempt: envelope.attempt,
      turn: envelope.turn,
      beside: cell.interleaves || cell.instances.length > 1 || envelope.within !== undefined,
    })
  }
}

const isForOpenTurn = (memory: Memory): boolean => kindOf(memory, 0) !== REQUEST && kindOf(memory, 0) !== REPLAY

/**
 * Gives a cancelled turn `supervision.stopGraceMs` to stop, counted from when it executes. After that its thread is
 * ended.
 */
function endAfterGrace(core: Core, cell: Cell, envelope: Envelope<RunState>): void {
  const { life } = cell
  const { stopGraceMs } = cell.settings.supervision
  const { attempt } = envelope
  if (!life) return
  let wasAtWork = isAtWork(cell, life, envelope)
  const afterGrace = () => {
    if (envelope.attempt !== attempt) return // an exit has ended it, or its own end
    if (!cell.mailbox.holds(envelope) || !life.begun(envelope)) return
    const atWork = isAtWork(cell, life, envelope)
    if (!atWork || !wasAtWork) {
      wasAtWork = atWork
      core.clock.timer(stopGraceMs, afterGrace, true)
      return
    }
    if (!life.thread.isolated && !cell.settings.isAgent) return core.abandon(cell, envelope)
    cell.life?.kill(
      new AgentCrashedError(
        `Agent "${cell.name}" went on for ${stopGraceMs} ms after its turn was cancelled, so its thread was ended. Watch context.signal in long handlers.`,
        { agent: cell.name, stopGraceMs },
      ),
    )
  }
  core.clock.timer(stopGraceMs, afterGrace, true)
}

/**
 * Checks whether the turn executes. It does not if another turn of its run went on last in the same thread: it is
 * notified when that turn waits or has ended.
 */
function isAtWork({ mailbox: { handed } }: Cell, { window }: Life, envelope: Envelope<RunState>): boolean {
  const other = handed.nested > 0 ? handed.get(Atomics.load(window.words, AT_WORK)) : undefined
  return !other || other === envelope || other.run !== envelope.run
}
