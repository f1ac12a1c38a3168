/** A store whose writes are held back by hand, and a wait that is long enough for what should not happen meanwhile. */
import { Worker } from 'node:worker_threads'
import type { Block, Position } from '../../src/runtime/store/log-files.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

export type Durability = 'write_behind' | 'commit'

/** A store that can hold back its writes, or with 'commit' its syncs. */
export class HeldStore extends MemoryStore {
  readonly #what: Durability
  #free: Promise<void> = Promise.resolve()
  #held = () => {}
  /** Frees what is held back. */
  release = () => {}

  constructor(what: Durability, disk = new MemoryDisk()) {
    super(disk)
    this.#what = what
  }

  /** Holds back all from now on. Resolves when something is held back. */
  hold(): Promise<void> {
    this.#free = new Promise((resolve) => {
      this.release = resolve
    })
    return new Promise((resolve) => {
      this.#held = resolve
    })
  }

  override async append(block: Block): Promise<Position> {
    if (this.#what === 'write_behind') await this.#wait()
    return super.append(block)
  }

  override async sync(): Promise<void> {
    if (this.#what === 'commit') await this.#wait()
  }

  async #wait(): Promise<void> {
    this.#held()
    await this.#free
  }
}

/** Resolves when a thread has started and ended: long after what an agent's thread is about to do. */
export const anotherThread = () =>
  new Promise<void>((resolve) => void new Worker('', { eval: true }).on('exit', () => resolve()))
