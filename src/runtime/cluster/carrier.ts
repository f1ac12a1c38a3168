/** Brings requests with a key to the shard of that key, whoever holds it. */
import { createHash } from 'node:crypto'
import { type DramatisError, describe, OutcomeUnknownError } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import type { KeyedCarrier, KeyedEnd, KeyedRequest } from '../team/keyed-requests.ts'
import type { ClusterTask } from './cluster-store.ts'
import type { ClusterProcess } from './process.ts'
import type { SentRequest, SentWithdrawal } from './team-shard.ts'

/** The shard of a key: the same in every process and every version. */
export function shardOf(key: string, shards: number): number {
  return createHash('sha256').update(key).digest().readUInt32LE(0) % shards
}

/** Makes a task of what its body says. `hash`: by which it is known, if that is not the body's. */
export function taskOf(id: string, shard: number, sent: object, hash?: string): ClusterTask {
  const body = Buffer.from(JSON.stringify(sent))
  return { id, shard, hash: hash ?? createHash('sha256').update(body).digest('hex'), body }
}

export class Carrier implements KeyedCarrier {
  readonly #process: Pick<ClusterProcess, 'submit' | 'outcome' | 'isLeaving'>
  readonly #shards: number
  readonly #warn: (text: string) => void

  constructor(
    process: Pick<ClusterProcess, 'submit' | 'outcome' | 'isLeaving'>,
    shards: number,
    warn: (text: string) => void,
  ) {
    this.#process = process
    this.#shards = shards
    this.#warn = warn
  }

  async ask(id: string, request: KeyedRequest, signal: AbortSignal): Promise<KeyedEnd> {
    const sent: SentRequest = { request }
    try {
      await this.#process.submit(taskOf(id, shardOf(request.key, this.#shards), sent), signal)
      const outcome = await this.#process.outcome(id, signal)
      if (!outcome) throw unknown(id, request)
      return JSON.parse(Buffer.from(outcome.body).toString()) as KeyedEnd
    } catch (error) {
      if (!this.#process.isLeaving || signal.aborted) throw error
      return unlessAborted(signal, new Promise<never>(() => {})) // the next owner of the asking turn asks again
    }
  }

  withdraw(id: string, { key }: KeyedRequest): void {
    const sent: SentWithdrawal = { withdraws: id }
    this.#process
      .submit(taskOf(`${id} withdrawn`, shardOf(key, this.#shards), sent))
      .catch((error) => this.#warn(`the request ${id} cannot be withdrawn: ${describe(error)}`))
  }
}

function unknown(id: string, { agent, key }: KeyedRequest): DramatisError {
  const text = `the request to "${agent}" with the key "${key}" was accepted, and the cluster does not know it any more: it may have been done, or not.`
  return new OutcomeUnknownError(text, { id, agent, key })
}
