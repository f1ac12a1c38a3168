/** Messages between the command and a thread that rehearses. */

import type { OrchestrationTrace } from '../../index.ts'
import type { Asked, Fault, OutcomeKind, PlayedOldRun, Recorded, SeedOutcome, StepAnswers } from '../../rehearsal.ts'
import type { ErrorData } from '../../shared/errors.ts'
import type { LogAt } from '../shared/cluster-url.ts'
import { oneLine } from '../shared/failure.ts'
import { isTerminal, type Print, type Screen } from '../shared/screen.ts'

const FRAME_MS = 100

export interface Count {
  show(played: number, all: number, failures: number): void
  /** Shows a text that stays. */
  readonly print: Print
  /** Twice is fine. */
  end(): void
}

export async function countOn(screen: Screen, env: NodeJS.ProcessEnv = process.env): Promise<Count> {
  const print: Print = (text) => void screen.write(text)
  if (!isTerminal(screen, env)) return { show() {}, print, end() {} }
  const { redrawOn } = await import('../shared/redraw.ts') // late, as in progress.ts
  const update = redrawOn(screen)
  let drawnAt = Number.NEGATIVE_INFINITY
  return {
    show(played, all, failures) {
      const now = performance.now()
      if (now - drawnAt < FRAME_MS) return
      drawnAt = now
      update(`${played} of ${all} runs, ${failures} of them not done`)
    },
    print(text) {
      update.clear()
      print(text)
    },
    end: () => update.clear(),
  }
}

/*
 * Failures that are the same one: what tells two runs of one mistake apart is left out (ids, and where a circle
 * begins).
 */

const LONGEST_ERROR = 400

const ID = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}'
const ASIDE = new RegExp(` \\((?:the last: )?(?:message|task|the last task:) ${ID}\\)`, 'g')
const IDS = new RegExp(ID, 'g')

export interface Group {
  readonly words: string
  readonly seeds: readonly number[]
}

/** The most frequent first. */
export function groupsOf(failures: readonly Failure[]): Group[] {
  const groups = new Map<string, { words: string; seeds: number[] }>()
  for (const { seed, error } of failures) {
    const key = keyOf(error)
    const group = groups.get(key)
    if (group) group.seeds.push(seed)
    else groups.set(key, { words: oneLine(withoutIds(wordsOf(error)), LONGEST_ERROR), seeds: [seed] })
  }
  return [...groups.values()].sort((a, b) => b.seeds.length - a.seeds.length || a.seeds[0]! - b.seeds[0]!)
}

export const errorLine = (error: ErrorData): string => oneLine(wordsOf(error), LONGEST_ERROR)

const wordsOf = ({ code, message }: ErrorData) => `${code}: ${message}`

/** Returns the group of an error. Findings of a detector are one group, whichever agent comes first in their text. */
function keyOf(error: ErrorData): string {
  const { cycle, evidence } = error.details
  if (isTexts(cycle)) return `${error.code} ${JSON.stringify(fromItsLeast(cycle))}`
  if (isTexts(evidence)) return `${error.code} ${JSON.stringify(evidence.map(withoutIds).sort())}`
  return withoutIds(wordsOf(error))
}

function fromItsLeast(cycle: readonly string[]): string[] {
  const least = cycle.reduce((best, name, at) => (name < cycle[best]! ? at : best), 0)
  return [...cycle.slice(least), ...cycle.slice(0, least)]
}

/** The run of a rehearsal is named after its seed. */
const withoutIds = (text: string): string =>
  text
    .replaceAll(ASIDE, '')
    .replaceAll(IDS, '…')
    .replaceAll(/\bseed-\d+\b/g, '…')
    .replaceAll(/\bseed \d+\b/gi, 'The seed')

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')

export interface Job {
  /** The team file: where it is, and as the user wrote it. */
  href: string
  file: string
  query: string
  /** Log whose runs are played, a folder by its whole path; undefined if schedules are. */
  place?: LogAt
  faults: Fault[]
  /** True if `fetch`, and steps that reach outside, are answered from a recording. */
  recorded: boolean
  realModels: boolean
  realTools: boolean
  /** True if log lines and prints must be shown. */
  shown: boolean
}

export interface Played extends Omit<SeedOutcome, 'error'> {
  error: ErrorData | null
}

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

export interface Answers extends StepAnswers {
  answer(asked: Asked): Promise<Recorded>
}

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
