/**
 * Tasks that a model has given away while it goes on. Before its answer counts it is told what came of each, since an
 * open task ends with the turn that gave it.
 */
import { describe } from '../../errors.ts'
import { handled } from '../definition/promises.ts'
import type { PendingTask } from '../definition/task.ts'

export class DelegatedTasks {
  /** Outcomes in words that the model does not know yet, by the id of the task. */
  readonly #untold = new Map<string, Promise<string>>()

  /** Adds a task. Resolves to its id; rejects if it cannot be sent. */
  async add(to: string, task: PendingTask): Promise<string> {
    const outcome = handled(
      task.then(
        ({ result }) => `"${to}" has done it: ${typeof result === 'string' ? result : JSON.stringify(result ?? null)}`,
        (error: unknown) => `"${to}" has not done it: ${describe(error)}`,
      ),
    )
    const id = await task.id
    this.#untold.set(id, outcome)
    return id
  }

  /** Resolves when all tasks have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#untold.values())
  }

  /** Resolves to the outcome of a task that has ended, which the model is told now; undefined if it knows that. */
  async outcome(id: string): Promise<string | undefined> {
    const outcome = await this.#untold.get(id)
    this.#untold.delete(id)
    return outcome
  }

  /** True while there are tasks whose outcome the model does not know. */
  get hasNews(): boolean {
    return this.#untold.size > 0
  }

  /** Resolves when all tasks have ended: to the outcomes that the model does not know, which it is told now. */
  async news(): Promise<string> {
    const ids = [...this.#untold.keys()]
    const outcomes = await Promise.all(this.#untold.values())
    this.#untold.clear()
    return outcomes.map((outcome, i) => `Task ${ids[i]}: ${outcome}`).join('\n\n')
  }
}
