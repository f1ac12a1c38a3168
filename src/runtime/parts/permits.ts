/**
 * At most so many agents have a turn of one run at a time (rule 19). Permits travel with the frames: an agent holds one
 * as long as anything of the run is in its window, so back-to-back turns cost nothing. One that only waits for others
 * is parked; its permit is taken when somebody wants it, and it gets one back before its answer is let in.
 */
import { PERMITS_WANTED } from '../../mailbox/room.ts'
import type { Cell } from '../cell.ts'
import { type Core, type Gate, OPEN_GATE, type Part } from '../core.ts'
import type { RunState } from '../run-state.ts'

interface Ledger {
  readonly holders: Set<Cell>
  /** In the order of their priority, then of their asking. */
  readonly waiting: Cell[]
}

/** `limit` turns of one run. */
export const permits =
  (limit: number): Part =>
  (core) => {
    const gate = new Permits(core, limit)
    core.gate = gate
    return {
      next: () => gate.reconsider(),
      close: () => {
        core.gate = OPEN_GATE
      },
    }
  }

class Permits implements Gate {
  readonly #core: Core
  readonly #limit: number
  readonly #ledgers = new Map<RunState, Ledger>()
  /** Gave its permit up while it waits: its answers are held back. */
  readonly #suspended = new Map<Cell, RunState>()

  constructor(core: Core, limit: number) {
    this.#core = core
    this.#limit = limit
  }

  take(run: RunState, cell: Cell): boolean {
    const ledger = this.#ledger(run)
    if (ledger.holders.has(cell)) return true
    if (ledger.holders.size < this.#limit || this.#takeFromParked(run, ledger)) {
      ledger.holders.add(cell)
      remove(ledger.waiting, cell)
      this.#announce()
      return true
    }
    if (!ledger.waiting.includes(cell)) {
      const priority = cell.settings.info.priority ?? 0
      const at = ledger.waiting.findIndex((other) => (other.settings.info.priority ?? 0) < priority)
      ledger.waiting.splice(at < 0 ? ledger.waiting.length : at, 0, cell)
    }
    this.#announce()
    return false
  }

  /** A turn that is parked goes on without a permit until somebody answers it. */
  #takeFromParked(run: RunState, ledger: Ledger): boolean {
    for (const holder of ledger.holders) {
      if (!holder.life?.parked) continue
      ledger.holders.delete(holder)
      this.#suspended.set(holder, run)
      return true
    }
    return false
  }

  release(run: RunState, cell: Cell): void {
    if (this.#suspended.get(cell) === run) this.#suspended.delete(cell)
    const ledger = this.#ledgers.get(run)
    if (!ledger) return
    ledger.holders.delete(cell)
    if (ledger.holders.size === 0 && ledger.waiting.length === 0) this.#ledgers.delete(run)
    else this.#wakeNext(ledger)
  }

  resume(cell: Cell): boolean {
    const run = this.#suspended.get(cell)
    if (!run) return true
    if (!run.ending && !this.take(run, cell)) return false
    this.#suspended.delete(cell)
    return true
  }

  reconsider(): void {
    if (Atomics.load(this.#core.team.words, PERMITS_WANTED) === 0) return
    for (const ledger of this.#ledgers.values()) this.#wakeNext(ledger)
  }

  #wakeNext(ledger: Ledger): void {
    for (const cell of ledger.waiting) this.#core.delivery.touch(cell)
  }

  #ledger(run: RunState): Ledger {
    let ledger = this.#ledgers.get(run)
    if (!ledger) {
      ledger = { holders: new Set(), waiting: [] }
      this.#ledgers.set(run, ledger)
    }
    return ledger
  }

  /** Threads that park ring only while somebody waits for a permit. */
  #announce(): void {
    let wanted = 0
    for (const ledger of this.#ledgers.values()) if (ledger.waiting.length > 0) wanted = 1
    Atomics.store(this.#core.team.words, PERMITS_WANTED, wanted)
  }
}

function remove(cells: Cell[], cell: Cell): void {
  const at = cells.indexOf(cell)
  if (at >= 0) cells.splice(at, 1)
}
