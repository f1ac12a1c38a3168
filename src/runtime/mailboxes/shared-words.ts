/**
 * Checks the few words that all threads of a team share: the room of each mailbox, whether the host sleeps, whether an
 * agent waits for a permit (room.ts). Threads write there directly, and code in any thread can write anything. So the
 * host does not trust these words where a wait depends on them: it has its own records of mailboxes, sleep and waits,
 * and looks at the frames of all agents now and then, whoever is marked.
 * It compares when a message waits for room that a mailbox should have, and with the slow check of the watchdog. It
 * repairs words that differ, and reports that.
 */
import type { Scheduler, Timer } from '../../clock.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { HOST_ASLEEP, type Room, type TeamMemory } from '../../mailbox/room.ts'
import { CLAIM } from '../../mailbox/window.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { RunState } from '../state/run-state.ts'
import type { WordRepairs } from '../state/word-repairs.ts'

/**
 * Number and interval of checks before a repair. A message on its way has its room and is in no mailbox yet. So if the
 * words show less room than the host's records, that is an error only if it stays so, and if no sender claims room
 * meanwhile: in a flood some messages are always on their way. A thread that was stopped by the system after its claim
 * says so in its note (window.ts).
 */
const LOOKS = 5
const LOOK_MS = 50
/**
 * Number of checks that pass over a mailbox while the note of a live thread says that it is about to send there: the
 * system may not let that thread run for long. There is a limit, since code in the thread can write such a note, too.
 */
const LOOKS_AT_CLAIMS = 100
/** Number of agents that the slow check compares at a time: a team can have thousands. */
const COMPARED = 1_024
/** Interval of the host's own checks after a thread has suppressed its wake-ups. */
const WITHOUT_BELL_MS = 20

/** A mailbox that may have room though the words deny it. */
interface Doubt {
  /** Number of checks in a row that found this. */
  looks: number
  /** Number of checks passed over since then, because a thread was about to send. */
  passed: number
  /** Number of messages that the host admitted since the doubt began, because their senders found no room. */
  admitted: number
  /** Messages whose senders had claimed their room, at the last check. */
  claims: number
}

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly loop: HostLoop
  readonly repairs: WordRepairs
  readonly team: TeamMemory
  /** Admits waiting messages to a mailbox that has room. */
  admit(callee: Cell): void
}

export class SharedWords {
  readonly #needs: Needs
  readonly #doubts = new Map<Cell, Doubt>()
  #timer: Timer | undefined
  #ticks = 0
  #bellIsSilenced = false
  /**
   * True if the last check found that a thread had woken the host, and no wake-up. It may be on its way: the system can
   * stop a thread before it has posted it.
   */
  #wasUnheard = false
  /** Index of the agent that is compared next. */
  #next = 0

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Longest time until the next check of the watchdog, in ms. */
  get lookMs(): number {
    return this.#bellIsSilenced ? WITHOUT_BELL_MS : Number.POSITIVE_INFINITY
  }

