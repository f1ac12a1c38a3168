/**
 * Moves messages from the mailboxes into the rings of the threads (the channel), and wakes the threads. The order is
 * kept, and ring space and permits are the limit. A channel holds messages of one run at a time, so that a permit is
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
import type { Agent } from './agent.ts'
import type { Core } from './core.ts'
import { ORCHESTRATOR_INDEX } from './directory.ts'
import type { Incarnation } from './incarnation.ts'
import { loggedFrames } from './journal.ts'
import type { Permits, Suspension } from './permits.ts'
import { isHeldBack, type ReplyQueue, runNotice } from './replies.ts'
import type { RunState } from './run.ts'
import type { StagedStart } from './staged-start.ts'

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
  readonly #stagedStart: StagedStart
  readonly #permits: Permits
  readonly #replies: ReplyQueue

  constructor(core: Core, stagedStart: StagedStart, permits: Permits, replies: ReplyQueue) {
    this.#core = core
    this.#stagedStart = stagedStart
    this.#permits = permits
    this.#replies = replies
  }

  of(agent: Agent, incarnation: Incarnation): Envelope<RunState> | undefined {
    const permits = this.#permits
    const { mailbox, settings, suspects } = agent
    if (incarnation.draining || incarnation.retired) return this.#nothing(agent)
    if (this.#stagedStart.isAsked) {
      if (this.#stagedStart.isHolding) return this.#held(agent)
      if (this.#stagedStart.waitsForLog(agent)) return this.#nothing(agent)
    }
    if (agent.interleaves && settings.isAgent) return this.#nextRun(agent, incarnation)
    if (mailbox.handed.size > 0 && incarnation.held.length > 0) return undefined // a suspended turn is to go on first
    const suspended = mailbox.handed.suspended
    const isOpen = suspended.size > 0 ? runsOf(suspended.values()) : NONE
    const first = mailbox.line.next
    if (first && isOpen.has(first.run)) {
      const other = mailbox.handed.size === 0 ? this.#another(agent, new Set(isOpen)) : undefined
      return other ?? (mailbox.handed.size > 0 ? undefined : this.#nothing(agent))
    }
    if (first && first.attempt > 1 && (this.#core.recalls(agent, first) || this.#isLeft(agent, first)))
      return mailbox.handed.size > 0 ? undefined : this.#nothing(agent)
    if (mailbox.handed.size > 0) {
      if (!first || suspects.size > 0 || agent.instances.length > 1) return undefined
      if (settings.isAgent && !this.#mayFollow(agent, incarnation, first)) return undefined
    }
    if (first && (!settings.isAgent || permits.take(first.run, agent))) return first
    if (mailbox.handed.size > 0) return undefined
    const other =
      first && mailbox.isMixed && permits.mayPass(agent)
        ? this.#another(agent, new Set([...isOpen, first.run]))
        : undefined
    if (!other && agent.permit) permits.release(agent.permit, agent) // its messages are gone
    return other
  }

  /**
   * Checks whether a turn that was tried here is left to another instance. It is left once: an instance that seems free
   * may not take it yet, and nobody would ask this one again.
   */
  #isLeft(agent: Agent, { retries, run }: Envelope<RunState>): boolean {
    if (!retries || retries.instance !== agent.instance || !hasFreeOther(agent, run)) return false
    retries.instance = undefined
    this.#core.ready.touchInstance(agent)
    return true
  }

  #held(agent: Agent): Envelope<RunState> | undefined {
    const held = this.#stagedStart.heldFor(agent)
    if (!held || (held.attempt > 1 && this.#core.recalls(agent, held))) return this.#nothing(agent)
    return !agent.settings.isAgent || this.#permits.take(held.run, agent) ? held : undefined
  }

  /** Returns the next message for an agent with several turns at once: of a run of which it has no open turn. */
  #nextRun(agent: Agent, incarnation: Incarnation): Envelope<RunState> | undefined {
    const { mailbox, promised, settings, suspects } = agent
    const { handed } = mailbox
    const mayCome = agent.hasPlace() && mailbox.waiting > 0
    if (!mayCome && mailbox.waiting > 0) {
      if (suspects.size > 0) this.#askWhetherQuiet(agent, incarnation)
      else
        this.#core.limits.reached(
          {
            option: `concurrency of "${agent.name}"`,
            limit: settings.concurrency,
            runId: mailbox.peek()?.run.id,
            agent: agent.name,
          },
          'messages of other runs wait for it',
        )
    }
    const next = mayCome ? this.#another(agent, runsOf(handed.all())) : undefined
    if (next) return next
    for (const run of [...promised]) // its messages are gone, or cannot come
      if (handed.suspended.size === 0 || !agent.suspendedOf(run)) this.#permits.release(run, agent)
    return next
  }

  /** Asks the open turns whether they wait for others alone. They answer when they do. */
  #askWhetherQuiet(agent: Agent, incarnation: Incarnation): void {
    for (const envelope of agent.mailbox.handed.values()) {
      const { turn, within } = envelope
      if (incarnation.quiet.isKnown(turn) || (within && !incarnation.begun(envelope))) continue
      incarnation.quiet.ask(turn, this.#replies.probe(agent, turn))
    }
  }

  /** Gives back the permits of messages that must wait. A turn that is open keeps its own. */
  #nothing(agent: Agent): undefined {
    for (const run of [...agent.promised]) this.#permits.release(run, agent)
    if (agent.permit && agent.mailbox.handed.size === 0) this.#permits.release(agent.permit, agent)
  }

  /**
   * Returns the next message of another run that has a permit, while the first message waits: for the permit of its
   * run, or for the end of its run's turn. Rule 16 holds: no message passes an earlier one of its own run, nor one of
   * its own sender and priority. Scripts count as separate senders in each run. Nor does a new message take the last
   * place of an interrupted turn that has asked others and waits for its permit: what they ask back runs within that
   * turn, and others wait for it. `runs`: runs whose messages wait.
   */
  #another(agent: Agent, runs: Set<RunState>): Envelope<RunState> | undefined {
    const permits = this.#permits
    const senders = new Set<number>()
    let passes = false
    let interrupted = 0
    let isSpare: boolean | undefined
    for (const envelope of agent.mailbox.queued()) {
      if (envelope.within) continue
      if (envelope.attempt > 1) interrupted += hasAsked(agent, envelope) ? 1 : 0
      else if (interrupted > 0) {
        isSpare ??= placesOf(agent) > interrupted // the interrupted ones stand before all others
        if (!isSpare) return undefined
      }
      const sender = senderOf(envelope.memory, envelope.at)
      const line = sender * 2 ** 32 + envelope.priority
      const isFree = !runs.has(envelope.run) && (sender === ORCHESTRATOR_INDEX || !senders.has(line))
      const isRecalled = isFree && envelope.attempt > 1 && this.#core.recalls(agent, envelope)
      if (isFree && !isRecalled && !this.#isLeft(agent, envelope)) {
        if (passes && !permits.mayPass(agent)) return undefined
        if (permits.take(envelope.run, agent)) return envelope
        passes = true
      }
      runs.add(envelope.run)
      senders.add(line)
    }
    return undefined
  }

  #mayFollow(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>): boolean {
    if (incarnation.run !== envelope.run || isAhead(agent, envelope)) return false
    // A message too large for the ranked ring goes through the plain one, outside of the order of its priority. So it
    // must be alone in the channel.
    return (
      !ranksLarge(incarnation, envelope) &&
      !(incarnation.ranksLarge && agent.mailbox.handed.get(incarnation.ranksLarge.turn))
    )
  }
}

