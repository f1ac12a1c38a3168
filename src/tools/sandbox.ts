/**
 * A thread for what could take for ever or need all memory, whoever wrote it: an expression, a document, a program. It
 * has a bounded heap and stack and none of the host's environment, and is killed when its task is late or aborted; the
 * host's own loop goes on meanwhile.
 *
 * One thread does one task, since what fails can leave a library in a state in which it answers wrongly or never: a
 * bignum library that threw in the midst of a rounding does.
 */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { systemClock } from '../shared/clock.ts'
import { environment, ownFile, threadFlags } from '../shared/environment.ts'
import {
  ConfigurationError,
  describe,
  shown,
  ToolFailedError,
  ToolInputError,
  ToolTimeoutError,
} from '../shared/errors.ts'
import { onAbort, Slots } from '../shared/on-abort.ts'
import type { Outcome, Task } from './options.ts'

const USUAL_THREADS = Math.max(1, Math.min(4, availableParallelism() - 1))
const MOST_THREADS = 64
const LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

let slots: Slots | undefined

/** Returns how many tasks run at a time in this process. Throws for what is no such number. */
export function sandboxThreads(set: string | undefined): number {
  if (set === undefined) return USUAL_THREADS
  const threads = Number(set)
  if (Number.isInteger(threads) && threads >= 1 && threads <= MOST_THREADS) return threads
  throw new ConfigurationError(
    `DRAMATIS_SANDBOX_THREADS is ${shown(set)}; accepted: an integer from 1 to ${MOST_THREADS}. Correct the variable, or leave it out.`,
    { path: 'DRAMATIS_SANDBOX_THREADS' },
  )
}

/**
 * Does a task; `killAfterMs` counts from the start of its thread.
 *
 * @throws ToolInputError, ToolFailedError, ToolTimeoutError; the signal's reason when it is aborted.
 */
export async function inSandbox(task: Task, signal: AbortSignal, killAfterMs: number): Promise<string> {
  slots ??= new Slots(sandboxThreads(environment().DRAMATIS_SANDBOX_THREADS))
  const free = await slots.take(signal)
  try {
    const outcome = await outcomeOf(task, signal, killAfterMs)
    if ('done' in outcome) return outcome.done
    if ('refused' in outcome) throw new ToolInputError(outcome.refused)
    if ('late' in outcome) throw new ToolTimeoutError(outcome.late)
    throw new ToolFailedError(outcome.failed)
  } finally {
    free()
  }
}

async function outcomeOf(task: Task, signal: AbortSignal, killAfterMs: number): Promise<Outcome> {
  const options = { workerData: task, env: {}, execArgv: [...threadFlags()], argv: [], resourceLimits: LIMITS }
  const worker = new Worker(ownFile('tools/sandbox-thread.js'), options)
  const ended = new Promise<Outcome>((resolve) => {
    worker.once('message', resolve)
    worker.once('error', (error) => resolve({ failed: `It ended its thread: ${describe(error)}` }))
    worker.once('exit', () => resolve({ failed: 'It ended its thread.' }))
  })
  let late = false
  const deadline = systemClock.timer(killAfterMs, () => {
    late = true
    worker.terminate()
  })
  const forget = onAbort(signal, () => void worker.terminate())
  try {
    const outcome = await ended
    signal.throwIfAborted()
    return late ? { late: `It did not end within ${killAfterMs} ms and was killed.` } : outcome
  } finally {
    deadline.cancel()
    forget()
    await worker.terminate()
  }
}
