/**
 * Idempotency keys: a request that is sent again with the same key is answered by the task that the first one began.
 * Source: IETF draft-ietf-httpapi-idempotency-key-header-07.
 */
import { createHash } from 'node:crypto'
import { v5 } from 'uuid'
import type { Run } from '../../index.ts'
import type { HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'
import { knownEndOf } from './run-ends.ts'

/** Task that a key stands for. */
export interface KeyedTask {
  readonly id: string
  /** Hash of the body that begins it. */
  readonly hash: string
  /** A request with that key has begun it before. */
  readonly isRepeated: boolean
}

/** Field of the metadata of a run that was begun with a key: the hash of the body that began it. */
export const BODY_HASH = 'bodyHash'

/** Namespace of the ids of tasks that were begun with an idempotency key. */
const KEYED = '6f1c3c0e-52a4-4f0b-9d4b-6a1c8f0a7d11'

/**
 * Returns the id of the task that a caller begins with a key. It is the same after a restart, so that a team with a
 * durable log does not begin it twice. It tells nothing: who knows it needs the right to see the task all the same.
 */
const idOfKey = (caller: string, key: string): string => v5(JSON.stringify([caller, key]), KEYED)

const KEY = /^[\x21-\x7e]{1,255}$/

export class IdempotencyKeys {
  readonly #most: number
  /** Hashes of the bodies that have begun a task, by its id, the newest at the end. */
  readonly #begun = new Map<string, string>()

  constructor({ idempotencyKeys }: Pick<HttpLimits, 'idempotencyKeys'>) {
    this.#most = idempotencyKeys
  }

  /**
   * Returns the task that belongs to the key of a request; undefined for a request without a key. `isKnown` checks
   * whether the log still has a task: then that task says whether the body is the same (`assertSameBody`).
   *
   * @throws HttpError for a key that is none, and for one whose task was begun and is forgotten: a request that is sent
   * again must not do a thing twice.
   */
  taskOf(request: Request, caller: string, body: unknown, isKnown: (id: string) => boolean): KeyedTask | undefined {
    const given = request.headers.get('idempotency-key')
    if (given === null) return undefined
    const key = given.replace(/^"(.*)"$/, '$1') // a string of Structured Fields, as the draft wants it
    if (!KEY.test(key)) {
      const detail = 'Idempotency-Key: accepted are 1 to 255 visible ASCII characters, such as a UUID.'
      throw new HttpError('BAD_REQUEST', detail)
    }
    const id = idOfKey(caller, key)
    const hash = createHash('sha256').update(JSON.stringify(body)).digest('base64')
    const isRepeated = isKnown(id)
    const begun = this.#begun.get(id)
    if (!isRepeated && begun !== undefined) throw begun === hash ? forgotten() : otherBody()
    return { id, hash, isRepeated }
  }

  /** Notes that the task of a key was begun with that body, now or before. */
  begun({ id, hash }: KeyedTask): void {
    this.#begun.delete(id) // so that it becomes the newest
    this.#begun.set(id, hash)
    if (this.#begun.size > this.#most) this.#begun.delete(this.#begun.keys().next().value!)
  }

  clear(): void {
    this.#begun.clear()
  }
}

/**
 * Checks that a run was begun with the body of that hash, in this process or in an earlier one.
 *
 * @throws HttpError for another body.
 */
export async function assertSameBody(run: Run<unknown>, hash: string): Promise<void> {
  await knownEndOf(run) // one that is read from the log has its metadata then
  if (Object.hasOwn(run.metadata, BODY_HASH) && run.metadata[BODY_HASH] !== hash) throw otherBody()
}

const forgotten = (): HttpError =>
  new HttpError(
    'CONFLICT',
    'Idempotency-Key: the task of this key was begun, and is not kept any more. It is not begun again; use a new key for that. A durable log keeps tasks longer (stateManagement).',
  )

const otherBody = (): HttpError =>
  new HttpError(
    'MESSAGE_REJECTED',
    'Idempotency-Key: this key was sent with another body. Use a new key for another task.',
    { status: 422 },
  )
