/** The way to a server: one session after the other, each begun where the last one was lost. */
import { systemClock } from '../shared/clock.ts'
import { unlessAborted } from '../shared/on-abort.ts'
import type { Session } from './session.ts'

const FIRST_WAIT_MS = 200
/** Times that a request is made again where it was not done, or may be done twice. */
const MOST_AGAIN = 3
const MINUTE_MS = 60_000
const MOST_BEGINS = 5

/** A request that may have been done, and may not be done twice. */
export class UnclearError extends Error {}

export class Link {
  #current: Session
  #next: Promise<void> | undefined
  readonly #begin: () => Promise<Session>
  readonly #ended: AbortSignal
  /** Times at which sessions were begun anew in the last minute. */
  #begins: number[] = []
  /** Number of those that do something in a session. */
  readonly #users = new Map<Session, number>()

  /** `begin` rejects when `ended` is aborted, as it is before `close` is called. */
  constructor(first: Session, begin: () => Promise<Session>, ended: AbortSignal) {
    this.#current = first
    this.#begin = begin
    this.#ended = ended
  }

  /**
   * Does something in the current session: again where it was not done. Where it may be, it is done again if it
   * `mayRepeat`; else it rejects with `UnclearError`.
   */
  async use<T>(
    signal: AbortSignal,
    { mayRepeat, withinMs }: { mayRepeat: boolean; withinMs: number },
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    let losses = 0
    for (let again = 0; ; again += 1) {
      if (this.#current.isOver && !this.#ended.aborted) await unlessAborted(signal, this.#replace(this.#current))
      const session = this.#current
      this.#count(session, 1)
      try {
        return await work(session)
      } catch (error) {
        const fate = signal.aborted ? 'answered' : session.fateOf(error)
        if (fate === 'unclear' && !mayRepeat) throw new UnclearError('', { cause: error })
        const later = fate === 'lost' ? 0 : session.retryAfterMs()
        if (later >= withinMs) throw error // nobody waits that long
        if (fate === 'answered' || again === MOST_AGAIN || (fate === 'lost' && ++losses > 1)) throw error
        if (fate === 'lost') await unlessAborted(signal, this.#replace(session))
        else await systemClock.sleep(Math.max(FIRST_WAIT_MS * 2 ** again, later), signal)
      } finally {
        this.#count(session, -1)
      }
    }
  }

  get session(): Session {
    return this.#current
  }

  close(): Promise<void> {
    return this.#current.close()
  }

  /** Begins one session for all that have lost the same one. */
  async #replace(lost: Session): Promise<void> {
    if (this.#current !== lost) return
    this.#next ??= this.#begun().finally(() => {
      this.#next = undefined
    })
    await this.#next
  }

  async #begun(): Promise<void> {
    const now = systemClock.monotonic()
    this.#begins = this.#begins.filter((at) => now - at < MINUTE_MS)
    const { length } = this.#begins
    if (length === MOST_BEGINS) throw new Error(`it was begun anew ${MOST_BEGINS} times within a minute; wait a minute`)
    this.#begins.push(now)
    if (length > 0) await systemClock.sleep(FIRST_WAIT_MS * 2 ** (length - 1), this.#ended)
    const session = await this.#begin()
    if (!this.#ended.aborted) this.#current = session
    else await session.close()
  }

  #count(session: Session, more: 1 | -1): void {
    const users = (this.#users.get(session) ?? 0) + more
    this.#users.set(session, users)
    if (users > 0) return
    this.#users.delete(session)
    if (session !== this.#current) session.close().catch(() => {}) // its server has ended it already
  }
}
