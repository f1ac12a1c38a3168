/**
 * A few words are shared by all threads of a team: how much room each mailbox has, whether the host sleeps, whether somebody waits for
 * a permit (room.ts). Threads write there without asking, and code in any of them can write what it likes. So the host believes none
 * of these words where a wait depends on it: it knows itself what is in a mailbox, whether it sleeps and who waits. It compares
 * when somebody waits for room that a mailbox should have, and with the slow look of the watchdog; it sets right what differs, and says so.
 */
import type { Timer } from '../../clock.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { HOST_ASLEEP, type Room } from '../../mailbox/room.ts'
import type { Cell } from '../state/cell.ts'
import type { Comparing, Core } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

/** A message that is on its way has its room and is in no mailbox yet: what is less than the book says is a lie when it stays so. */
const LOOKS = 5
const LOOK_MS = 50
/** How often the host looks by itself once its bell was silenced. */
const WITHOUT_BELL_MS = 20

export class SharedWords implements Comparing {
  readonly #core: Core
  /** Mailboxes that may have room though the words deny it, and in how many looks it was so. */
  readonly #doubts = new Map<Cell, number>()
  #timer: Timer | undefined
  #ticks = 0
  #bellIsSilenced = false
  /** How often a word was set right. */
  repairs = 0

  constructor(core: Core) {
    this.#core = core
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
    this.#timer ??= this.#core.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  readonly #lookAtDoubts = () => {
    this.#timer = undefined
    this.#core.kick() // what was on its way is there then
    for (const [callee, looks] of [...this.#doubts]) {
      const denied = !callee.gone && this.#isDenied(callee)
      if (denied && looks + 1 < LOOKS) this.#doubts.set(callee, looks + 1)
      else this.#doubts.delete(callee)
      if (denied && looks + 1 >= LOOKS) this.#setRoom(callee)
    }
    if (this.#doubts.size > 0) this.#timer ??= this.#core.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** The slow look, while a turn is open somewhere. */
  look(): void {
    const { team, cells } = this.#core
    if (this.#core.ticks === this.#ticks && Atomics.load(team.words, HOST_ASLEEP) !== 1 && !this.#bellIsSilenced) {
      this.#bellIsSilenced = true
      this.report({ word: 'host asleep' })
    }
    this.#core.kick()
    this.#ticks = this.#core.ticks
    for (const cell of cells) if (!cell.gone) this.#compare(cell)
  }

  #compare(cell: Cell): void {
    const { team } = this.#core
    if (team.restoreLargest(cell.index)) {
      this.report({ agent: cell.name, word: 'largest message' })
      this.#admit(cell)
    }
    const { capacity } = cell.settings.mailbox
    const { messages } = team.room(cell.index)
    if (messages > capacity - countOf(cell)) this.#setRoom(cell)
    else if (isLess(messages, capacity - countOf(cell)) || this.#isDenied(cell)) this.doubt(cell)
  }

  /** The words say that there is less than half of the room that there is. */
  #isDenied(callee: Cell): boolean {
    const { team } = this.#core
    if (team.restoreLargest(callee.index)) return true
    const said = team.room(callee.index)
    const known = roomOf(callee)
    return isLess(said.messages, known.messages) || isLess(said.bytes, known.bytes)
  }

  #setRoom(callee: Cell): void {
    const { team } = this.#core
    const found = team.room(callee.index)
    const expected = roomOf(callee)
    team.setRoom(callee.index, expected)
    this.report({ agent: callee.name, word: 'room', expected, found })
    this.#admit(callee)
  }

  #admit(callee: Cell): void {
    this.#core.mailboxRoom.admit(callee)
    this.#core.wake() // no tick may be under way
  }

  /** A flood of them is told of ever more seldom. */
  report(fields: { word: string; agent?: string; expected?: Room; found?: Room }): void {
    this.repairs += 1
    if ((this.repairs & (this.repairs - 1)) !== 0) return
    this.#core.logger.error(
      { ...fields, repairs: this.repairs },
      'a word of the memory that all threads of the team share was not what the host knows; it was set right. Only the runtime writes there: look for code in a thread that gets hold of shared memory',
    )
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
