/** `dramatis rehearse <team file> "<query>"`: one query, many schedules, in virtual time. */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { faultsOf, Recording, seedsOf, shortest } from '../../rehearsal.ts'
import { withoutSecrets } from '../../runtime/cluster/address.ts'
import { type RecordedStatus, recordedRun, recordedRuns } from '../../runtime/views/recorded-runs.ts'
import { AgentCrashedError, ConfigurationError, DramatisError, errorData } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { quoted } from '../../shared/text.ts'
import { type Count, countOn, isFailure, type Job, type Played } from '../rehearsal/job.ts'
import { RehearsingThread } from '../rehearsal/rehearsing-thread.ts'
import {
  isSame,
  type OldOutcome,
  oldRunReport,
  oldRunsReport,
  oldRunsText,
  rehearsalData,
  rehearsalReport,
  seedData,
  seedReport,
} from '../rehearsal/report.ts'
import { isClusterUrl, type LogAt, logsAt } from '../shared/cluster-url.ts'
import { EXIT, untilInterrupt } from '../shared/failure.ts'
import { jsonText } from '../shared/json-text.ts'
import { environmentRedactor, loadEnv, teamFilePath } from '../shared/load-team-file.ts'
import type { EvalFlags } from './eval.ts'
import type { Surroundings } from './run.ts'

export interface RehearseOldFlags extends LogAt {
  /** Ids of runs, or 'all'. */
  from: readonly string[]
  status?: RecordedStatus
  seedTimeout?: number
  json?: boolean
}

/** Real time without a step after which a play is ended. */
const TIMEOUT_MS = 30_000
/** Beyond it the threads only take each other's memory. */
const MOST_THREADS = 4
/** Runs that a thread reads from the log together. */
const BATCH = 20

/**
 * Plays the runs and resolves to the exit code: that of a failure if any run differs, or could not be played. Rejects
 * if there is no such log or run, or if no run can be played with the team.
 */
export async function rehearseOld(
  file: string,
  { from, log, clusterName, status, seedTimeout = TIMEOUT_MS, json = false }: RehearseOldFlags,
  surroundings: Surroundings,
): Promise<number> {
  const { answer, stderr, folder } = surroundings
  const href = pathToFileURL(teamFilePath(file, folder)).href
  const redactor = environmentRedactor(folder)
  const place = {
    log: isClusterUrl(log) ? log : resolve(folder, log),
    ...(clusterName !== undefined && { clusterName }),
  }
  const ids = await wantedRuns(await logsAt(place, folder), from, status)
  const isOne = from.length === 1 && from[0] !== 'all'
  const world = { faults: [], recorded: false, realModels: false, realTools: false }
  const job: Job = { href, file, query: '', place, ...world, shown: isOne }
  const batches = Array.from({ length: Math.ceil(ids.length / BATCH) }, (_, i) => ids.slice(i * BATCH, (i + 1) * BATCH))
  const played = new Map<string, OldOutcome>()
  return onThreads(job, undefined, seedTimeout, surroundings, async ({ signal, count, threads, playAll }) => {
    await playAll(batches, async (thread, batch) => {
      for (const id of batch) {
        signal.throwIfAborted()
        played.set(id, await outcomeOf(thread, id, batch))
        count.show(played.size, ids.length, [...played.values()].filter((each) => !isSame(each)).length)
      }
    })
    count.end()
    if (isOne) await threads[0]!.end() // what it printed comes first
    const outcomes = redactor.data(ids.map((id) => played.get(id)!))
    if (outcomes.length === 0) stderr.write(status ? `No run of the log is ${status}.\n` : 'The log has no run.\n')
    else if (json) await answer.write(oldRunsText(outcomes))
    else await answer.write(isOne ? oldRunReport(outcomes[0]!) : oldRunsReport(outcomes, replay))
    return outcomes.every(isSame) ? EXIT.done : EXIT.failed
  })

  /** Plays one run. If it cannot be played, the others are played all the same. */
  async function outcomeOf(thread: RehearsingThread, runId: string, batch: readonly string[]): Promise<OldOutcome> {
    try {
      const outcome = await thread.playOld(runId, batch, isOne)
      return outcome instanceof AgentCrashedError ? { runId, error: errorData(outcome) } : outcome
    } catch (error) {
      if (isOne || !(error instanceof DramatisError)) throw error
      return { runId, error: errorData(error) }
    }
  }

  function replay(runId: string): string {
    const name = clusterName === undefined ? [] : ['--cluster-name', clusterName]
    const words = [file, '--from', runId, '--log', withoutSecrets(log), ...name]
    return `npx dramatis rehearse ${words.map((word) => quoted(word)).join(' ')}`
  }
}

interface Playing {
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
  readonly count: Count
  readonly threads: readonly RehearsingThread[]
  /** Plays all of these, each on one of the threads that there is room for. */
  playAll<T>(items: readonly T[], play: (on: RehearsingThread, item: T) => Promise<void>): Promise<void>
}

