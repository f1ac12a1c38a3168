/** Messages between the command and a thread that rehearses. */
import type { ErrorData } from '../../errors.ts'
import type { OrchestrationTrace } from '../../index.ts'
import type { Asked, Fault, OutcomeKind, PlayedOldRun, Recorded, SeedOutcome, StepAnswers } from '../../rehearsal.ts'

export interface Job {
  /** The team file: where it is, and as the user wrote it. */
  href: string
  file: string
  query: string
  /** Folder of the log whose runs are played; undefined if schedules are. */
  log?: string
  faults: Fault[]
  /** True if `fetch`, and steps that reach outside, are answered from a recording. */
  recorded: boolean
  /** True if the team's own models are asked. */
  realModels: boolean
  /** True if all tools run. */
  realTools: boolean
  /** True if log lines and prints must be shown. */
  shown: boolean
}

/** Outcome of one seed, as data. */
export interface Played extends Omit<SeedOutcome, 'error'> {
  error: ErrorData | null
}

/** An old run and its play, as data. */
export interface PlayedOld extends Pick<PlayedOldRun, 'before' | 'mismatches'> {
  runId: string
  now: { success: boolean; finalOutput: string | null; error: ErrorData | null }
  trace: OrchestrationTrace | null
}

/** Functions that the thread offers. `refused`: the team cannot work at all. */
export interface Plays {
  /** Resolves when it has loaded all that it can load before it plays. */
  ready(): Promise<{ refused: ErrorData } | undefined>
  play(seed: number, traced: boolean): Promise<{ played: Played } | { refused: ErrorData }>
  /** Plays a run of the log. `batch`: ids of runs that are read from the log together, this one among them. */
  playOld(
    runId: string,
    batch: readonly string[],
    traced: boolean,
  ): Promise<{ played: PlayedOld } | { refused: ErrorData }>
}

/** Functions that the thread is offered. */
export interface Answers extends StepAnswers {
  answer(asked: Asked): Promise<Recorded>
}

/** A run that is not done. */
export interface Failure extends Played {
  kind: Exclude<OutcomeKind, 'done'>
  error: ErrorData
}

export const isFailure = (played: Played): played is Failure => played.kind !== 'done' && played.error !== null

/** Shared memory that tells of a thread which blocks: the number of its steps, and the agent whose turn began last. */
export class Beats {
  readonly memory: SharedArrayBuffer
  readonly #steps: Int32Array
  readonly #name: Uint8Array

  constructor(memory = new SharedArrayBuffer(HEAD + LONGEST_NAME)) {
    this.memory = memory
    this.#steps = new Int32Array(memory, 0, 2)
    this.#name = new Uint8Array(memory, HEAD)
  }

  readonly beat = (): void => {
    Atomics.add(this.#steps, 0, 1)
  }
  readonly turn = (agent: string): void => {
    const bytes = Buffer.from(agent).subarray(0, LONGEST_NAME)
    this.#name.set(bytes)
    Atomics.store(this.#steps, 1, bytes.length)
  }
  get steps(): number {
    return Atomics.load(this.#steps, 0)
  }
  /** '' before the first turn. */
  get agent(): string {
    return Buffer.from(this.#name.slice(0, Atomics.load(this.#steps, 1))).toString()
  }
}

const HEAD = 8
const LONGEST_NAME = 256
