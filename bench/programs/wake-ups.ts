/**
 * The floor under many.ts: as many workers, and as many messages among them, by wake-ups alone, each by way of the host.
 * Nothing is copied, logged or looked up; a wake-up is an empty post, as in the runtime. Same arguments.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { costOf, type ManyCosts, messagesIn, roundsOf } from '../many.ts'

/** A worker that answers each post with one. */
class Echo {
  readonly up: Promise<void>
  readonly #worker = new Worker(new URL(import.meta.url))
  readonly #answered: (() => void)[] = []

  constructor() {
    this.up = new Promise((resolve) => this.#answered.push(resolve))
    this.#worker.on('message', () => this.#answered.shift()!())
  }

  /** `then` is called when it has answered. */
  wake(then: () => void): void {
    this.#answered.push(then)
    this.#worker.postMessage(0)
  }
}

if (isMainThread) await host(process.argv[2] ?? '', Number(process.argv[3]), Number(process.argv[4]))
else parentPort!.on('message', () => parentPort!.postMessage(0)).postMessage(0)

async function host(kind: string, size: number, much: number): Promise<void> {
  const nodes = Array.from({ length: size }, () => new Echo())
  await Promise.all(nodes.map((node) => node.up))
  const rounds = kind === 'big' ? roundsOf(size, much) : []
  const lap = () =>
    kind === 'ring' ? costOf(much, () => ring(nodes, much)) : costOf(messagesIn(rounds), () => big(nodes, rounds))
  console.log(JSON.stringify({ cold: await lap(), warm: await lap() } satisfies ManyCosts))
  process.exit(0)
}

function ring(nodes: readonly Echo[], hops: number): Promise<void> {
  return new Promise((resolve) => {
    const hop = (i: number) => (i === hops ? resolve() : nodes[i % nodes.length]!.wake(() => hop(i + 1)))
    hop(0)
  })
}

async function big(nodes: readonly Echo[], rounds: ReturnType<typeof roundsOf>): Promise<void> {
  for (const round of rounds)
    await Promise.all(
      round.map(({ asker, others }) => {
        // who is asked answers, and that wakes who has asked, who asks the next one
        return new Promise<void>((resolve) => {
          const ask = (i: number) =>
            i === others.length ? resolve() : nodes[others[i]!]!.wake(() => nodes[asker]!.wake(() => ask(i + 1)))
          ask(0)
        })
      }),
    )
}
