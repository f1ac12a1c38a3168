/**
 * A few words are shared by all threads of a team: how much room each mailbox has, whether the host sleeps, whether somebody waits for
 * a permit (room.ts). Threads write there without asking, and code in any of them can write what it likes. So the host believes none
 * of these words where a wait depends on it: it knows itself what is in a mailbox, whether it sleeps and who waits. It compares
 * when somebody waits for room that a mailbox should have, and with the slow look of the watchdog; it sets right what differs, and says so.
 */
import type { Scheduler, Timer } from '../../clock.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { HOST_ASLEEP, type Room, type TeamMemory } from '../../mailbox/room.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { RunState } from '../state/run-state.ts'
import type { WordRepairs } from '../state/word-repairs.ts'

/** A message that is on its way has its room and is in no mailbox yet: what is less than the book says is a lie when it stays so. */
const LOOKS = 5
const LOOK_MS = 50
/** How often the host looks by itself once its bell was silenced. */
const WITHOUT_BELL_MS = 20

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly loop: HostLoop
  readonly repairs: WordRepairs
  readonly team: TeamMemory
  /** There is room in that mailbox: lets those in that wait for it. */
  admit(callee: Cell): void
}

export class SharedWords {
  readonly #needs: Needs
  /** Mailboxes that may have room though the words deny it, and in how many looks it was so. */
  readonly #doubts = new Map<Cell, number>()
  #timer: Timer | undefined
  #ticks = 0
  #bellIsSilenced = false

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** At least so often the watchdog is to look. */
  get lookMs(): number {
    return this.#bellIsSilenced ? WITHOUT_BELL_MS : Number.POSITIVE_INFINITY
  }

  /** There is no room for a message. Where the mailbox is not full, that may be so by what is on its way, or by a lie. */
  doubt({ instances: [callee] }: Cell): void {
    const { mailbox, settings } = callee!
    if (callee!.gone || this.#doubts.has(callee!)) return
    if (mailbox.waiting + mailbox.underWay >= settings.mailbox.capacity) return
    this.#doubts.set(callee!, 0)
    this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  readonly #lookAtDoubts = () => {
    this.#timer = undefined
    this.#needs.loop.kick() // what was on its way is there then
    for (const [callee, looks] of [...this.#doubts]) {
      const denied = !callee.gone && this.#isDenied(callee)
      if (denied && looks + 1 < LOOKS) this.#doubts.set(callee, looks + 1)
      else this.#doubts.delete(callee)
      if (denied && looks + 1 >= LOOKS) this.#setRoom(callee)
    }
    if (this.#doubts.size > 0) this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** The slow look, while a turn is open somewhere. */
  look(): void {
    const { directory, loop, repairs, team } = this.#needs
    if (loop.ticks === this.#ticks && Atomics.load(team.words, HOST_ASLEEP) !== 1 && !this.#bellIsSilenced) {
      this.#bellIsSilenced = true
      repairs.report({ word: 'host asleep' })
    }
    loop.kick()
    this.#ticks = loop.ticks
    for (const cell of directory.cells) if (!cell.gone) this.#compare(cell)
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

  /** The words say that there is less than half of the room that there is. */
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

/** Who waits for room and has it taken already. */
const expectedAt = ({ mailbox }: Cell): Envelope<RunState> | undefined => {
  const first = mailbox.parked.peek()
  return first && first === mailbox.expected ? first : undefined
}

/** How many messages have room in a mailbox. */
const countOf = (cell: Cell): number => cell.mailbox.waiting + cell.mailbox.underWay + (expectedAt(cell) ? 1 : 0)

/** What a mailbox has room for, by the host's own book; below zero: it has more than it was to have. */
function roomOf(cell: Cell): Room {
  const { instances, mailbox, settings } = cell
  let { bytes } = settings.mailbox
  for (const envelope of mailbox.queued()) bytes -= envelope.bytes
  for (const each of instances) for (const envelope of each.mailbox.handed.values()) bytes -= envelope.bytes
  return { messages: settings.mailbox.capacity - countOf(cell), bytes: bytes - (expectedAt(cell)?.bytes ?? 0) }
}
