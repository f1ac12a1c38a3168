/** The verbs about tasks: each is made of messages, so each is a step. */
import type { EscalationOutcome } from '../definition/context/context.ts'
import { handled } from '../definition/promises.ts'
import type { AgentTask, PendingTask, TaskInput } from '../definition/task.ts'
import { delegate, type TaskTurn } from './delegate.ts'
import { escalate } from './escalate.ts'
import { handoff } from './handoff.ts'
import { ModelVerbs } from './model-verbs.ts'

export abstract class TaskVerbs extends ModelVerbs {
  /** The turn, as these verbs see it. */
  protected abstract readonly tasks: TaskTurn

  delegate(to: string, task: TaskInput): PendingTask {
    return delegate(this.tasks, to, task)
  }
  handoff(to: string, task: AgentTask | TaskInput, summary?: string): Promise<void> {
    return handled(handoff(this.tasks, to, task, summary))
  }
  escalate(reason: string, details?: object): Promise<EscalationOutcome> {
    return handled(escalate(this.tasks, reason, details))
  }
}
