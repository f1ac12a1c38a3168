/** Questions to an agent that leads others, and the schemas of its answers. It imports zod, so it is loaded late. */
import { z } from 'zod'
import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { colleagueAsLine } from '../actors/model/prompt.ts'
import { jsonIn } from '../actors/model/structured-output.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import { asSubTask, NO_SUB_TASK } from '../mailbox/sub-task.ts'
import type { DramatisError } from '../shared/errors.ts'
import { type AskedFor, type Asking, askFor, lastWord } from './asking.ts'
import { combinedBy } from './combine.ts'
import { type Conflict, conflictsAsData, withConflicts } from './conflicts.ts'
import { absent, condition, note, portable } from './forms.ts'
import type { HIERARCHICAL, Speak } from './prompts.ts'
import type { RunIf } from './run-if.ts'
import { passingOn } from './run-tasks.ts'
import {
  asData,
  errorAsData,
  joinedResults,
  resultsAsData,
  resultsWithTasks,
  type TaskResult,
  wordsOf,
} from './task-results.ts'
import { circleAmong, MOST_TASKS } from './tasks.ts'

/** A manager's plan: tasks for workers, of which some need the results of others, or are run on a condition. */
export interface Plan {
  tasks: { worker: string; task: string; dependsOn: number[]; runIf?: RunIf | undefined }[]
  reasoning: string
}

export type Verdict = z.output<typeof WANTED>
const WANTED = z.object({ approved: z.boolean(), remarks: note })
const VERDICT = portable(WANTED)

/** Worker that gets a task next; null: none. */
interface Choice {
  worker: string | null
  remarks: string
}

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
          const circle = circleAmong(tasks)
          if (circle) context.addIssue(circle)
        }),
      reasoning: note,
    }),
  )

export class Manager {
  readonly name: string
  readonly #orchestrator: OrchestratorContext
  readonly #query: string
  readonly #say: Speak<keyof typeof HIERARCHICAL>
  readonly #names: readonly string[]
  readonly #list: string
  readonly #choice: ModelSchema<unknown, Choice>

  constructor(
    orchestrator: OrchestratorContext,
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
    const passing = passingOn(this.#orchestrator, this.name, this.#names)
    const options = { metadata: { ...metadata, ...passing, ...asSubTask(this.#orchestrator.runId) } }
    try {
      return await askFor(forPlans(this.#orchestrator), this.name, content, planFor(this.#names), options)
    } catch (error) {
      if (error instanceof OwnAnswer) return { message: error.answer }
      throw error
    }
  }

  approve(worker: string, task: string, proposal: string): Promise<Verdict> {
    return this.#ask('approve', { worker, task, proposal }, VERDICT)
  }

  review(worker: string, task: string, result: unknown): Promise<Verdict> {
    return this.#ask('review', { worker, task, result: wordsOf(result) }, VERDICT, { result })
  }

  /** Asks which worker gets the task that the worker has failed at; null: none. */
  reassign(worker: string, task: string, error: DramatisError): Promise<Choice> {
    const texts = { worker, task, error: error.message, workers: this.#list }
    return this.#ask('reassign', texts, this.#choice, { error: errorAsData(error), workers: this.#names })
  }

  alone(): Promise<AgentMessage> {
    const content = this.#say('alone', { query: this.#query })
    const { metadata } = asData('alone', { query: this.#query })
    const options = { metadata: { ...metadata, ...asSubTask(this.#orchestrator.runId) } }
    return lastWord(this.#orchestrator, this.name, content, options)
  }

  /** Returns the manager's answer; the results of those who had some, joined, if the manager fails. */
  summarize(results: readonly TaskResult[], conflicts: readonly Conflict[]): Promise<ScriptResult> {
    const all = withConflicts(resultsWithTasks(results), conflicts)
    const content = this.#say('summary', { query: this.#query, results: all })
    const data = { query: this.#query, results: resultsAsData(results), ...conflictsAsData(conflicts) }
    const instead = withConflicts(joinedResults(results.filter(({ ok }) => ok)), conflicts)
    return combinedBy(this.#orchestrator, this.name, content, asData('summary', data), instead)
  }

  /** Asks about a step. `data`: for code, in place of the texts of the same names. */
  async #ask<T>(
    step: keyof typeof HIERARCHICAL,
    texts: Record<string, string>,
    schema: ModelSchema<unknown, T>,
    data: object = {},
  ): Promise<T> {
    const options = { metadata: { ...asData(step, { ...texts, ...data }).metadata, ...NO_SUB_TASK } }
    return (await askFor(this.#orchestrator, this.name, this.#say(step, texts), schema, options)).value
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
