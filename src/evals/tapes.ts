/** Tapes of cases: what their models and tools have answered, in a file each, and plays without a call of either. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { entriesOf, type Fault, faultsOf, oldTurnsOf, Rehearser, seedsOf, type TapeEntry } from '../rehearsal.ts'
import { Redactor, SecretVariables } from '../runtime/logging/redactor.ts'
import { readLog } from '../runtime/store/log-reader.ts'
import { recordedRuns } from '../runtime/views/recorded-runs.ts'
import { isObject, refused, refusedAs } from '../shared/checks.ts'
import { environment } from '../shared/environment.ts'
import { ConfigurationError, describe } from '../shared/errors.ts'
import { createTeam } from '../team.ts'
import * as tools from '../tools/index.ts'
import { optionsOf, playWith } from './case-run.ts'
import { fileName, type Player, type TapeAsks } from './seeds.ts'
import type { EvalRun, ReadyCase, ReadySuite } from './suite.ts'

interface Tape {
  readonly version: 1
  /** Epoch ms. */
  readonly startedAt: number
  readonly entries: readonly TapeEntry[]
}

const VERSION = 1

/** Takes secrets out of data: the values of variables that hold them, and what has the shape of one. */
function cleaner(): <T>(data: T) => T {
  const redactor = new Redactor()
  new SecretVariables(environment, [], redactor, () => performance.now()).look()
  const clean = (data: unknown): unknown => {
    if (typeof data === 'string') return redactor.text(data)
    if (Array.isArray(data)) return data.map(clean)
    if (!isObject(data)) return data
    return Object.fromEntries(Object.entries(data).map(([name, value]) => [redactor.text(name), clean(value)]))
  }
  return <T>(data: T) => clean(data) as T
}

const pathOf = (folder: string, { id }: ReadyCase, repeat: number): string =>
  join(folder, `${fileName(id)}.${repeat}.json`)

/** Plays a case, and keeps what its models and tools have answered in the folder. */
export async function recordCase(
  folder: string,
  suite: ReadySuite,
  each: ReadyCase,
  repeat: number,
  signal?: AbortSignal,
): Promise<EvalRun> {
  const log = mkdtempSync(join(tmpdir(), 'dramatis-tape-'))
  try {
    const run = await playWith(
      createTeam({ ...optionsOf(suite), stateManagement: { path: log } }),
      suite,
      each,
      repeat,
      signal,
    )
    const { runs } = await recordedRuns(() => readLog(log), undefined, { parts: true })
    const clean = cleaner()
    const entries: TapeEntry[] = []
    let passedMs = 0
    for (const recorded of runs) {
      const old = oldTurnsOf(recorded)
      entries.push(...entriesOf(old, clean, { fromMs: passedMs, before: entries }))
      passedMs += old.lengthMs
    }
    const startedAt = runs[0]?.launched.startedAt ?? Date.now()
    const tape: Tape = { version: VERSION, startedAt, entries: entries.sort((a, b) => a.atMs - b.atMs) }
    const path = pathOf(folder, each, repeat)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `${JSON.stringify(tape, null, 1)}\n`)
    return run
  } finally {
    rmSync(log, { recursive: true, force: true })
  }
}

interface PlayOptions {
  readonly turns: readonly number[]
  readonly seeds: number | readonly number[] | undefined
  readonly faults: readonly Fault[] | undefined
}

/** Plays cases with their tapes, in virtual time: as they were recorded, or through many schedules. */
export class TapePlayer implements Player {
  readonly isFree = true
  readonly turns: readonly number[]
  readonly #folder: string
  readonly #faults: readonly Fault[]
  readonly #rehearser = new Rehearser({ modules: { 'dramatis/tools': tools } })
  readonly #clean = cleaner()
  /** Repeat that all seeds play; undefined: there are no seeds, and each repeat is played as it was. */
  readonly #seeded: number | undefined
  #asked = 0
  #untaped = 0
  #first: string | null = null

  constructor(folder: string, { turns, seeds, faults }: PlayOptions) {
    if (faults !== undefined && seeds === undefined) throw refusedAs('faults', 'no seeds', 'faults beside seeds')
    this.#folder = folder
    this.#faults = faultsOf(faults)
    if (this.#faults.includes('late'))
      throw refused('faults', 'late', 'other faults', 'People answer as the case says.')
    this.turns = seeds === undefined ? turns : seedsOf(seeds)
    this.#seeded = seeds === undefined ? undefined : turns[0]
  }

  get asks(): TapeAsks | undefined {
    if (this.#seeded === undefined) return undefined
    return { asked: this.#asked, untaped: this.#untaped, first: this.#first }
  }

  /** Rejects with `TapeMissError`, and with `ConfigurationError` if there is no tape of that play. */
  async play(suite: ReadySuite, each: ReadyCase, turn: number, signal?: AbortSignal): Promise<EvalRun> {
    const [repeat, seed] = this.#seeded === undefined ? [turn, SEED] : [this.#seeded, turn]
    const path = pathOf(this.#folder, each, repeat)
    const { startedAt: startAt, entries } = tapeIn(path, each, repeat)
    const isLoose = this.#seeded !== undefined
    const tape = { entries, shown: shownPath(path), clean: this.#clean, isLoose }
    const part = { startAt, tape, faults: this.#faults }
    const played = await this.#rehearser.playTape(seed, optionsOf(suite), part, (team, end) =>
      playWith(team, suite, each, repeat, signal ? AbortSignal.any([signal, end]) : end),
    )
    if (!isLoose) return played.value
    this.#asked += played.asked
    this.#untaped += played.untaped
    this.#first ??= played.first
    const faults = played.faults.map(({ fault, agent, at }) => ({ fault, agent, atMs: at - startAt }))
    return { ...played.value, seed, faults }
  }
}

/** Returns a path as people name it: from where they are, unless it leads out of there. */
function shownPath(path: string): string {
  const from = relative(process.cwd(), path)
  return from.startsWith('..') ? path : from
}

/** Decides the order of what happens at one time. */
const SEED = 1

function tapeIn(path: string, { id }: ReadyCase, repeat: number): Tape {
  let tape: unknown
  try {
    tape = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const text = `playback: there is no tape of case "${id}", repeat ${repeat}: ${path}: ${describe(error)}. Record it: --record <folder>.`
    throw new ConfigurationError(text, { path }, error)
  }
  if (isObject(tape) && 'version' in tape && tape.version === VERSION) return tape as Tape
  throw new ConfigurationError(`playback: ${path} is no tape of this version. Record it again.`, { path })
}
