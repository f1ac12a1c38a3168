/** The session of a connection, and another one whenever the server, restarted meanwhile, knows that one no more. */
import { unlessAborted } from '../on-abort.ts'
import type { Session } from './session.ts'

export class Sessions {
  #current: Session
  #next: Promise<void> | undefined
  readonly #begin: () => Promise<Session>
  readonly #ended: AbortSignal
  /** Number of those that do something in a session. */
  readonly #users = new Map<Session, number>()

  /** `begin` rejects when `ended` is aborted, as it is before `close` is called. */
  constructor(first: Session, begin: () => Promise<Session>, ended: AbortSignal) {
    this.#current = first
    this.#begin = begin
    this.#ended = ended
  }

  get current(): Session {
    return this.#current
  }

  /** Does something in the current session, and once more in another one if the server does not know it. */
  async use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>, isAgain = false): Promise<T> {
    const session = this.#current
    this.#count(session, 1)
    try {
      return await work(session)
    } catch (error) {
      if (isAgain || !session.isLost(error)) throw error
      await unlessAborted(signal, this.#replace(session))
      return await this.use(signal, work, true)
    } finally {
      this.#count(session, -1)
    }
  }

  close(): Promise<void> {
    return this.#current.close()
  }

  /** Begins one session for all that have lost the same one. */
  async #replace(lost: Session): Promise<void> {
    if (this.#current !== lost) return
    this.#next ??= this.#begin()
      .then(async (session) => {
        if (!this.#ended.aborted) this.#current = session
        else await session.close()
      })
      .finally(() => {
        this.#next = undefined
      })
    await this.#next
  }

  #count(session: Session, more: 1 | -1): void {
    const users = (this.#users.get(session) ?? 0) + more
    this.#users.set(session, users)
    if (users > 0) return
    this.#users.delete(session)
    if (session !== this.#current) session.close().catch(() => {}) // its server has ended it already
  }
}
