/**
 * Idempotency keys: a request that is sent again with the same key is answered by the task that the first one began.
 * Source: IETF draft-ietf-httpapi-idempotency-key-header-07.
 */
import { createHash } from 'node:crypto'
import { v5 } from 'uuid'
import type { Run } from '../../index.ts'
import { BODY_HASH } from '../../runtime/state/caller.ts'
import type { HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'
import { knownEndOf } from './run-ends.ts'

/** Task that a key stands for. */
export interface KeyedTask {
  readonly id: string
  /** Hash of the body that begins it. */
  readonly hash: string
}

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

  /** Ids of the tasks that requests begin now. */
  readonly #beginning = new Set<string>()

  constructor({ idempotencyKeys }: Pick<HttpLimits, 'idempotencyKeys'>) {
    this.#most = idempotencyKeys
  }

  /**
   * Returns the task that belongs to the key of a request; undefined for a request without a key.
   *
   * @throws HttpError for a key that is none.
   */
  taskOf(request: Request, caller: string, body: unknown): KeyedTask | undefined {
    const given = request.headers.get('idempotency-key')
    if (given === null) return undefined
    const key = given.replace(/^"(.*)"$/, '$1') // a string of Structured Fields, as the draft wants it
    if (!KEY.test(key)) {
      const detail = 'Idempotency-Key: accepted are 1 to 255 visible ASCII characters, such as a UUID.'
      throw new HttpError('BAD_REQUEST', detail)
    }
    const id = idOfKey(caller, key)
    const hash = createHash('sha256').update(JSON.stringify(body)).digest('base64')
    return { id, hash }
  }

  /** Checks whether a request with that key has begun its task, or begins it now. */
  hasBegun({ id }: KeyedTask): boolean {
    return this.#begun.has(id)
  }

  /**
   * Begins the task of a key, or joins it while another request begins it. `isKnown` checks whether some team has it.
   *
   * @throws HttpError for another body, and for a task that was begun and is forgotten: a request that is sent again
   * must not do a thing twice.
   */
  async begin<T>({ id, hash }: KeyedTask, isKnown: () => boolean, start: () => Promise<T>): Promise<T> {
    const begun = this.#begun.get(id)
    if (begun !== undefined && begun !== hash) throw otherBody()
    if (begun !== undefined && !this.#beginning.has(id) && !isKnown()) throw forgotten()
    this.#begun.delete(id) // so that it becomes the newest
    this.#begun.set(id, hash)
    if (this.#begun.size > this.#most) this.#begun.delete(this.#begun.keys().next().value!)
    this.#beginning.add(id)
    try {
      return await start()
    } finally {
      this.#beginning.delete(id)
      if (!isKnown()) this.#begun.delete(id) // it was refused
    }
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

export const forgotten = (): HttpError =>
  new HttpError(
    'CONFLICT',
    'Idempotency-Key: the task of this key was begun, and is not kept any more. It is not begun again; use a new key for that. A durable log keeps tasks longer (stateManagement), and their keys (keep.keysMs).',
  )

const otherBody = (): HttpError =>
  new HttpError(
    'MESSAGE_REJECTED',
    'Idempotency-Key: this key was sent with another body. Use a new key for another task.',
    { status: 422 },
  )
