/** The host's side of the relay (programs/relay.ts), and what is said between it and its workers. */
import { Worker } from 'node:worker_threads'
import type { RoundTripPlan } from './round-trips.ts'
import type { Payload } from './workload.ts'

/** The fields that differ from message to message; the runtime carries more. */
export interface Posted {
  id: string
  type: 'report' | 'request' | 'response'
  sender: string
  recipient: string
  content: string
  structuredData: Payload
  priority: number
  threadId: string
  correlationId?: string
}
export type Part = 'producer' | 'counter' | 'pacer' | 'asker'
/** What the host asks of a worker. */
export interface Commands {
  producer: { count: number; size: number }
  counter: { count: number }
  pacer: { perSecond: number; forMs: number }
  asker: RoundTripPlan
}
export type Credit = { credit: number }
/** What a worker tells the host beside messages. */
export type Note = Credit | { result: unknown }

/** Starts the workers of a relay, and posts on what each posts for another. */
export class RelayHost {
  readonly #workers = new Map<string, Worker>()
  readonly #program: URL
  #onResult: (result: unknown) => void = () => {}

  /** `program` runs in each worker, its part as `workerData`. */
  constructor(program: URL) {
    this.#program = program
  }

  /** Resolves when all are up. The first one is who gets the credit that the counter gives. */
  async start(...names: Part[]): Promise<void> {
    for (const name of names) this.#workers.set(name, new Worker(this.#program, { workerData: name }))
    const workers = [...this.#workers.values()]
    await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))))
    for (const worker of workers) {
      worker.on('message', (message: Posted | Note) => {
        if ('recipient' in message) this.#workers.get(message.recipient)!.postMessage(message)
        else if ('credit' in message) workers[0]!.postMessage(message)
        else this.#onResult(message.result)
      })
    }
  }

  tell<P extends Part>(part: P, command: Commands[P]): void {
    this.#workers.get(part)!.postMessage(command)
  }

  /** What the next worker to say so came to. */
  result<T>(): Promise<T> {
    return new Promise((resolve) => {
      this.#onResult = resolve as (result: unknown) => void
    })
  }
}
