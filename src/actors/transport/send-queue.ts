/**
 * Queues messages that found no room in a mailbox, one queue per recipient, so that no message overtakes another. The
 * first message asks the host and waits. Once the host has accepted it, the messages behind it claim free room by
 * themselves. The first one without room asks the host again. So a full mailbox costs its senders one question for each
 * time that it runs empty, not one for each message. A message that waits for the outbox alone does not ask: it claims
 * its room when the host has read what is there.
 *
 * A broadcast goes to the host after all queued messages; later messages wait for its receipt.
 */
import { ASKS, clearFlag, NOBODY, setCorrelation, setFlag } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Link } from './link.ts'
import type { Outbox } from './outbox.ts'
import type { Waits } from './waits.ts'

const SENDS_BEHIND_A_REQUEST = 64
const EVERYBODY = -1

/** A message that waits for room. */
export interface Queued {
  readonly kind: 'send' | 'request'
  /** Claims room and writes the message. Returns false if there is no room. */
  claim(): boolean
  /**
   * Writes the message to the host, which admits it when there is room. `isFirst`: no message before it waits at the
   * host, so it may still claim room itself if it has to wait for the outbox.
   */
  ask(isFirst: boolean): void
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
  readonly queued: Queued[]
}

interface Needs {
  readonly link: Link
  readonly outbox: Outbox
  readonly waits: Waits
}

export class SendQueue {
  readonly #needs: Needs
  readonly #lines = new Map<number, Line>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** True if no message waits for room, or for the host to accept it. */
  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  /** Checks whether later messages to that agent must join the queue too. */
  open(recipient: number): boolean {
    return this.#lines.size > 0 && (this.#lines.has(recipient) || this.#lines.has(EVERYBODY))
  }

  /**
   * Appends the message that the fields of the outbox describe to its recipient's queue. `claimed` is called once the
   * message has room, `onSent` with its id once it is sent. For `settled` see `Queued`.
   */
  add(
    kind: Queued['kind'],
    bytes: number,
    settled: Promise<unknown>,
    claimed: () => void,
    onSent?: (id: string) => void,
  ): void {
    this.append(this.#needs.outbox.fields.recipient, this.#queued(kind, bytes, settled, claimed, onSent))
  }

  /** Appends a message to a recipient's queue. */
  append(recipient: number, message: Queued): void {
    const line = this.#lineOf(recipient)
    line.queued.push(message)
    const done = () => {
      const at = line.queued.indexOf(message)
      if (at >= 0) line.queued.splice(at, 1)
      this.#advance(recipient, line)
    }
    message.settled.then(done, done)
    this.#advance(recipient, line)
  }

  #queued(
    kind: Queued['kind'],
    bytes: number,
    settled: Promise<unknown>,
    claimed: () => void,
    onSent?: (id: string) => void,
  ): Queued {
    const { link, outbox, waits } = this.#needs
    const { recipient, turn, step, correlation } = outbox.fields
    const frame = outbox.encode(bytes)
    const isWithdrawn = () => !waits.get(correlation) // withdrawn a moment ago: the queue does not know it yet
    const claimLate = () => {
      if (isWithdrawn() || !link.claim(recipient, bytes, turn, step)) return false
      clearFlag(frame, 0, ASKS)
      setCorrelation(frame, 0, 0) // a send that has room awaits no receipt
      return true
    }
    return {
      kind,
      settled,
      claim: () => {
        if (isWithdrawn()) return true
        if (recipient === NOBODY || link.reserve(bytes) < 0 || !link.claim(recipient, bytes, turn, step)) return false
        if (kind === 'send') setCorrelation(frame, 0, 0) // a send that has room awaits no receipt
        link.put(frame, bytes, kind === 'send' ? 'soon' : 'now')
        link.claimed()
        claimed()
        onSent?.(idOf(frame, 0))
        return true
      },
      ask: (isFirst) => {
        if (isWithdrawn()) return
        setFlag(frame, 0, ASKS)
        link.post(
          frame,
          bytes,
          isFirst && kind === 'send' && recipient !== NOBODY ? { claim: claimLate, claimed } : undefined,
        )
        onSent?.(idOf(frame, 0))
      },
    }
  }

  /** Notes a send that an earlier attempt of the turn has already passed to the host. */
  asked(recipient: number, receipt: Promise<unknown>): void {
    this.#awaitHost(recipient, this.#lineOf(recipient), 'send', receipt)
  }

  /** Passes all queued messages to the host before a broadcast, so that the broadcast overtakes none. */
  askAll(): void {
    for (const [recipient, line] of this.#lines)
      for (let next = line.queued.shift(); next; next = line.queued.shift()) this.#ask(recipient, line, next, false)
  }

  /** Notes a broadcast at the host. Until its receipt arrives no message may claim room by itself. */
  askedAll(receipt: Promise<unknown>): void {
    this.asked(EVERYBODY, receipt)
  }

  #lineOf(recipient: number): Line {
    let line = this.#lines.get(recipient)
    if (!line) {
      line = { sends: 0, requests: 0, queued: [] }
      this.#lines.set(recipient, line)
    }
    return line
  }

  #awaitHost(recipient: number, line: Line, kind: Queued['kind'], settled: Promise<unknown>): void {
    const count = kind === 'send' ? 'sends' : 'requests'
    line[count] += 1
    const done = () => {
      line[count] -= 1
      if (recipient === EVERYBODY) for (const [of, waiting] of [...this.#lines]) this.#advance(of, waiting)
      else this.#advance(recipient, line)
    }
    settled.then(done, done)
  }

  #ask(recipient: number, line: Line, next: Queued, isFirst: boolean): void {
    next.ask(isFirst)
    this.#awaitHost(recipient, line, next.kind, next.settled)
  }

  #advance(recipient: number, line: Line): void {
    for (let next = line.queued[0]; next; next = line.queued[0]) {
      const sends = line.sends + (this.#lines.get(EVERYBODY)?.sends ?? 0)
      const first = sends === 0 && line.requests === 0
      if (first && next.claim()) {
        line.queued.shift()
        continue
      }
      if (next.kind === 'send' && sends >= (line.requests > 0 ? SENDS_BEHIND_A_REQUEST : 1)) return
      line.queued.shift()
      this.#ask(recipient, line, next, first)
    }
    if (line.sends === 0 && line.requests === 0 && this.#lines.get(recipient) === line) this.#lines.delete(recipient)
  }
}
