/** Counts repeated actions of a run since the last progress, each with its outcome: requests and calls of tools. */
import { hashOf } from '../../../actors/definition/hash-of.ts'
import type { ErrorCode } from '../../../errors.ts'
import { BoundedMap } from '../../log/bounded-map.ts'
import type { LivelockBounds } from '../../settings/livelock.ts'
import { type Attempt, type Moment, mostErrors, type Repetition, repeated, type Sign } from './signs.ts'
import type { ToolDone } from './tool-calls.ts'

/** Request with its answer. `action`: hash of caller, callee and content. `error`: the code, if the request failed. */
export interface Answered {
  readonly from: string
  readonly to: string
  readonly action: string
  readonly attempt: Attempt
  readonly error: ErrorCode | undefined
  /** Id of the request's message. */
  readonly id: string
}

export class Repeats {
  readonly #bounds: LivelockBounds
  readonly #actions: BoundedMap<string, Repetition>
  /** Errors by caller and callee. */
  readonly #errors: BoundedMap<string, Repetition>

  constructor(bounds: LivelockBounds, most: number) {
    this.#bounds = bounds
    this.#actions = new BoundedMap(most)
    this.#errors = new BoundedMap(most)
  }

  /** Starts the counts again. */
  begin(): void {
    this.#actions.clear()
    this.#errors.clear()
  }

  request({ from, to, action, attempt, error, id }: Answered): Sign | undefined {
    const agents = [from, to]
    const failures = error ? again(this.#errors, `${from} ${to}`, attempt) : 0
    if (failures >= mostErrors(this.#bounds)) {
      const evidence = `"${to}" failed ${failures} times in a row with the same error for "${from}": ${error} (the last: message ${id})`
      return { agents, evidence, cause: hashOf('errors', from, to), ofModels: false }
    }
    const times = again(this.#actions, action, attempt)
    if (times < this.#bounds.maxRepeats) return undefined
    const evidence = `"${from}" asked "${to}" the same ${times} times in a row, and each time got the same answer (the last: message ${id})`
    return { agents, evidence, cause: hashOf('repeats', action), ofModels: false }
  }

  tool(agent: string, { tool, action, outcome, failed, asked }: ToolDone, answered: Moment): Sign | undefined {
    const times = again(this.#actions, action, { asked, answered, outcome })
    if (times < this.#bounds.maxRepeats) return undefined
    const what = failed ? 'it failed with the same error' : 'got the same result'
    const evidence = `"${agent}" called "${tool}" with the same input ${times} times in a row, and each time ${what}`
    return { agents: [agent], evidence, cause: hashOf('repeats', action), ofModels: false }
  }
}

function again(counts: Map<string, Repetition>, key: string, attempt: Attempt): number {
  const repetition = repeated(counts.get(key), attempt)
  counts.set(key, repetition)
  return repetition.times
}