  /**
   * Handles a message without room. If the mailbox is not full, messages on their way or a forged word can be the
   * reason.
   */
  doubt({ instances: [callee] }: Cell): void {
    const { mailbox, settings } = callee!
    if (callee!.gone || this.#doubts.has(callee!)) return
    if (mailbox.waiting + mailbox.underWay >= settings.mailbox.capacity) return
    this.#doubts.set(callee!, { looks: 0, passed: 0, admitted: 0, claims: mailbox.accepted })
    this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** Notes that a message was admitted whose sender found no room. */
  admitted({ instances: [callee] }: Cell): void {
    const doubt = this.#doubts.size > 0 ? this.#doubts.get(callee!) : undefined
    if (doubt) doubt.admitted += 1
  }

  readonly #lookAtDoubts = () => {
    this.#timer = undefined
    for (const [callee, doubt] of [...this.#doubts]) {
      this.#note(callee, doubt)
      const denied = !callee.gone && this.#isDenied(callee)
      if (!denied || doubt.looks >= LOOKS) this.#doubts.delete(callee)
      if (denied && doubt.looks >= LOOKS) this.#setRoom(callee)
    }
    if (this.#doubts.size > 0) this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** Counts this check, if no sender has claimed room since the last one and none is about to use its claim. */
  #note(callee: Cell, doubt: Doubt): void {
    const claims = callee.mailbox.accepted - doubt.admitted
    const isMoving = claims !== doubt.claims
    const isPassed = !isMoving && doubt.passed < LOOKS_AT_CLAIMS && this.#isClaimed(callee)
    doubt.looks = isMoving || isPassed ? 0 : doubt.looks + 1
    if (isMoving) doubt.passed = 0
    if (isPassed) doubt.passed += 1
    doubt.claims = claims
  }

  /** Checks whether a live thread has claimed room there for a message that it has not written yet. */
  #isClaimed({ index }: Cell): boolean {
    return this.#needs.directory.living.some(
      ({ life }) => life && Math.abs(Atomics.load(life.window.words, CLAIM)) === index + 1,
    )
  }

  /** Does the slow check of the watchdog, while a turn is open somewhere. */
  look(): void {
    const { directory, loop, repairs, team } = this.#needs
    const isUnheard = loop.ticks === this.#ticks && Atomics.load(team.words, HOST_ASLEEP) !== 1
    if (isUnheard && this.#wasUnheard && !this.#bellIsSilenced) {
      this.#bellIsSilenced = true
      repairs.report({ word: 'host asleep' })
    }
    this.#wasUnheard = isUnheard
    team.allWrote()
    loop.kick()
    this.#ticks = loop.ticks
    const { cells } = directory
    for (let left = Math.min(COMPARED, cells.length); left > 0; left--) {
      const cell = cells[this.#next % cells.length]!
      this.#next = (this.#next + 1) % cells.length
      if (!cell.gone && !cell.removed) this.#compare(cell)
    }
  }

  #compare(cell: Cell): void {
    const { team } = this.#needs
    if (team.restoreLargest(cell.index)) {
      this.#needs.repairs.report({ agent: cell.name, word: 'largest message' })
      this.#admit(cell)
    }
    const { capacity } = cell.settings.mailbox
    const { messages } = team.room(cell.index)
    if (messages > capacity - countOf(cell)) this.#setRoom(cell)
    else if (isLess(messages, capacity - countOf(cell)) || this.#isDenied(cell)) this.doubt(cell)
  }

  /** Checks whether the words show less than half of the real room. */
  #isDenied(callee: Cell): boolean {
    const { team } = this.#needs
    if (team.restoreLargest(callee.index)) return true
    const said = team.room(callee.index)
    const known = roomOf(callee)
    return isLess(said.messages, known.messages) || isLess(said.bytes, known.bytes)
  }

  #setRoom(callee: Cell): void {
    const { team } = this.#needs
    const found = team.room(callee.index)
    const expected = roomOf(callee)
    team.setRoom(callee.index, expected)
    this.#needs.repairs.report({ agent: callee.name, word: 'room', expected, found })
    this.#admit(callee)
  }

  #admit(callee: Cell): void {
    this.#needs.admit(callee)
    this.#needs.loop.wake() // no tick may be under way
  }
}

const isLess = (said: number, known: number): boolean => said < known && 2 * said < known

/** Returns the message that waits for room and has taken it already. */
const expectedAt = ({ mailbox }: Cell): Envelope<RunState> | undefined => {
  const first = mailbox.parked.peek()
  return first && first === mailbox.expected ? first : undefined
}

/** Returns the number of messages that have room in a mailbox. */
const countOf = (cell: Cell): number => cell.mailbox.waiting + cell.mailbox.underWay + (expectedAt(cell) ? 1 : 0)

/** Returns the free room of a mailbox by the host's own records; below zero if it holds more than its limit. */
function roomOf(cell: Cell): Room {
  const { instances, mailbox, settings } = cell
  let { bytes } = settings.mailbox
  for (const envelope of mailbox.queued()) bytes -= envelope.bytes
  for (const each of instances) for (const envelope of each.mailbox.handed.all()) bytes -= envelope.bytes
  return { messages: settings.mailbox.capacity - countOf(cell), bytes: bytes - (expectedAt(cell)?.bytes ?? 0) }
}
