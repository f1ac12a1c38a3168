/** The agents that the dispatcher is to look at: something may be to be handed to them. */
import type { Cell } from './cell.ts'

const NOBODY: readonly Cell[] = []

export class Ready {
  readonly #cells = new Set<Cell>()
  /** Those for which somebody waits. */
  readonly #hurried = new Set<Cell>()

  get isEmpty(): boolean {
    return this.#cells.size === 0
  }

  /** Something may be to be handed to that agent: whichever instance is free takes it. */
  touch(cell: Cell): void {
    const { instances } = cell
    if (instances.length === 1) this.#cells.add(cell)
    else for (const each of instances) this.#cells.add(each)
  }

  /** The same for that instance alone. */
  touchInstance(cell: Cell): void {
    this.#cells.add(cell)
  }

  /** Something is to be handed to that instance that must not wait behind what others have written. */
  hasten(cell: Cell): void {
    this.#cells.add(cell)
    this.#hurried.add(cell)
  }

  /** All of them, which are no longer noted. */
  takeAll(): Cell[] {
    const cells = [...this.#cells]
    this.#cells.clear()
    this.#hurried.clear()
    return cells
  }

  /** Those alone for which somebody waits. */
  takeHurried(): readonly Cell[] {
    if (this.#hurried.size === 0) return NOBODY
    const cells = [...this.#hurried]
    for (const cell of cells) this.#cells.delete(cell)
    this.#hurried.clear()
    return cells
  }
}
