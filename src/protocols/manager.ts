/** Questions to an agent that leads others, and the schemas of its answers. It imports zod, so it is loaded late. */
import { z } from 'zod'
import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { colleagueAsLine } from '../actors/model/prompt.ts'
import { jsonIn } from '../actors/model/structured-output.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { DramatisError } from '../shared/errors.ts'
import { type AskedFor, type Asking, askFor, type LastWords, lastWord } from './asking.ts'
import { type Conflict, conflictsAsData, withConflicts } from './conflicts.ts'
import { absent, condition, note, portable } from './forms.ts'
import type { HIERARCHICAL, Speak } from './prompts.ts'
import type { RunIf } from './run-if.ts'
import { passingOn } from './run-tasks.ts'
import { asData, errorAsData, resultsAsData, resultsWithTasks, type TaskResult, wordsOf } from './task-results.ts'
import { circleIn, MOST_TASKS } from './tasks.ts'

/** A manager's plan: tasks for workers, of which some need the results of others, or are run on a condition. */
export interface Plan {
  tasks: { worker: string; task: string; dependsOn: number[]; runIf?: RunIf | undefined }[]
  reasoning: string
}

export type Verdict = z.output<typeof WANTED>
const WANTED = z.object({ approved: z.boolean(), remarks: note })
const VERDICT = portable(WANTED)

/** Returns the schema of a plan for those workers. A circle is left out later, but not one with conditions. */
const planFor = (workers: readonly string[]) =>
  portable(
    z.object({
      tasks: z
        .array(
          z.object({
            worker: z.enum(workers),
            task: z.string().min(1),
            dependsOn: absent(z.array(z.int().min(1).max(MOST_TASKS)).max(MOST_TASKS).default([])),
            runIf: condition,
          }),
        )
        .max(MOST_TASKS)
        .superRefine((tasks, context) => {
          if (!tasks.some(({ runIf }) => runIf)) return
          const circle = circleIn(
            tasks.map(({ dependsOn, runIf }, at) => ({ number: at + 1, needs: dependsOn, runIf })),
          )
          if (circle) context.addIssue(circle)
        }),
      reasoning: note,
    }),
  )

export class Manager {
  readonly name: string
  readonly #orchestrator: LastWords
  readonly #query: string
  readonly #say: Speak<keyof typeof HIERARCHICAL>
  readonly #names: readonly string[]
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
    this.#choice = portable(z.object({ worker: z.enum(this.#names).nullable(), remarks: note }))
  }

  /** Asks for the plan, and returns it with its message. If the answer is no plan, it returns only the message. */
  async plan(): Promise<Partial<AskedFor<Plan>> & Pick<AskedFor<Plan>, 'message'>> {
    const content = this.#say('plan', { query: this.#query, workers: this.#list })
    const { metadata } = asData('plan', { query: this.#query, workers: this.#names })
    const options = { metadata: { ...metadata, ...passingOn(this.#orchestrator, this.name, this.#names) } }
    try {
      return await askFor(forPlans(this.#orchestrator), this.name, content, planFor(this.#names), options)
    } catch (error) {
      if (error instanceof OwnAnswer) return { message: error.answer }
      throw error
    }
  }

  async approve(worker: string, task: string, proposal: string): Promise<Verdict> {
    const content = this.#say('approve', { worker, task, proposal })
    return this.#ask(content, VERDICT, asData('approve', { worker, task, proposal }))
  }

  async review(worker: string, task: string, result: unknown): Promise<Verdict> {
    const content = this.#say('review', { worker, task, result: wordsOf(result) })
    return this.#ask(content, VERDICT, asData('review', { worker, task, result }))
  }

  /** Asks which worker gets the task that the worker has failed at; null: none. */
  async reassign(
    worker: string,
    task: string,
    error: DramatisError,
  ): Promise<{ worker: string | null; remarks: string }> {
    const content = this.#say('reassign', { worker, task, error: error.message, workers: this.#list })
    const data = { worker, task, error: errorAsData(error), workers: this.#names }
    return this.#ask(content, this.#choice, asData('reassign', data))
  }

  alone(): Promise<AgentMessage> {
    const content = this.#say('alone', { query: this.#query })
    return lastWord(this.#orchestrator, this.name, content, asData('alone', { query: this.#query }))
  }

  summarize(results: readonly TaskResult[], conflicts: readonly Conflict[]): Promise<AgentMessage> {
    const all = withConflicts(resultsWithTasks(results), conflicts)
    const content = this.#say('summary', { query: this.#query, results: all })
    const data = { query: this.#query, results: resultsAsData(results), ...conflictsAsData(conflicts) }
    return lastWord(this.#orchestrator, this.name, content, asData('summary', data))
  }

  async #ask<T>(content: string, schema: ModelSchema<unknown, T>, options: { metadata: object }): Promise<T> {
    return (await askFor(this.#orchestrator, this.name, content, schema, options)).value
  }
}

/** Answer to the question for a plan that is no plan. It is thrown to end the question. */
class OwnAnswer extends Error {
  readonly answer: AgentMessage

  constructor(answer: AgentMessage) {
    super('it answers without a plan')
    this.answer = answer
  }
}

/** Returns a context for `askFor` that ends the question, instead of a retry, when an answer has no `tasks`. */
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