const placesOf = ({ instances, settings }: Agent): number =>
  instances.reduce(
    (sum, { stopped, openRuns }) => sum + (stopped ? 0 : Math.max(0, settings.concurrency - openRuns)),
    0,
  )

function hasAsked({ open }: Agent, { turn }: Envelope<RunState>): boolean {
  for (const request of open.values()) if (request.turn === turn) return true
  return false
}

const hasFreeOther = ({ instance, instances }: Agent, run: RunState): boolean =>
  instances.some((other) => {
    const { incarnation } = other
    const isFree =
      incarnation?.ready && !incarnation.draining && !incarnation.retired && other.hasPlace() && !other.isAt(run)
    return other.instance !== instance && isFree
  })

const NONE: ReadonlySet<RunState> = new Set()

const runsOf = (envelopes: Iterable<Envelope<RunState>>) => new Set(Array.from(envelopes, ({ run }) => run))

/**
 * Checks whether the channel holds its maximum of messages. The maximum is 1 if a message may be redelivered to the
 * same thread, or may expire or be dropped before it has begun.
 */
function isAhead({ settings, mailbox, turnMs }: Agent, { priority }: Envelope<RunState>): boolean {
  const { supervision, turnRetries, queueTimeoutMs } = settings
  const { displaces } = policyOf(settings.mailbox.overflow)
  if (supervision.onHandlerError !== 'fail' || turnRetries > 0 || queueTimeoutMs !== false || displaces) return true
  const { size, ranked } = mailbox.handed
  const most = Math.ceil(AHEAD_MS / turnMs)
  return priority === 0 ? size - ranked >= Math.min(most, HANDED_AHEAD) : ranked >= Math.min(most, RANKED_AHEAD)
}

