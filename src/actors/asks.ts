/** Sends that found no room and wait for the host's verdict: a few for each recipient at the host, the others here. */

interface Ledger {
  /** At the host. */
  open: number
  held: (() => void)[]
}

export class Asks {
  readonly #ledgers = new Map<number, Ledger>()

  /** Whether later sends to that agent have to ask too, so that they do not overtake. */
  open(recipient: number): boolean {
    return this.#ledgers.size > 0 && this.#ledgers.has(recipient)
  }

  /** Writes now, or when one of the `limit` that are at the host is settled. */
  add(recipient: number, limit: number, write: () => void, verdict: Promise<unknown>): void {
    const ledger = this.#ledgers.get(recipient) ?? { open: 0, held: [] }
    this.#ledgers.set(recipient, ledger)
    const settled = () => {
      const next = ledger.held.shift()
      if (next) return next()
      ledger.open -= 1
      if (ledger.open === 0) this.#ledgers.delete(recipient)
    }
    if (ledger.open < limit) {
      ledger.open += 1
      write()
    } else ledger.held.push(write)
    verdict.then(settled, settled)
  }
}
