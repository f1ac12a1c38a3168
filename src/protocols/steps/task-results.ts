/** What became of tasks that an agent gave to others: as text for the next reader, as data for the next program. */
import { AgentFailedError, type DramatisError } from '../../errors.ts'

/** One task, who has done it or failed at it last, and what came of it. */
export type TaskResult = { agent: string; task: string } & (
  | { ok: true; id: string; result: unknown }
  | { ok: false; error: DramatisError }
)

/** Words as they are, data as JSON. */
export const wordsOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))

const outcomeOf = (result: TaskResult) => (result.ok ? wordsOf(result.result) : `(not done: ${result.error.message})`)

/** Each result under the name of its agent. */
export const joinedResults = (results: readonly TaskResult[]): string =>
  results.map((result) => `## ${result.agent}\n\n${outcomeOf(result)}`).join('\n\n')

/** The same with the tasks, for a reader who does not know them. */
export const resultsWithTasks = (results: readonly TaskResult[]): string =>
  results.map((result) => `## ${result.agent}\n\nTask: ${result.task}\n\n${outcomeOf(result)}`).join('\n\n')

/** The same as the text, for an agent of code: beside what a model reads. */
export const asData = (step: string, data: object) => ({ metadata: { hierarchical: { step, ...data } } })

/** Beside the text, for a manager of code. */
export const resultsAsData = (results: readonly TaskResult[]): object[] =>
  results.map(({ agent, task, ...result }) =>
    result.ok
      ? { agent, task, ok: true, result: result.result, error: null }
      : { agent, task, ok: false, result: null, error: errorAsData(result.error) },
  )

export const errorAsData = ({ code, message }: DramatisError) => ({ code, message })

/** When none was done: of one failure itself, of several an error that names them. */
export function nothingDone(results: readonly TaskResult[]): DramatisError {
  const failures = results.flatMap(({ agent, ...result }) => (result.ok ? [] : [{ agent, error: result.error }]))
  const [first] = failures
  if (first && failures.length === 1) return first.error
  const list = failures.map(({ agent, error }) => ` "${agent}": ${error.code}: ${error.message}`)
  const message = `None of the ${failures.length} tasks was done.${list.join(';')}`
  const details = { failures: failures.map(({ agent, error }) => ({ agent, ...error.toJSON() })) }
  return new AgentFailedError(message, details, first?.error)
}