const ranksLarge = ({ channel }: Incarnation, { priority, bytes }: Envelope<RunState>): boolean =>
  priority !== 0 && bytes > channel.ranked.inlineLimit

export class Dispatcher {
  readonly #core: Core
  readonly #stagedStart: StagedStart
  readonly #permits: Permits
  readonly #replies: ReplyQueue
  readonly #suspension: Suspension
  readonly #next: NextMessage
  /**
   * Full rings, with the agent that waits for space in each; one thread can have several. The thread wakes the host
   * when it has freed space.
   */
  readonly cramped = new Map<Ring, { agent: Agent; incarnation: Incarnation }>()

  readonly #asleep: Agent[] = []

  constructor(core: Core, stagedStart: StagedStart, permits: Permits, replies: ReplyQueue, suspension: Suspension) {
    this.#core = core
    this.#stagedStart = stagedStart
    this.#permits = permits
    this.#replies = replies
    this.#suspension = suspension
    this.#next = new NextMessage(core, stagedStart, permits, replies)
  }

  /**
   * Stops the turn of that message. A turn that gave up its permit is notified when it has it back, before the answers
   * that it waited for: the remaining work of the turn needs a permit too.
   */
  stop(agent: Agent, envelope: Envelope<RunState>, reason: DramatisError): void {
    const { incarnation } = agent
    if (!incarnation) return
    const { run, turn } = envelope
    const frame = this.#core.frames.abort(run.index, envelope, reason)
    const isSuspended = agent.mailbox.handed.suspended.has(turn)
    const line =
      !isSuspended && isHeldBack(agent, incarnation, run.index, turn) ? incarnation.held : incarnation.backlog
    const isLarge = frame.bytes > incarnation.channel.replies.inlineLimit // then it cannot pass one that is half written
    const at = isLarge ? -1 : line.findIndex(({ memory }) => turnOf(memory, 0) === turn && isForOpenTurn(memory))
    line.splice(at < 0 ? line.length : at, 0, frame)
    incarnation.gives(turn, timeOf(frame.memory, 0))
    if (agent.withoutPermit.has(run.index)) incarnation.unstopped.add(envelope)
    else endAfterGrace(this.#core, agent, envelope)
    this.#core.ready.touchInstance(agent)
    this.#core.loop.wake()
  }

  /** Hands over all messages that can be handed over, publishes them, and wakes sleeping threads. */
  flush(): void {
    if (this.cramped.size > 0) this.roomAgain()
    while (this.#core.ready.marked.size > 0) for (const agent of this.#core.ready.takeAll()) this.#serve(agent)
    if (this.#asleep.length > 0) this.#core.awaken(this.#asleep.splice(0))
  }

  hurry(): void {
    for (const agent of this.#core.ready.takeHurried()) this.#serve(agent)
  }

  #serve(agent: Agent): void {
    const { incarnation } = agent
    if (!incarnation?.ready) {
      if (agent.passivated === 'asleep') this.#asleep.push(agent)
      return
    }
    const { handed, line } = agent.mailbox
    if (incarnation.backlog.length + incarnation.held.length > 0) this.#sendReplies(agent, incarnation)
    if (line.waiting > 0 || incarnation.sending || agent.interleaves || handed.size === 0)
      this.#handOver(agent, incarnation)
    if (line.nested.length > 0) this.#handNested(agent, incarnation)
    if (incarnation.wantsWakeup !== 'none') incarnation.wake() // before the records: the thread can begin meanwhile
    const { first } = handed
    if (agent.interleaves || handed.nested + handed.ranked > 0) this.#announceTurns(agent)
    else if (first && (!first.announced || first.startedAt < agent.lastEndAt)) this.#announceTurns(agent)
  }

  /**
   * Checks whether a thread has freed ring space since its last full write. Asks for a wake-up before it looks, as with
   * every sleep.
   */
  roomAgain(): boolean {
    for (const [ring, { agent, incarnation }] of this.cramped) {
      Atomics.store(incarnation.channel.words, ROOM_WANTED, 1)
      if (agent.incarnation === incarnation && ring.free() < ring.capacity >> 1) continue
      this.cramped.delete(ring)
      this.#core.ready.touchInstance(agent)
    }
    return this.#core.ready.marked.size > 0
  }

  /**
   * Checks whether replies may go out: a turn that gave up its permit must get one back first. For an agent with one
   * turn at a time all other replies wait too.
   */
  #mayReply(agent: Agent): boolean {
    if (!agent.interleaves) for (const run of agent.withoutPermit.values()) return this.#resume(run, agent)
    return true
  }

  /**
   * Gets a permit for a turn that lost its own; returns false if there is none. Turns that must stop get their grace
   * time from now on.
   */
  #resume(run: RunState, agent: Agent): boolean {
    if (!this.#permits.resume(run, agent)) return false
    for (const envelope of agent.incarnation?.unstopped ?? []) {
      if (envelope.run !== run) continue
      agent.incarnation?.unstopped.delete(envelope)
      endAfterGrace(this.#core, agent, envelope)
    }
    return true
  }

  #letIn(agent: Agent, incarnation: Incarnation): void {
    const returned: number[] = []
    incarnation.held = incarnation.held.filter((frame) => {
      const suspended = agent.mailbox.handed.suspended.get(turnOf(frame.memory, 0))
      if (suspended && !this.#suspension.takeBack(agent, incarnation, suspended)) return true
      if (suspended) returned.push(suspended.turn)
      const run = agent.withoutPermit.get(runOf(frame.memory, 0))
      if (run && !this.#resume(run, agent)) return true
      incarnation.backlog.push(frame)
      incarnation.told += 1 // a deadlock probe may have passed it
      return false
    })
    // They may have got something else than the answer of the person.
    for (const turn of returned) this.#suspension.consider(agent.first, turn)
  }

  #sendReplies(agent: Agent, incarnation: Incarnation): void {
    if (incarnation.held.length > 0) this.#letIn(agent, incarnation)
    const { backlog } = incarnation
    if (backlog.length === 0 || !this.#mayReply(agent)) return
    const before = incarnation.channel.replies.written
    let sent = 0
    for (const { memory, bytes } of backlog) {
      if (!incarnation.replies.write(memory.u8, 0, bytes)) break
      sent += 1
    }
    backlog.splice(0, sent)
    if (backlog.length > 0) this.cramped.set(incarnation.channel.replies, { agent, incarnation })
    if (incarnation.channel.replies.written !== before) incarnation.wantsWakeup = 'reply' // also for the first parts of a large one
    incarnation.channel.replies.publish()
  }

  #handOver(agent: Agent, incarnation: Incarnation): void {
    const { mailbox } = agent
    const { line, handed } = mailbox
    const { plain, ranked } = incarnation.channel
    let any = false
    for (;;) {
      if (incarnation.sending && !this.#sendLarge(agent, incarnation)) break
      if (incarnation.backlog.length > 0) break // replies carry what a message needs to be understood
      const envelope = this.#next.of(agent, incarnation)
      if (!envelope) break
      const isKnown = envelope.attempt === 1 && incarnation.announced.has(envelope.run.index)
      if (!isKnown && !this.#introduce(agent, incarnation, envelope)) break
      if (!this.#place(agent, incarnation, envelope)) {
        this.cramped.set(incarnation.channel[envelope.ring], { agent, incarnation })
        break
      }
      any = true
      if (incarnation.wantsWakeup === 'none') incarnation.wantsWakeup = 'message'
      if (line.waiting === 0 && handed.size > 0 && !agent.interleaves && !incarnation.sending) break
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
  #handNested(agent: Agent, incarnation: Incarnation): void {
    for (const envelope of [...agent.mailbox.nested]) {
      if (!agent.mailbox.holds(envelope.within!)) continue
      if (!this.#stagedStart.allows(envelope) || !this.#mayGoOn(agent, incarnation, envelope.run)) continue
      if (envelope.attempt > 1) {
        if (this.#core.recalls(agent, envelope)) continue
        const replay = this.#core.frames.replay(envelope.turn, loggedFrames(agent, envelope))
        if (replay) incarnation.backlog.push(replay)
      }
      agent.mailbox.hand(envelope)
      envelope.handedSeq ||= this.#core.journal.seq
      this.#core.journal.handed(agent, envelope)
      envelope.ring = 'replies'
      const memory = ownCopyOf(envelope.memory, envelope.at, envelope.bytes)
      setTurn(memory, 0, envelope.turn)
      setStep(memory, 0, envelope.within!.turn) // the step is not used otherwise: it names the outer turn
      setAttempt(memory, 0, envelope.attempt)
      incarnation.backlog.push({ memory, bytes: envelope.bytes })
    }
    this.#sendReplies(agent, incarnation)
  }

  /** Gets a place and a permit for the turns of that run. Returns false if there is none now. */
  #mayGoOn(agent: Agent, incarnation: Incarnation, run: RunState): boolean {
    const suspended = agent.suspendedOf(run)
    if (suspended && !this.#suspension.takeBack(agent, incarnation, suspended)) return false
    return !agent.withoutPermit.has(run.index) || this.#resume(run, agent)
  }

  /**
   * Sends the thread what it must know before the message: its run, and the logged frames of its earlier attempts.
   * Returns false if these are not sent completely.
   */
  #introduce(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>): boolean {
    const { run } = envelope
    const isReplayed =
      envelope.attempt === 1 || (incarnation.replayed === envelope && incarnation.replayedFor === envelope.attempt)
    if (incarnation.announced.has(run.index) && isReplayed) return true
    if (!incarnation.announced.has(run.index)) {
      incarnation.announced.add(run.index)
      run.members.add(agent.index)
      this.#replies.tellOver(incarnation)
      incarnation.backlog.push(runNotice(this.#core, agent, run))
    }
    if (!isReplayed) {
      incarnation.replayed = envelope
      incarnation.replayedFor = envelope.attempt
      const replay = this.#core.frames.replay(envelope.turn, loggedFrames(agent, envelope), envelope.onMismatch)
      if (replay) incarnation.backlog.push(replay)
    }
    this.#sendReplies(agent, incarnation)
    return incarnation.backlog.length === 0
  }

  /** Writes the message into the channel. Returns false if there is no room now. */
  #place(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>): boolean {
    const { memory, at, bytes } = envelope
    // A large message is sent in parts, and parts cannot be reordered by priority.
    if (envelope.priority !== 0 && ranksLarge(incarnation, envelope)) incarnation.ranksLarge = envelope
    envelope.ring = envelope.priority === 0 || incarnation.ranksLarge === envelope ? 'plain' : 'ranked'
    const ring = incarnation.channel[envelope.ring]
    if (bytes > ring.inlineLimit) {
      agent.mailbox.hand(envelope)
      const copy = ownCopyOf(memory, at, bytes)
      setTurn(copy, 0, envelope.turn)
      setAttempt(copy, 0, envelope.attempt)
      envelope.ringEnd = (ring.written + 0x4000_0000) | 0 // not before it is whole
      incarnation.sending = { memory: copy, bytes, envelope }
      this.#started(agent, envelope)
      this.#sendLarge(agent, incarnation)
      return true
    }
    const to = ring.reserve(bytes)
    if (to < 0) return false
    agent.mailbox.hand(envelope)
    copyFrame(memory, at, ring.memory, to, bytes)
    const { i32 } = ring.memory
    const i = to >> 2
    i32[i + TURN] = envelope.turn
    // The log has the sender's retry policy there.
    i32[i + KIND] = (i32[i + KIND]! & ~0xff_0000) | (Math.min(envelope.attempt - 1, 255) << 16)
    ring.advance(bytes)
    envelope.ringAt = to
    envelope.ringEnd = ring.written
    this.#started(agent, envelope)
    return true
  }

  #sendLarge(agent: Agent, incarnation: Incarnation): boolean {
    const { memory, bytes, envelope } = incarnation.sending!
    const whole = incarnation.plain.write(memory.u8, 0, bytes)
    incarnation.channel.plain.publish()
    if (incarnation.wantsWakeup === 'none') incarnation.wantsWakeup = 'message'
    if (!whole) {
      this.cramped.set(incarnation.channel.plain, { agent, incarnation })
      return false
    }
    envelope.ringEnd = incarnation.channel.plain.written
    incarnation.sending = undefined
    return true
  }

  #started(agent: Agent, envelope: Envelope<RunState>): void {
    const { journal } = this.#core
    envelope.handedSeq ||= journal.seq
    if (journal.isKept) journal.handed(agent, envelope)
    if (agent.incarnation) agent.incarnation.run = envelope.run
    if (agent.interleaves) agent.promised.delete(envelope.run)
    if (agent.mailbox.handed.size === 1 || agent.interleaves) this.#begins(envelope)
    if (envelope.attempt > 1) this.#suspension.consider(agent.first, envelope.turn) // it may have asked a person before
  }

  #begins(envelope: Envelope<RunState>, at = this.#core.clock.monotonic()): void {
    envelope.startedAt = at
    if (envelope.begunAt === NOT_YET || envelope.attempt === 1) envelope.begunAt = at
  }

  /** Records which turn an agent has begun: once for each turn, and only for turns that did not end at once. */
  #announceTurns(agent: Agent): void {
    const { handed } = agent.mailbox
    if (agent.interleaves || handed.nested > 0) this.#announceOpen(agent)
    if (agent.interleaves) return
    const { current } = agent
    if (!current) return
    if (!current.announced) return this.#announce(agent, current)
    // This message was the next, and then one of higher priority overtook it.
    if (current.startedAt < agent.lastEndAt && !current.wasSuspended) this.#begins(current, agent.lastEndAt)
  }

  /** Records the open turns of an agent that may have several. A nested turn begins when its thread has reported it. */
  #announceOpen(agent: Agent): void {
    for (const envelope of agent.mailbox.handed.values()) {
      const isOpen = envelope.within ? envelope.startedAt !== NOT_YET : agent.interleaves
      if (isOpen && !envelope.announced) this.#announce(agent, envelope)
    }
  }

  nestedBegan(agent: Agent, envelope: Envelope<RunState>): void {
    this.#begins(envelope)
    this.#core.ready.touchInstance(agent)
  }

  #announce(agent: Agent, envelope: Envelope<RunState>): void {
    envelope.announced = true
    if (envelope.startedAt === NOT_YET) this.#begins(envelope)
    this.#core.journal.record(envelope.run, {
      kind: 'turn.started',
      ...agent.whose,
      messageId: idOf(envelope.memory, envelope.at),
      attempt: envelope.attempt,
      turn: envelope.turn,
      beside: agent.interleaves || agent.instances.length > 1 || envelope.within !== undefined,
    })
  }
}

