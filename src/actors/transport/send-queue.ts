/**
 * Messages that found no room in a mailbox. For each recipient they stand in one line, so that none overtakes another.
 * The first asks the host and waits. When it has been let in, those behind it take the room that has freed meanwhile by
 * themselves; the first for which there is none asks in its turn. So a full mailbox costs its senders one question for
 * each time that it falls empty, not one for each message.
 *
 * A message to all goes to the host, behind everything that stands in line; what comes later waits for its verdict.
 */

const SENDS_BEHIND_A_REQUEST = 64
const EVERYBODY = -1

/** One message that waits for room. */
export interface Ask {
  readonly kind: 'send' | 'request'
  /** Takes room and writes the message; false: there is none. */
  claim(): boolean
  /** Writes the message and leaves it to the host when it is let in. */
  ask(): void
  /** The verdict on a send, or the response to a request. What settles before it was written never is written. */
  readonly settled: Promise<unknown>
}

interface Line {
  /** Sends at the host, whose verdict is to come. */
  sends: number
  /** Requests at the host. They have no verdict but their response: until then nobody may take room by himself. */
  requests: number
  readonly held: Ask[]
}

export class Asks {
  readonly #lines = new Map<number, Line>()

  /** Whether later messages to that agent have to stand in line too. */
  open(recipient: number): boolean {
    return this.#lines.size > 0 && (this.#lines.has(recipient) || this.#lines.has(EVERYBODY))
  }

  /** Puts a message at the end of its recipient's line. */
  add(recipient: number, ask: Ask): void {
    const line = this.#lineOf(recipient)
    line.held.push(ask)
    const done = () => {
      const at = line.held.indexOf(ask)
      if (at >= 0) line.held.splice(at, 1)
      this.#advance(recipient, line)
    }
    ask.settled.then(done, done)
    this.#advance(recipient, line)
  }

  /** An earlier life had asked: the host has it. */
  asked(recipient: number, verdict: Promise<unknown>): void {
    this.#awaitHost(recipient, this.#lineOf(recipient), 'send', verdict)
  }

  /** Who waits for room asks for it now: a message to all comes next, and overtakes nobody. */
  askAll(): void {
    for (const [recipient, line] of this.#lines)
      for (let next = line.held.shift(); next; next = line.held.shift()) this.#ask(recipient, line, next)
  }

  /** The host has a message to all: until its verdict nobody may take room by himself. */
  askedAll(verdict: Promise<unknown>): void {
    this.asked(EVERYBODY, verdict)
  }

  #lineOf(recipient: number): Line {
    let line = this.#lines.get(recipient)
    if (!line) {
      line = { sends: 0, requests: 0, held: [] }
      this.#lines.set(recipient, line)
    }
    return line
  }

  #awaitHost(recipient: number, line: Line, kind: Ask['kind'], settled: Promise<unknown>): void {
    const count = kind === 'send' ? 'sends' : 'requests'
    line[count] += 1
    const done = () => {
      line[count] -= 1
      if (recipient === EVERYBODY) for (const [of, waiting] of [...this.#lines]) this.#advance(of, waiting)
      else this.#advance(recipient, line)
    }
    settled.then(done, done)
  }

  #ask(recipient: number, line: Line, next: Ask): void {
    next.ask()
    this.#awaitHost(recipient, line, next.kind, next.settled)
  }

  #advance(recipient: number, line: Line): void {
    for (let next = line.held[0]; next; next = line.held[0]) {
      const sends = line.sends + (this.#lines.get(EVERYBODY)?.sends ?? 0)
      const first = sends === 0 && line.requests === 0
      if (first && next.claim()) {
        line.held.shift()
        continue
      }
      if (next.kind === 'send' && sends >= (line.requests > 0 ? SENDS_BEHIND_A_REQUEST : 1)) return
      line.held.shift()
      this.#ask(recipient, line, next)
    }
    if (line.sends === 0 && line.requests === 0 && this.#lines.get(recipient) === line) this.#lines.delete(recipient)
  }
}
