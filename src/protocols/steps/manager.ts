/** An agent that leads others: what it is asked for their work, and how its answers are understood. Loaded when it is needed, for zod. */
import { z } from 'zod'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { colleagueAsLine } from '../../actors/model/prompt.ts'
import { jsonIn } from '../../actors/model/structured-output.ts'
import type { DramatisError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { HIERARCHICAL } from '../prompts/hierarchical.ts'
import type { Speak } from '../prompts/prompts.ts'
import { absent, note } from './answer-forms.ts'
import { type AskedFor, type Asking, askFor } from './ask-for.ts'
import { type LastWords, lastWord } from './last-word.ts'
import { MOST_TASKS } from './task-plan.ts'
import { asData, errorAsData, resultsAsData, resultsWithTasks, type TaskResult, wordsOf } from './task-results.ts'

/** A manager's plan: tasks for workers, of which some need the results of others. */
export interface Plan {
  tasks: { worker: string; task: string; dependsOn: number[] }[]
  reasoning: string
}

/** What it says of work that is to be done, or is done. */
export type Verdict = z.output<typeof VERDICT>
const VERDICT = z.object({ approved: z.boolean(), remarks: note })

/** What a manager of those workers is asked for. */
const planFor = (workers: readonly string[]) =>
  z.object({
    tasks: z
      .array(
        z.object({
          worker: z.enum(workers),
          task: z.string().min(1),
          dependsOn: absent(z.array(z.int().min(1).max(MOST_TASKS)).max(MOST_TASKS).default([])),
        }),
      )
      .max(MOST_TASKS),
    reasoning: note,
  })

export class Manager {
  readonly name: string
  readonly #orchestrator: LastWords
  readonly #query: string
  readonly #say: Speak<keyof typeof HIERARCHICAL>
  readonly #names: readonly string[]
  /** The workers, as it reads of them. */
  readonly #list: string
  readonly #choice: ModelSchema<unknown, { worker: string | null; remarks: string }>

  constructor(
    orchestrator: LastWords,
    name: string,
    workers: OrchestratorContext['agents'],
    query: string,
    say: Speak<keyof typeof HIERARCHICAL>,
  ) {
    this.name = name
    this.#orchestrator = orchestrator
    this.#query = query
    this.#say = say
    this.#names = workers.map((worker) => worker.name)
    this.#list = workers.map(colleagueAsLine).join('\n')
    this.#choice = z.object({ worker: z.enum(this.#names).nullable(), remarks: note })
  }

  /** Its plan, and the message with it. Of an answer that is no plan, the message alone. */
  async plan(): Promise<Partial<AskedFor<Plan>> & Pick<AskedFor<Plan>, 'message'>> {
    const content = this.#say('plan', { query: this.#query, workers: this.#list })
    const data = { query: this.#query, workers: this.#names }
    try {
      return await askFor(forPlans(this.#orchestrator), this.name, content, planFor(this.#names), asData('plan', data))
    } catch (error) {
      if (error instanceof OwnAnswer) return { message: error.answer }
      throw error
    }
  }

  /** Whether the worker may do it as it proposes. */
  async approve(worker: string, task: string, proposal: string): Promise<Verdict> {
    const content = this.#say('approve', { worker, task, proposal })
    return this.#ask(content, VERDICT, asData('approve', { worker, task, proposal }))
  }

  /** Whether the result can stay as it is. */
  async review(worker: string, task: string, result: unknown): Promise<Verdict> {
    const content = this.#say('review', { worker, task, result: wordsOf(result) })
    return this.#ask(content, VERDICT, asData('review', { worker, task, result }))
  }

  /** Who is to do what the worker has failed at; null: nobody. */
  async reassign(
    worker: string,
    task: string,
    error: DramatisError,
  ): Promise<{ worker: string | null; remarks: string }> {
    const content = this.#say('reassign', { worker, task, error: error.message, workers: this.#list })
    const data = { worker, task, error: errorAsData(error), workers: this.#names }
    return this.#ask(content, this.#choice, asData('reassign', data))
  }

  /** The run's answer without any result. */
  alone(): Promise<AgentMessage> {
    const content = this.#say('alone', { query: this.#query })
    return lastWord(this.#orchestrator, this.name, content, asData('alone', { query: this.#query }))
  }

  /** The run's answer. */
  summarize(results: readonly TaskResult[]): Promise<AgentMessage> {
    const content = this.#say('summary', { query: this.#query, results: resultsWithTasks(results) })
    const data = { query: this.#query, results: resultsAsData(results) }
    return lastWord(this.#orchestrator, this.name, content, asData('summary', data))
  }

  async #ask<T>(content: string, schema: ModelSchema<unknown, T>, options: { metadata: object }): Promise<T> {
    return (await askFor(this.#orchestrator, this.name, content, schema, options)).value
  }
}

/** What is asked for as a plan, and answered without one. */
class OwnAnswer extends Error {
  readonly answer: AgentMessage

  constructor(answer: AgentMessage) {
    super('it answers without a plan')
    this.answer = answer
  }
}

/** Ends the question with the first answer that does not mean to be a plan. */
function forPlans(orchestrator: Asking): Asking {
  return {
    agents: orchestrator.agents,
    request: async (to, content, options) => {
      const message = await orchestrator.request(to, content, options)
      const value = message.structuredData ?? jsonIn(message.content)?.value
      if (typeof value !== 'object' || value === null || !('tasks' in value)) throw new OwnAnswer(message)
      return message
    },
  }
}