const isForOpenTurn = (memory: Memory): boolean => kindOf(memory, 0) !== REQUEST && kindOf(memory, 0) !== REPLAY

/**
 * Gives a cancelled turn `supervision.stopGraceMs` to stop, counted from when it executes. After that its thread is
 * ended.
 */
function endAfterGrace(core: Core, agent: Agent, envelope: Envelope<RunState>): void {
  const { incarnation } = agent
  const { stopGraceMs } = agent.settings.supervision
  const { attempt } = envelope
  if (!incarnation) return
  let wasAtWork = isAtWork(agent, incarnation, envelope)
  const afterGrace = () => {
    if (envelope.attempt !== attempt) return // an exit has ended it, or its own end
    if (!agent.mailbox.holds(envelope) || !incarnation.begun(envelope)) return
    const atWork = isAtWork(agent, incarnation, envelope)
    if (!atWork || !wasAtWork) {
      wasAtWork = atWork
      core.clock.timer(stopGraceMs, afterGrace, true)
      return
    }
    if (!incarnation.thread.isolated && !agent.settings.isAgent) return core.abandon(agent, envelope)
    agent.incarnation?.kill(
      new AgentCrashedError(
        `Agent "${agent.name}" went on for ${stopGraceMs} ms after its turn was cancelled, so its thread was ended. Watch context.signal in long handlers.`,
        { agent: agent.name, stopGraceMs },
      ),
    )
  }
  core.clock.timer(stopGraceMs, afterGrace, true)
}

/**
 * Checks whether the turn executes. It does not if another turn of its run went on last in the same thread: it is
 * notified when that turn waits or has ended.
 */
function isAtWork({ mailbox: { handed } }: Agent, { channel }: Incarnation, envelope: Envelope<RunState>): boolean {
  const other = handed.nested > 0 ? handed.get(Atomics.load(channel.words, AT_WORK)) : undefined
  return !other || other === envelope || other.run !== envelope.run
}
