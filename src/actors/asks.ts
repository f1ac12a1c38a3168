/** Messages that found no room and wait for the host's verdict: some sends to each recipient at the host, the others here, in order. */

const ASKS_A_RECIPIENT = 64

interface Ledger {
  /** Sends at the host. */
  open: number
  readonly held: Held[]
}

interface Held {
  write(): void
  /** A send, whose verdict makes place for the next. */
  readonly counts: boolean
}

export class Asks {
  readonly #ledgers = new Map<number, Ledger>()

  /** Whether later messages to that agent have to ask too, so that they do not overtake. */
  open(recipient: number): boolean {
    return this.#ledgers.size > 0 && this.#ledgers.has(recipient)
  }

  /**
   * Writes a message that asks for room, in its order. What is settled before it was written never is. `counts`: the
   * settlement is the verdict on a send.
   */
  add(recipient: number, write: () => void, settled: Promise<unknown>, counts: boolean): void {
    const ledger = this.#ledgers.get(recipient) ?? { open: 0, held: [] }
    this.#ledgers.set(recipient, ledger)
    const held: Held = { write, counts }
    ledger.held.push(held)
    writeHeld(ledger)
    const done = () => {
      const at = ledger.held.indexOf(held)
      if (at >= 0) ledger.held.splice(at, 1)
      else if (counts) ledger.open -= 1
      writeHeld(ledger)
      const empty = ledger.open === 0 && ledger.held.length === 0
      if (empty && this.#ledgers.get(recipient) === ledger) this.#ledgers.delete(recipient)
    }
    settled.then(done, done)
  }
}

function writeHeld(ledger: Ledger): void {
  for (let next = ledger.held[0]; next; next = ledger.held[0]) {
    if (next.counts && ledger.open >= ASKS_A_RECIPIENT) return
    if (next.counts) ledger.open += 1
    ledger.held.shift()
    next.write()
  }
}