/** Plays on threads until all is played, or Ctrl-C. Resolves to the exit code of the work. */
async function onThreads(
  job: Job,
  recording: Recording | undefined,
  limitMs: number,
  { answer, stderr }: Surroundings,
  work: (playing: Playing) => Promise<number>,
): Promise<number> {
  const count = await countOn(stderr)
  answer.divertTo(count.print)
  const threads: RehearsingThread[] = []
  let isOver = false // whatever still goes on plays nothing more
  const playAll: Playing['playAll'] = async (items, play) => {
    const waiting = items.values()
    const playing = async (on: RehearsingThread) => {
      for (const item of waiting) {
        if (isOver) return
        await play(on, item)
      }
    }
    const size = Math.min(availableParallelism(), MOST_THREADS, items.length)
    while (threads.length < size) threads.push(new RehearsingThread(job, recording, limitMs, count.print))
    await Promise.all(threads.map(playing))
  }
  return untilInterrupt(count.print, async (signal) => {
    try {
      return await unlessAborted(signal, work({ signal, count, threads, playAll }))
    } finally {
      isOver = true
      count.end()
      await Promise.all(threads.map((each) => each.end()))
    }
  })
}

/** Returns the ids of the runs, in the order of their launch. Rejects with `UnknownRunError` for an unknown one. */
async function wantedRuns(
  { where, logs }: Awaited<ReturnType<typeof logsAt>>,
  from: readonly string[],
  status: RehearseOldFlags['status'],
): Promise<readonly string[]> {
  const isAll = from.includes('all')
  if (isAll && from.length > 1)
    throw new ConfigurationError('--from: "all" stands alone; it means every run of the log.', { path: 'from' })
  if (!isAll && status) throw new ConfigurationError('--status selects among --from all.', { path: 'status' })
  const statuses = new Map<string, RecordedStatus>()
  for (const { read } of logs)
    for (const [id, each] of (await recordedRuns(read, () => false)).statuses) statuses.set(id, each)
  if (isAll) return [...statuses].flatMap(([id, each]) => (!status || each === status ? [id] : []))
  for (const id of from) if (!statuses.has(id)) await recordedRun(where, id, false, logs) // says what is near
  return [...new Set(from)]
}

export interface RehearseFlags {
  seeds?: number
  seed?: number
  faults?: string
  record?: string
  realModels?: boolean
  realTools?: boolean
  seedTimeout?: number
  json?: boolean
  case?: string
  playback?: string
  repeat?: number
}

/** Options of schedules. An old run is played in one, with its own answers. */
const OF_SCHEDULES = ['seeds', 'seed', 'faults', 'record', 'realModels', 'realTools'] as const
const OF_OLD_RUNS = ['log', 'status'] as const
const NOT_OF_CASES = ['from', 'log', 'status', 'record', 'realModels', 'realTools', 'seedTimeout', 'json'] as const

const dashed = (name: string) => `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`

type CaseFlags = EvalFlags & Required<Pick<EvalFlags, 'case'>>

/** @throws ConfigurationError for options that no case takes. */
function caseOf(
  id: string,
  query: string | undefined,
  { playback, repeat, seeds, seed, faults, ...flags }: RehearseFlags & Partial<RehearseOldFlags>,
): CaseFlags {
  const wrong = NOT_OF_CASES.find((name) => flags[name] !== undefined)
  if (wrong) throw new ConfigurationError(`${dashed(wrong)}: a case takes none. Leave it out.`, { path: wrong })
  if (query !== undefined)
    throw new ConfigurationError('--case: a case has its own query. Leave out one of both.', { path: 'query' })
  if (playback === undefined)
    throw new ConfigurationError('--case: which tapes? Name their folder with --playback.', { path: 'playback' })
  return {
    ...{ case: [id], playback, repeat: repeat ?? 1 },
    seeds: seed === undefined ? (seeds ?? SEEDS) : seedsOf([seed], '--seed'),
    ...(faults !== undefined && { faults }),
  }
}

/**
 * Decides by the options what is played: a query through schedules, old runs, or a case of a suite.
 *
 * @throws ConfigurationError for options that do not go together.
 */
