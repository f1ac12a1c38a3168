/** Tasks of a manager's plan, from proposal to result; the worker's autonomy decides which steps are approved. */
import type { OrchestratorContext } from '../actors/definition/context.ts'
import { ACTING, type AgentMessage } from '../mailbox/message.ts'
import { asSubTask, NO_SUB_TASK } from '../mailbox/sub-task.ts'
import { type DramatisError, describe } from '../shared/errors.ts'
import { errorOf } from './asking.ts'
import type { Manager, Verdict } from './manager.ts'
import { joined, type Passing, passedOn } from './pass-on.ts'
import { resultOf } from './positions.ts'
import type { HIERARCHICAL, Speak } from './prompts.ts'
import { inheritedBy } from './run-tasks.ts'
import { asData, joinedResults, type TaskResult, wordsOf } from './task-results.ts'

export type Autonomy = 'low' | 'medium' | 'high'

export interface Assignment {
  /** Number of the task, from 1. */
  number: number
  worker: string
  task: string
  parentTask: string | null
  earlier: readonly TaskResult[]
}

type Leading = Passing & Pick<OrchestratorContext, 'request' | 'delegate' | 'runId'>

type Done = Extract<TaskResult, { ok: true }>

export class LedTasks {
  readonly #orchestrator: Leading
  readonly #manager: Manager
  readonly #autonomy: Autonomy
  readonly #say: Speak<keyof typeof HIERARCHICAL>
  readonly #plan: AgentMessage | undefined

  /** `plan`: the manager's message with its plan, which brings what workers inherit of its conversation. */
  constructor(
    orchestrator: Leading,
    manager: Manager,
    autonomy: Autonomy,
    say: Speak<keyof typeof HIERARCHICAL>,
    plan?: AgentMessage,
  ) {
    this.#orchestrator = orchestrator
    this.#plan = plan
    this.#manager = manager
    this.#autonomy = autonomy
    this.#say = say
  }

  /** Runs the task by its worker. If the worker fails, the manager names an agent for a second and last attempt. */
  async run(assignment: Assignment): Promise<TaskResult> {
    const { number, worker, task } = assignment
    this.#orchestrator.decide(`Who does task ${number}?`, worker, `The plan of "${this.#manager.name}": ${task}`)
    const first = await this.#outcome(assignment, '')
    if (!first.error) return first
    const { choice, reason } = await this.#reassigned(worker, task, first.error)
    this.#orchestrator.decide(
      `Who does task ${number}, which "${worker}" has not done?`,
      choice?.worker ?? 'nobody',
      reason,
    )
    return choice ? this.#outcome({ ...assignment, worker: choice.worker }, choice.remarks) : first
  }

  async #reassigned(worker: string, task: string, error: DramatisError) {
    const why = `${error.code}: ${error.message}`
    try {
      const choice = await this.#manager.reassign(worker, task, error)
      if (choice.worker === null)
        return { choice: undefined, reason: `"${this.#manager.name}" goes on without. ${why}` }
      return { choice: { ...choice, worker: choice.worker }, reason: `"${this.#manager.name}" says so. ${why}` }
    } catch (failure) {
      this.#orchestrator.signal.throwIfAborted()
      return { choice: undefined, reason: `"${this.#manager.name}" could not say. ${describe(failure)}` }
    }
  }

  async #outcome(assignment: Assignment, remarks: string): Promise<TaskResult> {
    const { worker, task } = assignment
    try {
      return await this.#done(assignment, remarks)
    } catch (error) {
      this.#orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
      return { agent: worker, task, ok: false, error: errorOf(worker, error) }
    }
  }

  async #done(assignment: Assignment, remarks: string): Promise<TaskResult> {
    const brief = await this.#brief(assignment, remarks)
    const agreed = this.#autonomy === 'low' ? await this.#agreed(assignment, brief) : ''
    const words = joined(brief, agreed)
    const inherited = this.#autonomy === 'low' ? undefined : this.#inherited(assignment) // low: with the proposal
    const first = await this.#delegate(assignment, words, inherited)
    if (this.#autonomy === 'high') return first
    const { approved, remarks: better } = await this.#reviewed(assignment, first)
    if (approved) return first
    const again = this.#say('again', { result: wordsOf(first.result) })
    return this.#delegate(assignment, joined(words, again, this.#remarks(better)))
  }

  /** Returns the worker's proposal for the task, with the manager's remarks on it. */
  async #agreed(assignment: Assignment, brief: string): Promise<string> {
    const { number, worker, task } = assignment
    const content = this.#say('propose', { task: brief })
    const { metadata } = asData('propose', { task })
    const options = {
      metadata: { ...metadata, ...this.#inherited(assignment), ...NO_SUB_TASK, [ACTING]: this.#manager.name },
    }
    const message = await this.#orchestrator.request(worker, content, options)
    const { content: proposal } = resultOf({ agent: worker, message })
    const verdict = await this.#manager.approve(worker, task, proposal)
    this.#decided(`Is what "${worker}" proposes for task ${number} approved?`, verdict)
    return joined(this.#say('agreed', { proposal }), this.#remarks(verdict.remarks))
  }

  /** Asks the manager to review a result. The result is approved if the manager's answer cannot be understood. */
  async #reviewed({ number, task }: Assignment, { agent, result }: Done): Promise<Verdict> {
    const question = `Is what "${agent}" has done for task ${number} approved?`
    try {
      const verdict = await this.#manager.review(agent, task, result)
      this.#decided(question, verdict)
      return verdict
    } catch (error) {
      this.#orchestrator.signal.throwIfAborted()
      this.#orchestrator.decide(question, 'yes', `"${this.#manager.name}" could not say. ${describe(error)}`)
      return { approved: true, remarks: '' }
    }
  }

  #decided(question: string, { approved, remarks }: Verdict): void {
    const reason = remarks || `"${this.#manager.name}" gives no reason.`
    this.#orchestrator.decide(question, approved ? 'yes' : 'no', reason)
  }

  #inherited({ worker }: Assignment): Record<string, unknown> | undefined {
    return inheritedBy(this.#orchestrator, worker, this.#plan)
  }

  async #delegate(
    { worker, task, parentTask, earlier }: Assignment,
    description: string,
    metadata?: Record<string, unknown>,
  ): Promise<Done> {
    const dependencies = earlier.flatMap((before) => (before.ok ? before.id : []))
    const as = this.#manager.name
    const done = await this.#orchestrator.delegate(
      worker,
      { description, parentTask, dependencies },
      { as, metadata: { ...metadata, ...asSubTask(this.#orchestrator.runId, worker) } },
    )
    return { agent: done.assignedTo ?? worker, task, ok: true, id: done.id, result: done.result }
  }

  /** Returns the brief for a worker: the task, the results of earlier tasks, and the manager's remarks. */
  async #brief({ worker, task, earlier }: Assignment, remarks: string): Promise<string> {
    const known = await passedOn(this.#orchestrator, worker, joinedResults(earlier))
    const results = earlier.length > 0 ? this.#say('earlier', { results: known }) : ''
    return joined(this.#say('task', { task }), results, this.#remarks(remarks))
  }

  #remarks(remarks: string): string {
    return remarks === '' ? '' : this.#say('remarks', { remarks })
  }
}
