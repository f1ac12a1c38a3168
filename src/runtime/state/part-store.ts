/**
 * Bytes of the large parts of messages, each once for the whole team, whoever has sent it. They stay as long as a run
 * that the team has in memory refers to them, or a conversation that it keeps.
 */
import type { PartKeeper } from '../../actors/definition/content.ts'
import { PartLostError } from '../../errors.ts'
import { hashOf, referenceTo } from '../../mailbox/stored-parts.ts'
import type { RunState } from './run-state.ts'

/** Owner of references to stored bytes. `stored`: those bytes, by their hashes. */
export interface PartHolder {
  readonly stored: Map<string, Uint8Array>
}

interface Needs {
  /** Maximum number of bytes at a time. */
  readonly limit: number
  /** Called when a run refers to bytes for the first time. */
  taken(run: RunState, hash: string, bytes: Uint8Array): void
  /** Called when there is no room for bytes of a run. */
  full(run: RunState, bytes: number): void
}

interface Kept {
  readonly bytes: Uint8Array
  holders: number
}

export class PartStore {
  readonly #needs: Needs
  readonly #kept = new Map<string, Kept>()
  /** Bytes that are stored now. */
  bytes = 0

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Number of parts that are stored now. */
  get size(): number {
    return this.#kept.size
  }

  /** Returns stored bytes, whoever refers to them. */
  get(hash: string): Uint8Array | undefined {
    return this.#kept.get(hash)?.bytes
  }

  /**
   * Keeps bytes for a run, in memory of their own. Returns their hash.
   *
   * @throws PartLostError if there is no room for them.
   */
  put(run: RunState, bytes: Uint8Array): string {
    const hash = hashOf(bytes)
    if (run.stored.has(hash)) return hash
    if (!this.#kept.has(hash)) this.#assertRoom(run, bytes.length)
    this.#needs.taken(run, hash, this.hold(run, hash, bytes))
    return hash
  }

  #assertRoom(run: RunState, bytes: number): void {
    const { limit, full } = this.#needs
    if (this.bytes + bytes <= limit) return
    full(run, bytes)
    const text = `A part of ${bytes} bytes has no room: the team stores ${this.bytes} bytes of parts for the runs that it has in memory, and at most ${limit} (maxStoredBytes). Give its URL, wait until other runs have ended, or raise the limit.`
    throw new PartLostError(text, { bytes, stored: this.bytes, limit, runId: run.id })
  }

  /** Lets a holder refer to bytes with that hash. A copy of them is made if they are new. */
  hold({ stored }: PartHolder, hash: string, bytes: Uint8Array): Uint8Array {
    const known = stored.get(hash)
    if (known) return known
    let kept = this.#kept.get(hash)
    if (!kept) {
      kept = { bytes: bytes.slice(), holders: 0 }
      this.#kept.set(hash, kept)
      this.bytes += bytes.length
    }
    kept.holders += 1
    stored.set(hash, kept.bytes)
    return kept.bytes
  }

  /** Lets a run refer to what another holder refers to, as far as the run names it. */
  pass(from: PartHolder, to: RunState): void {
    for (const [hash, bytes] of from.stored) {
      if (to.stored.has(hash)) continue
      this.hold(to, hash, bytes)
      this.#needs.taken(to, hash, bytes)
    }
  }

  /** Gives up what a holder refers to. Bytes that nobody else refers to go. */
  release({ stored }: PartHolder): void {
    for (const hash of stored.keys()) {
      const kept = this.#kept.get(hash)
      if (!kept) continue
      kept.holders -= 1
      if (kept.holders > 0) continue
      this.#kept.delete(hash)
      this.bytes -= kept.bytes.length
    }
    stored.clear()
  }

  /** Returns what keeps the parts that come from outside of the agents, for a run. */
  keeperFor(run: RunState): PartKeeper {
    return {
      knowsAll: true,
      has: (hash) => run.stored.has(hash),
      keep: (bytes) => referenceTo({ hash: this.put(run, bytes), bytes: bytes.length }),
    }
  }
}
