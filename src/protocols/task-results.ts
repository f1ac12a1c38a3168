/** Results of tasks that an agent gave to others, as text for the next reader, or as data for a program. */
import type { DramatisError } from '../shared/errors.ts'
import { allFailed } from './asking.ts'
import type { Statement } from './conflict.ts'

/** Task with its result, and the last agent that has done it or failed at it. `skipped`: why it was not run. */
export type TaskResult = { agent: string; task: string } & (
  | { ok: true; id: string; result: unknown; error?: never }
  | { ok: false; error: DramatisError; skipped?: never }
  | { ok: false; error?: never; skipped: string }
)

/** Returns a text as it is, any other value as JSON. */
export const wordsOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))

function outcomeOf(result: TaskResult): string {
  if (result.ok) return wordsOf(result.result)
  return result.error ? `(not done: ${result.error.message})` : `(skipped as planned: ${result.skipped})`
}

export const statementsOf = (results: readonly TaskResult[]): Statement[] =>
  results.flatMap((done) => (done.ok ? [{ agent: done.agent, value: done.result, text: wordsOf(done.result) }] : []))

export const joinedResults = (results: readonly TaskResult[]): string =>
  results.map((result) => `## ${result.agent}\n\n${outcomeOf(result)}`).join('\n\n')

/** Returns the results like `joinedResults`, but with the tasks, for a reader that does not know them. */
export const resultsWithTasks = (results: readonly TaskResult[]): string =>
  results.map((result) => `## ${result.agent}\n\nTask: ${result.task}\n\n${outcomeOf(result)}`).join('\n\n')

/** Returns options with the data of a step in the metadata, which a code agent reads in place of the text. */
export const asData = (step: string, data: object) => ({ metadata: { hierarchical: { step, ...data } } })

/** Returns the results as data for a code agent as manager, in addition to the text. */
export const resultsAsData = (results: readonly TaskResult[]): object[] =>
  results.map(({ agent, task, ...result }) => {
    if (result.ok) return { agent, task, ok: true, result: result.result, error: null }
    const { error, skipped } = result
    const rest = error ? { error: errorAsData(error) } : { error: null, skipped }
    return { agent, task, ok: false, result: null, ...rest }
  })

export const errorAsData = ({ code, message }: DramatisError) => ({ code, message })

export function nothingDone(results: readonly TaskResult[]): DramatisError {
  const failures = results.flatMap(({ agent, error }) => (error ? [{ agent, error }] : []))
  return allFailed(`None of the ${failures.length} tasks was done.`, failures)
}
