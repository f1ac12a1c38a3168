/** The work of a team as lines for a pipe or a file: one when a task or a sub-task gets another state. */
import type { Digest } from '../../index.ts'
import type { DigestFold } from '../digest/digest-fold.ts'
import { cut } from './text.ts'
import { type ProgressOf, roundOf } from './work-view.ts'

const WIDTH = 160

export class WorkNews {
  /** Sub-tasks that were told last, by agent. */
  readonly #told = new Map<string, string>()

  /** Returns the lines for what `line` has changed; the fold has read it. */
  news({ facts = [], call }: Digest, { tasks, agents }: DigestFold, progressOf: ProgressOf): string[] {
    const changed = new Set(facts.flatMap(({ type, task }) => (type === 'task' ? String(Object(task).id) : [])))
    const lines = [...changed].flatMap((id) => {
      const task = tasks.get(id)
      return task ? `task  ${task.agent ?? 'nobody'}: ${task.status}  ${task.description}` : []
    })
    return [...lines, ...(call ? this.#subtasks([...agents.keys()], progressOf) : [])].map((line) => cut(line, WIDTH))
  }

  #subtasks(agents: readonly string[], progressOf: ProgressOf): string[] {
    return agents.flatMap((name) => {
      const progress = progressOf(name)
      if (!progress?.subtask) return []
      const isLast = progress.round >= progress.maxRounds - 1
      const text = `${progress.subtask}${isLast ? `  ${roundOf(progress)}` : ''}`
      if (this.#told.get(name) === text) return []
      this.#told.set(name, text)
      return `sub-task  ${name}: ${text}`
    })
  }
}
