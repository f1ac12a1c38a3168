/**
 * How processes of a cluster know a request of each other: who sends it names the process that it is for, signs it with
 * what they share, and what it says holds for half a minute and once.
 */
import { createHash, createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'

/** A request of one process to another. */
export interface PeerRequest {
  readonly method: string
  /** Path below the address, with its query. */
  readonly path: string
  readonly body: Uint8Array
}

const HOLDS_MS = 30_000

/** Words of a sender beside its request. */
interface Letter {
  /** Id of the process that it is for. */
  readonly to: string
  /** Epoch ms. */
  readonly at: number
  readonly nonce: string
  /** Digest of the body, which is read only when the rest is believed. */
  readonly digest: string
  readonly said: unknown
}

export class Peers {
  readonly #key: Buffer
  readonly #now: () => number
  /** Nonces of requests that would still hold, with the time of each. */
  readonly #seen = new Map<string, number>()

  /** Without a key nobody is believed. */
  constructor(key: Buffer | undefined, now: () => number) {
    this.#key = key ?? randomBytes(32)
    this.#now = now
  }

  /** Returns what goes with a request to a process, so that it believes what is `said`. */
  sign(to: string, request: PeerRequest, said: unknown): string {
    const letter: Letter = { to, at: this.#now(), nonce: randomUUID(), digest: digestOf(request.body), said }
    const text = Buffer.from(JSON.stringify(letter)).toString('base64url')
    return `${text}.${this.#mark(text, request).toString('base64url')}`
  }

  /**
   * Returns what a process of the cluster has said with its request, and the digest that its body must have, or why
   * that is not believed.
   */
  read(
    self: string,
    given: string,
    request: Omit<PeerRequest, 'body'>,
  ): { said: unknown; digest: string } | { refusal: string } {
    const [text = '', mark = ''] = given.split('.')
    const [expected, got] = [this.#mark(text, request), Buffer.from(mark, 'base64url')]
    if (got.length !== expected.length || !timingSafeEqual(got, expected))
      return {
        refusal: 'it is not signed by a process of this cluster: have both the same cluster.secretEnv or cluster.url?',
      }
    const { to, at, nonce, digest, said } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Letter
    const now = this.#now()
    if (to !== self) return { refusal: 'it is for another process' }
    if (Math.abs(now - at) > HOLDS_MS)
      return { refusal: `it is of ${Math.round((now - at) / 1_000)} s ago: do the clocks of both machines agree?` }
    for (const [each, time] of this.#seen) {
      if (Math.abs(now - time) <= HOLDS_MS) break
      this.#seen.delete(each)
    }
    if (this.#seen.has(nonce)) return { refusal: 'it was sent before' }
    this.#seen.set(nonce, at)
    return { said, digest }
  }

  #mark(text: string, { method, path }: Omit<PeerRequest, 'body'>): Buffer {
    return createHmac('sha256', this.#key).update([text, method, path].join('\n')).digest()
  }
}

export const digestOf = (body: Uint8Array): string => createHash('sha256').update(body).digest('hex')
