/**
 * Owners of threads: a thread belongs to the caller of the run that began it. One that was begun without a caller, or
 * of which none is known, belongs to nobody.
 */

/** Threads whose owners are kept, beside those in use. */
const MOST = 10_000

export class ThreadOwners {
  /** Owners by thread; the thread that was used last is last. */
  readonly #owners = new Map<string, string | null>()
  readonly #isInUse: (threadId: string) => boolean
  readonly #forgotten: (threadId: string) => void

  /** `isInUse` keeps a thread. `forgotten`: called with each that is not kept, so that nothing of it is left. */
  constructor(isInUse: (threadId: string) => boolean, forgotten: (threadId: string) => void) {
    this.#isInUse = isInUse
    this.#forgotten = forgotten
  }

  has(threadId: string): boolean {
    return this.#owners.has(threadId)
  }

  /** Returns whom a thread belongs to. One that nobody has begun begins now. */
  begin(threadId: string, caller: string | null): string | null {
    const owner = this.#owners.get(threadId)
    this.set(threadId, owner === undefined ? caller : owner)
    return this.#owners.get(threadId)!
  }

  set(threadId: string, owner: string | null): void {
    this.#owners.delete(threadId)
    this.#owners.set(threadId, owner)
    if (this.#owners.size > MOST) this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const oldest of this.#owners.keys()) {
      if (this.#isInUse(oldest)) continue
      this.#owners.delete(oldest)
      return this.#forgotten(oldest)
    }
  }

  all(): Iterable<[threadId: string, owner: string | null]> {
    return this.#owners
  }
}
