/** The entry of the sandbox's threads: does one task, says how it went, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { describe } from '../shared/errors.ts'
import { type Outcome, Refused, type Task } from './options.ts'

const task: Task = workerData
parentPort?.postMessage(await work(task)) // control plane: no agent lives here

async function work(task: Task): Promise<Outcome> {
  try {
    return await outcomeOf(task)
  } catch (error) {
    if (error instanceof Refused) return { refused: error.message }
    return { failed: describe(error) }
  }
}

// each loads what it needs alone: one task does not wait for the libraries of another
async function outcomeOf(task: Task): Promise<Outcome> {
  if (task.kind === 'run-code') return (await import('./run-javascript.ts')).runJavaScript(task)
  if (task.kind === 'calculate') return { done: (await import('./calculate.ts')).calculate(task.expression) }
  return { done: await (await import('./convert-value.ts')).convertValue(task) }
}
