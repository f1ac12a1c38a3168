/**
 * Processes the frames that the host sends beside messages: answers, aborts, and context for the next message. That
 * context is its run, newly joined agents, and the log of its earlier attempts.
 */

import type { Channel } from '../../mailbox/channel.ts'
import { type Directory, errorOf, ReceivedMessage } from '../../mailbox/codec.ts'
import {
  ABORT,
  ACCEPTED,
  CHUNK,
  CORRELATION,
  correlationOf,
  FAILED,
  GO_ON,
  HEADER,
  KIND,
  lengthOf,
  limitOf,
  type Memory,
  ownCopyOf,
  PROBE,
  priorityOf,
  REFUSED,
  REPLAY,
  REQUEST,
  RESPONSE,
  RESULT,
  RESUME,
  RUN,
  RUN_OVER,
  readBody,
  readId,
  runOf,
  STREAM_READ,
  SUSPEND,
  stepOf,
  TEAM,
  turnOf,
  WRITTEN,
} from '../../mailbox/frame.ts'
import { MISMATCH_MODES, RINGS } from '../../mailbox/mailbox.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { TeamNotice } from '../definition/assignment.ts'
import { NOTHING_TAKEN, type Taken } from '../turn/link.ts'
import type { AgentThread, Wait } from '../turn/open-turn.ts'
import { Replay } from '../turn/replay.ts'
import type { RunViews } from '../turn/run-views.ts'
import type { Turn } from '../turn/turn.ts'
import type { Nesting, Probes } from './nesting.ts'

/** The loop, as far as replies change it. */
interface Addressee extends Pick<AgentThread, 'link' | 'names' | 'parking' | 'waits' | 'writtenSteps'> {
  readonly me: number
  readonly runs: RunViews
  /** The open turns. */
  readonly turns: readonly Turn[]
  readonly nesting: Nesting
  readonly aborts: EarlyAborts
  readonly probes: Probes
  readonly directory: Directory
  /** Begins a nested request, or ends it for that reason. */
  beginNested(request: Memory, aborted: DramatisError | undefined): void
  /** Suspends an open turn, or brings it back. */
  suspend(turn: Turn, isSuspended: boolean): void
  /** Notes that a turn has its permit again. Turn 0 means that the thread may take its next message. */
  goOn(turn: number): void
}

export class Replies {
  readonly #to: Addressee
  /** Logs of the earlier attempts of turns that have not begun. */
  readonly replays = new Map<number, Replay>()
  readonly #taken: Taken = { ...NOTHING_TAKEN }

  constructor(to: Addressee) {
    this.#to = to
  }

  /** Takes all replies that have arrived. Returns true if there was at least one. */
  drain(): boolean {
    const { link, nesting, parking } = this.#to
    const taken = this.#taken
    let any = false
    while (link.take('replies', taken)) {
      any = true
      if ((parking.marked === 0 && !nesting.isOpen) || !this.#waits(taken)) this.letIn(taken.memory, taken.at)
      link.done('replies', taken)
    }
    return any
  }

  /** Gives its turn a permit again. Returns true if the frame is kept until no other turn of the run executes. */
  #waits({ memory, at }: Taken): boolean {
    const { nesting, parking } = this.#to
    const turn = this.#openTurn(turnOf(memory, at))
    if (turn) parking.regain(turn.start)
    return turn !== undefined && nesting.isOpen && nesting.keeps(turn, memory, at)
  }

  /** Takes all replies that arrived before `turn` opens. Its message has already been taken. */
  drainFor(turn: number): void {
    const { aborts } = this.#to
    aborts.beginning = turn
    this.drain()
    aborts.beginning = 0
  }

  /** Returns the log of earlier attempts for a turn that begins, and forgets it. */
  takeReplay(turn: number): Replay | undefined {
    const replay = this.replays.get(turn)
    this.replays.delete(turn)
    return replay
  }

  letIn(memory: Memory, at = 0): void {
    const kind = memory.i32[(at >> 2) + KIND]! & 0xff
    const correlation = memory.i32[(at >> 2) + CORRELATION]!
    const { names, nesting, runs } = this.#to
    switch (kind) {
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED: {
        const wait = this.#to.waits.get(correlation)
        if (!wait) return this.#answerLater(correlation, memory, at)
        const { order } = wait
        order.last = { correlation, piece: 0 }
        wait.isAnswered = true
        return this.answer(wait, memory, at, order.isFree ? undefined : (settle) => order.settle(settle))
      }
      case CHUNK:
        this.#piece(correlation, memory, at)
        break
      case STREAM_READ:
        this.#openTurn(turnOf(memory, at))?.read(limitOf(memory, at))
        break
      case ABORT:
        this.#abort(memory, at)
        break
      case PROBE:
        this.#to.probes.add(stepOf(memory, at), correlation)
        break
      case RUN:
        for (const { name, index } of runs.announce(memory, at)) names.learn(name, index, runs.get(runOf(memory, at)))
        break
      case TEAM:
        this.#hearOfTeam(JSON.parse(readBody(memory, at).data!) as TeamNotice, runOf(memory, at))
        break
      case RUN_OVER:
        runs.delete(runOf(memory, at))
        break
      case SUSPEND:
      case RESUME: {
        const turn = this.#openTurn(stepOf(memory, at))
        if (turn) this.#to.suspend(turn, kind === SUSPEND)
        break
      }
      case GO_ON:
        this.#to.goOn(turnOf(memory, at))
        break
      case WRITTEN:
        this.#to.writtenSteps?.written({ turn: turnOf(memory, at), step: stepOf(memory, at) })
        break
      case REPLAY:
        this.#keepReplay(memory, at)
        break
      case REQUEST:
        for (const { start } of nesting.of(runOf(memory, at))) this.#to.parking.regain(start)
        nesting.bring(memory, at)
        break
    }
  }

