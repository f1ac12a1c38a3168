/** Agents that the dispatcher has to check, because there may be something to hand to them. */
import type { Cell } from './cell.ts'

const NOBODY: readonly Cell[] = []

export class Ready {
  /** All marked agents. To be changed by the methods alone. */
  readonly marked = new Set<Cell>()
  /** Agents with something that a turn waits for. */
  readonly #hurried = new Set<Cell>()

  /** Marks an agent as ready. Any free instance may take what there is. */
  touch(cell: Cell): void {
    const { instances } = cell
    if (instances.length === 1) this.marked.add(cell)
    else for (const each of instances) this.marked.add(each)
  }

  /** Marks one instance alone as ready. */
  touchInstance(cell: Cell): void {
    this.marked.add(cell)
  }

  /** Marks an instance as ready with priority: what it gets must not wait behind what others have written. */
  hasten(cell: Cell): void {
    this.marked.add(cell)
    this.#hurried.add(cell)
  }

  /** Returns all marked agents and clears the list. */
  takeAll(): Cell[] {
    const cells = [...this.marked]
    this.marked.clear()
    this.#hurried.clear()
    return cells
  }

  /** Returns the agents with priority, and removes only them from the list. */
  takeHurried(): readonly Cell[] {
    if (this.#hurried.size === 0) return NOBODY
    const cells = [...this.#hurried]
    for (const cell of cells) this.marked.delete(cell)
    this.#hurried.clear()
    return cells
  }
}