export function rehearsalOf(
  query: string | undefined,
  flags: RehearseFlags & Partial<RehearseOldFlags>,
): { query: string } | RehearseOldFlags | CaseFlags {
  const { from, log } = flags
  if (flags.case !== undefined) return caseOf(flags.case, query, flags)
  const ofCase = (['playback', 'repeat'] as const).find((name) => flags[name] !== undefined)
  if (ofCase) throw new ConfigurationError(`--${ofCase}: it is for a case. Name one with --case.`, { path: ofCase })
  const others = from ? OF_SCHEDULES : OF_OLD_RUNS
  const wrong = others.find((name) => flags[name] !== undefined)
  const option = wrong && dashed(wrong)
  if (wrong) {
    const text = from
      ? `${option}: an old run is played once, with the answers of its log. Leave out --from, or this option.`
      : `${option}: it is for old runs. Name them with --from, or leave out this option.`
    throw new ConfigurationError(text, { path: wrong })
  }
  if (from && query !== undefined)
    throw new ConfigurationError('--from: an old run has its own query. Leave out one of both.', { path: 'query' })
  if (from && log === undefined)
    throw new ConfigurationError('--from: which log? Name its folder with --log.', { path: 'log' })
  if (from) return { ...flags, from, log: log! }
  if (query !== undefined) return { query }
  throw new ConfigurationError(
    'What is to be played? Give a query in quotes, or an old run with --from <run> --log <folder>.',
    { path: 'query' },
  )
}

const SEEDS = 100
const MOST_REFUSED = 10

/** Plays the seeds and resolves to the exit code. Rejects for everything that keeps the team from working at all. */
export async function rehearse(
  file: string,
  query: string,
  flags: RehearseFlags,
  surroundings: Surroundings,
): Promise<number> {
  const { answer, stderr, folder } = surroundings
  const { seeds, seed, record, realModels = false, realTools = false, seedTimeout = TIMEOUT_MS, json = false } = flags
  if (seeds !== undefined && seed !== undefined)
    throw new ConfigurationError('--seed plays one run and --seeds many; give one of them.', { path: 'seed' })
  const all = seed === undefined ? seedsOf(seeds ?? SEEDS, '--seeds') : seedsOf([seed], '--seed')
  const names = flags.faults?.split(',').map((name) => name.trim())
  const faults = faultsOf(names, '--faults')
  const href = pathToFileURL(teamFilePath(file, folder)).href
  loadEnv(folder)
  const recording = record === undefined ? undefined : new Recording(resolve(folder, record))
  const isOne = seed !== undefined
  const job: Job = { href, file, query, faults, recorded: recording !== undefined, realModels, realTools, shown: isOne }
  return onThreads(job, recording, seedTimeout, surroundings, seed === undefined ? many : one)

  async function one({ signal, threads, playAll }: Playing): Promise<number> {
    const plays: Played[] = []
    await playAll(all, async (on, each) => void plays.push(await on.play(each, true)))
    await threads[0]!.end() // what it printed comes first
    signal.throwIfAborted()
    const played = plays[0]!
    tellStandIns([played])
    tellRefused([played])
    await answer.write(json ? jsonText(seedData(played)) : seedReport(played, faults))
    return isFailure(played) ? EXIT.failed : EXIT.done
  }

  async function many({ signal, count, threads, playAll }: Playing): Promise<number> {
    const played: Played[] = []
    await playAll(all, async (on, each) => {
      played.push(await on.play(each, false))
      count.show(played.length, all.length, played.filter(isFailure).length)
    })
    signal.throwIfAborted()
    count.end()
    played.sort((a, b) => a.seed - b.seed)
    const failures = played.filter(isFailure)
    const found = shortest(failures.filter(({ messages }) => messages > 0)) // an endless one has nothing to show
    const again = found && (await threads[0]!.play(found.seed, true))
    signal.throwIfAborted()
    const shown = again && isFailure(again) ? again : undefined
    tellStandIns(played)
    tellRefused(played)
    await answer.write(
      json ? jsonText(rehearsalData(played, shown, replay)) : rehearsalReport(played, shown, replay, faults),
    )
    return failures.length > 0 ? EXIT.failed : EXIT.done
  }

  function replay(seed: number): string {
    const options = [
      faults.length > 0 && `--faults ${faults.join(',')}`,
      record !== undefined && `--record ${quoted(record)}`,
      realModels && '--real-models',
      realTools && '--real-tools',
    ]
    return ['npx dramatis rehearse', quoted(file), quoted(query, true), `--seed ${seed}`, ...options]
      .filter((part) => part !== false)
      .join(' ')
  }

  function tellStandIns(played: readonly Played[]): void {
    const models = [...new Set(played.flatMap(({ standsInFor }) => standsInFor))].join(', ')
    if (models !== '') stderr.write(`the rehearsal model answered in place of ${models}; --real-models asks them\n`)
    const tools = [...new Set(played.flatMap(({ simulatedTools }) => simulatedTools))].sort().join(', ')
    const madeUp = 'these tools did not run, but were answered with made-up values'
    if (tools !== '') stderr.write(`${madeUp}: ${tools}; --real-tools runs them\n`)
  }

  /** Code may catch a refusal and go on: its user hears of it all the same. */
  function tellRefused(played: readonly Played[]): void {
    const all = [...new Set(played.flatMap(({ refused }) => refused))]
    for (const text of all.slice(0, MOST_REFUSED)) stderr.write(`refused: ${text}\n`)
    if (all.length > MOST_REFUSED) stderr.write(`and ${all.length - MOST_REFUSED} more were refused\n`)
  }
}