  /** Keeps an answer for a step that a redelivered turn has not reached again; it may not even have begun. */
  #answerLater(correlation: number, memory: Memory, at: number): void {
    const replays = this.#openReplays()
    if (replays.length === 0) return
    const copy = ownCopyOf(memory, at)
    replays.some((replay) => replay.settle(correlation, copy))
  }

  /** Settles a wait with the frame that answers it, which is read at once: now, or by `later`. */
  answer(wait: Wait, memory: Memory, at: number, later?: (settle: () => void) => void): void {
    const word = memory.i32[(at >> 2) + KIND]!
    const kind = word & 0xff
    let value: unknown
    let error: DramatisError | undefined
    if (kind === REFUSED || ((word >>> 8) & FAILED) !== 0) error = errorOf(memory, at)
    else if (kind === RESULT) {
      const { data } = readBody(memory, at)
      value = data === undefined ? undefined : JSON.parse(data)
    } else if (kind !== ACCEPTED) value = new ReceivedMessage(memory, at, readId(memory, at), this.#to.directory)
    if (later) later(() => wait.settle(value, error))
    else wait.settle(value, error)
  }

  /** Handles one chunk of a streamed response. */
  #piece(correlation: number, memory: Memory, at: number): void {
    const wait = this.#to.waits.get(correlation)
    if (!wait) {
      const replays = this.#openReplays()
      if (replays.length === 0) return
      const copy = ownCopyOf(memory, at)
      replays.some((replay) => replay.push(correlation, copy))
      return
    }
    const { order } = wait
    wait.pieces += 1
    order.last = { correlation, piece: wait.pieces }
    const { content } = readBody(memory, at)
    order.settle(() => wait.stream?.push(content))
    order.pause()
  }

  /** Returns the replays of open turns and of turns that have not begun yet. */
  #openReplays(): Replay[] {
    return [...this.replays.values(), ...this.#to.turns.flatMap(({ start }) => start.replay ?? [])]
  }

  #openTurn(turn: number): Turn | undefined {
    return this.#to.turns.find(({ start }) => start.turn === turn)
  }

  #abort(memory: Memory, at: number): void {
    const turn = this.#openTurn(turnOf(memory, at))
    const reason = errorOf(memory, at)
    if (turn) return turn.abort(reason)
    const request = this.#to.nesting.takeBack(turnOf(memory, at))
    if (request) this.#to.beginNested(request, reason)
    else this.#to.aborts.keep(turnOf(memory, at), reason, memory, at)
  }

  #hearOfTeam(notice: TeamNotice, run: number): void {
    const view = this.#to.runs.get(run)
    if (run !== 0 && !view) return // the run is over
    if ('newcomer' in notice) this.#to.names.learn(notice.newcomer.name, notice.newcomer.index, view)
    else if (view) view.roster = notice.roster
  }

  #keepReplay(memory: Memory, at: number): void {
    const turn = turnOf(memory, at)
    const copy = ownCopyOf(memory, at)
    const { me, directory } = this.#to
    const replay = new Replay(me, turn, copy, HEADER, lengthOf(memory, at), directory.name)
    replay.onMismatch = MISMATCH_MODES[correlationOf(memory, at)]
    this.replays.set(turn, replay)
  }
}

/*
 * Keeps aborts of turns that have not begun, because replies overtake messages in the channel. An abort may also arrive
 * after its turn has ended. Such an abort is dropped; the position of its message tells the two cases apart.
 */

export class EarlyAborts {
  readonly #channel: Channel
  readonly #reasons = new Map<number, DramatisError>()
  /** The turn whose message has been taken but which is not open yet; 0 if there is none. */
  beginning = 0

  constructor(channel: Channel) {
    this.#channel = channel
  }

  /** Number of kept aborts, at most one for each message in the channel. To be read only. */
  size = 0

  keep(turn: number, reason: DramatisError, memory: Memory, at: number): void {
    const name = RINGS[priorityOf(memory, at)]!
    if (name === 'replies') return // the frame followed its message, whose turn is over
    const ring = this.#channel[name]
    if (turn !== this.beginning && ring.taken(stepOf(memory, at), limitOf(memory, at))) return
    this.#reasons.set(turn, reason)
    this.size = this.#reasons.size
  }

  /** Returns the reason why a beginning turn must end at once, if there is one. */
  take(turn: number): DramatisError | undefined {
    const reason = this.#reasons.get(turn)
    this.#reasons.delete(turn)
    this.size = this.#reasons.size
    return reason
  }
}
