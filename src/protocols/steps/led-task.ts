/** One task of a manager's plan, from its proposal to its result, as far as its worker's autonomy leaves that to the manager. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { AgentFailedError, DramatisError, describe } from '../../errors.ts'
import type { HIERARCHICAL } from '../prompts/hierarchical.ts'
import type { Speak } from '../prompts/prompts.ts'
import type { Manager, Verdict } from './manager.ts'
import { resultOf } from './outputs.ts'
import { asData, joinedResults, type TaskResult, wordsOf } from './task-results.ts'

export type Autonomy = 'low' | 'medium' | 'high'

export interface Assignment {
  /** From 1. */
  number: number
  worker: string
  task: string
  /** The task that it is a part of. */
  parentTask: string | null
  /** What the tasks before it have come to. */
  earlier: readonly TaskResult[]
}

type Done = Extract<TaskResult, { ok: true }>

export class LedTasks {
  readonly #orchestrator: Pick<OrchestratorContext, 'request' | 'delegate' | 'decide' | 'signal'>
  readonly #manager: Manager
  readonly #autonomy: Autonomy
  readonly #say: Speak<keyof typeof HIERARCHICAL>

  constructor(
    orchestrator: Pick<OrchestratorContext, 'request' | 'delegate' | 'decide' | 'signal'>,
    manager: Manager,
    autonomy: Autonomy,
    say: Speak<keyof typeof HIERARCHICAL>,
  ) {
    this.#orchestrator = orchestrator
    this.#manager = manager
    this.#autonomy = autonomy
    this.#say = say
  }

  /** Done by its worker, or, if that fails, by whom the manager names then, once. */
  async run(assignment: Assignment): Promise<TaskResult> {
    const { number, worker, task } = assignment
    this.#orchestrator.decide(`Who does task ${number}?`, worker, `The plan of "${this.#manager.name}": ${task}`)
    const first = await this.#outcome(assignment, '')
    if (first.ok) return first
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
      this.#orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
      const failure =
        error instanceof DramatisError
          ? error
          : new AgentFailedError(`"${worker}" failed: ${describe(error)}`, { agent: worker }, error)
      return { agent: worker, task, ok: false, error: failure }
    }
  }

  async #done(assignment: Assignment, remarks: string): Promise<TaskResult> {
    const brief = this.#brief(assignment, remarks)
    const agreed = this.#autonomy === 'low' ? await this.#agreed(assignment, brief) : ''
    const words = joined(brief, agreed)
    const first = await this.#delegate(assignment, words)
    if (this.#autonomy === 'high') return first
    const { approved, remarks: better } = await this.#reviewed(assignment, first)
    if (approved) return first
    const again = this.#say('again', { result: wordsOf(first.result) })
    return this.#delegate(assignment, joined(words, again, this.#remarks(better)))
  }

  /** What the worker and the manager have come to about how it is done. */
  async #agreed(assignment: Assignment, brief: string): Promise<string> {
    const { number, worker, task } = assignment
    const content = this.#say('propose', { task: brief })
    const message = await this.#orchestrator.request(worker, content, asData('propose', { task }))
    const { content: proposal } = resultOf({ agent: worker, message })
    const verdict = await this.#manager.approve(worker, task, proposal)
    this.#decided(`Is what "${worker}" proposes for task ${number} approved?`, verdict)
    return joined(this.#say('agreed', { proposal }), this.#remarks(verdict.remarks))
  }

  /** What is done stays done where nobody understands what the manager says of it. */
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

  async #delegate({ worker, task, parentTask, earlier }: Assignment, description: string): Promise<Done> {
    const dependencies = earlier.flatMap((before) => (before.ok ? before.id : []))
    const done = await this.#orchestrator.delegate(worker, { description, parentTask, dependencies })
    return { agent: done.assignedTo ?? worker, task, ok: true, id: done.id, result: done.result }
  }

  /** The task, what those before it have come to, and what the manager has to say of it. */
  #brief({ task, earlier }: Assignment, remarks: string): string {
    const results = earlier.length > 0 ? this.#say('earlier', { results: joinedResults(earlier) }) : ''
    return joined(this.#say('task', { task }), results, this.#remarks(remarks))
  }

  #remarks(remarks: string): string {
    return remarks === '' ? '' : this.#say('remarks', { remarks })
  }
}

const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n\n')
