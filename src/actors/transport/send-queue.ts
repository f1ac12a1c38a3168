/**
 * Queues messages that found no room in a mailbox, one queue per recipient, so that no message overtakes another. The
 * first message asks the host and waits. Once the host has accepted it, the messages behind it claim free room by
 * themselves. The first one without room asks the host again. So a full mailbox costs its senders one question for each
 * time that it runs empty, not one for each message.
 *
 * A broadcast goes to the host after all queued messages; later messages wait for its receipt.
 */

const SENDS_BEHIND_A_REQUEST = 64
const EVERYBODY = -1

/** A message that waits for room. */
export interface Ask {
  readonly kind: 'send' | 'request'
  /** Claims room and writes the message. Returns false if there is no room. */
  claim(): boolean
  /** Writes the message to the host, which admits it when there is room. */
  ask(): void
  /**
   * Settles with the receipt of a send or the response to a request. A message whose promise settles earlier is never
   * written.
   */
  readonly settled: Promise<unknown>
}

interface Line {
  /** Sends at the host whose receipt is outstanding. */
  sends: number
  /** Requests at the host. The response is their only receipt; until it arrives no message may claim room by itself. */
  requests: number
  readonly held: Ask[]
}

export class Asks {
  readonly #lines = new Map<number, Line>()

  /** Checks whether later messages to that agent must join the queue too. */
  open(recipient: number): boolean {
    return this.#lines.size > 0 && (this.#lines.has(recipient) || this.#lines.has(EVERYBODY))
  }

  /** Appends a message to its recipient's queue. */
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

  /** Notes a send that an earlier attempt of the turn has already passed to the host. */
  asked(recipient: number, verdict: Promise<unknown>): void {
    this.#awaitHost(recipient, this.#lineOf(recipient), 'send', verdict)
  }

  /** Passes all queued messages to the host before a broadcast, so that the broadcast overtakes none. */
  askAll(): void {
    for (const [recipient, line] of this.#lines)
      for (let next = line.held.shift(); next; next = line.held.shift()) this.#ask(recipient, line, next)
  }

  /** Notes a broadcast at the host. Until its receipt arrives no message may claim room by itself. */
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
