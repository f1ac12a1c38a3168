/**
 * Checkpoints of a shard's log. Their pieces are messages of the stream of tasks. Each message of the log names the
 * checkpoint that counts, so the owner alone changes it, with one message.
 */
import { randomUUID } from 'node:crypto'
import { encodeBlock, readBlock } from '../runtime/store/block-format.ts'
import type { Checkpoint, Position } from '../runtime/store/log-files.ts'
import { type Brokers, MESSAGE_BYTES } from './brokers.ts'

/** A checkpoint as messages of the log name it. */
export interface NamedCheckpoint {
  readonly made: string
  /** Number of its messages. */
  readonly count: number
  readonly position: Position
}

/** Header of a message that the next one goes on. */
export const PART = 'Part'

export class CheckpointParts {
  readonly #brokers: Brokers
  readonly #stream: string
  /** Begin of their names: those of the shard. */
  readonly #prefix: string

  constructor(brokers: Brokers, shard: number) {
    this.#brokers = brokers
    this.#stream = brokers.streamOf('tasks')
    this.#prefix = `checkpoint_${shard}_`
  }

  /** Names of those that have messages here: one of them counts, and the others were replaced, or never finished. */
  async names(): Promise<string[]> {
    const subjects = await this.#brokers.counted(this.#stream, this.#brokers.subjectOf('part', '*', '*'))
    const names = Object.keys(subjects).map((subject) => subject.split('.').at(-2)!)
    return [...new Set(names)].filter((name) => name.startsWith(this.#prefix))
  }

  async write(position: Position, pieces: AsyncIterable<Uint8Array>): Promise<NamedCheckpoint> {
    const made = `${this.#prefix}${randomUUID()}`
    let count = 0
    for await (const entries of pieces) {
      if (entries.byteLength === 0) continue
      const bytes = encodeBlock({ firstSeq: count, lastSeq: count, carried: false, runs: [], entries }, 0, 0, 0)
      for (let from = 0; from < bytes.length; from += MESSAGE_BYTES) {
        const isPart = from + MESSAGE_BYTES < bytes.length
        const part = bytes.subarray(from, from + MESSAGE_BYTES)
        await this.#brokers.put(this.#brokers.subjectOf('part', made, count), part, isPart ? { [PART]: '1' } : {})
        count += 1
      }
    }
    return { made, count, position }
  }

  checkpoint({ made, count, position }: NamedCheckpoint): Checkpoint {
    const [brokers, stream] = [this.#brokers, this.#stream]
    return {
      position,
      async *read() {
        let [parts, first] = [[] as Uint8Array[], 0]
        for (let n = 0; n < count; n++) {
          const last_by_subj = brokers.subjectOf('part', made, n)
          const message = await brokers.patiently(() => brokers.message(stream, { last_by_subj }))
          if (!message) throw new Error(`its message ${n} of ${count} is gone`)
          parts.push(message.data)
          if (message.header.has(PART)) continue
          const block = readBlock(Buffer.concat(parts), 0)
          if (block?.firstSeq !== first) throw new Error(`its message ${n} of ${count} is damaged`)
          ;[parts, first] = [[], n + 1]
          yield block.entries
        }
      },
    }
  }

  async forget(names: readonly string[]): Promise<void> {
    for (const name of names)
      await this.#brokers.purge(this.#stream, { filter: this.#brokers.subjectOf('part', name, '*') })
  }
}
