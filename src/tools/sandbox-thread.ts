/** The entry of the sandbox's threads: does one task, says how it went, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { describe } from '../shared/errors.ts'
import { type Outcome, Refused, type Task } from './options.ts'

const task: Task = workerData
const outcome = await outcomeOf(task).catch((error) =>
  error instanceof Refused ? { refused: error.message } : { failed: describe(error) },
)
parentPort?.postMessage(outcome) // control plane: no agent lives here

// each loads what it needs alone: one task does not wait for the libraries of another
async function outcomeOf(task: Task): Promise<Outcome> {
  if (task.kind === 'run-code') return (await import('./run-javascript.ts')).runJavaScript(task)
  if (task.kind === 'calculate') return { done: (await import('./calculate.ts')).calculate(task.expression) }
  return { done: await (await import('./convert-value.ts')).convertValue(task) }
}
