/**
 * Idempotency keys: a request that is sent again with the same key is answered by the task that the first one began.
 * Source: IETF draft-ietf-httpapi-idempotency-key-header-07.
 */
import { createHash } from 'node:crypto'
import type { HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'
import { idOfKey } from './tasks.ts'

const KEY = /^[\x21-\x7e]{1,255}$/

export class IdempotencyKeys {
  readonly #most: number
  /** Hash of the first request, by the id of its task. */
  readonly #seen = new Map<string, string>()

  constructor({ idempotencyKeys }: Pick<HttpLimits, 'idempotencyKeys'>) {
    this.#most = idempotencyKeys
  }

  /**
   * Returns the id of the task that belongs to the key of a request; undefined for a request without a key.
   * `isKnown` checks whether the log still has a task.
   *
   * @throws HttpError for a key that is none, or that was sent with another body.
   */
  idOf(
    request: Request,
    caller: string,
    body: unknown,
    isKnown: (id: string) => boolean,
  ): { id: string; isRepeated: boolean } | undefined {
    const given = request.headers.get('idempotency-key')
    if (given === null) return undefined
    const key = given.replace(/^"(.*)"$/, '$1') // a string of Structured Fields, as the draft wants it
    if (!KEY.test(key)) {
      const detail = 'Idempotency-Key: accepted are 1 to 255 visible ASCII characters, such as a UUID.'
      throw new HttpError('BAD_REQUEST', detail)
    }
    const id = idOfKey(caller, key)
    const hash = createHash('sha256').update(JSON.stringify(body)).digest('base64')
    const seen = this.#seen.get(id)
    const isRepeated = isKnown(id)
    if (isRepeated && seen !== undefined && seen !== hash) {
      const detail = 'Idempotency-Key: this key was sent with another body. Use a new key for another task.'
      throw new HttpError('MESSAGE_REJECTED', detail, { status: 422 })
    }
    this.#seen.delete(id) // so that it becomes the newest
    this.#seen.set(id, hash)
    if (this.#seen.size > this.#most) this.#seen.delete(this.#seen.keys().next().value!)
    return { id, isRepeated }
  }

  clear(): void {
    this.#seen.clear()
  }
}
