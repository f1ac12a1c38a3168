/** Entry of a thread that rehearses. It plays the seeds that it is given, one at a time. */
import { type MessagePort, workerData } from 'node:worker_threads'
import { expose, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import { type Asked, oldTurnsOf, type Part, Rehearser, recordedFetch } from '../../rehearsal.ts'
import { defaultLogger } from '../../runtime/logging/logger.ts'
import { type RecordedRun, recordedRuns } from '../../runtime/views/recorded-runs.ts'
import {
  ConfigurationError,
  DramatisError,
  describe,
  type ErrorData,
  errorData,
  UnknownRunError,
} from '../../shared/errors.ts'
import type { MultiAgentPatternOptions } from '../../team.ts'
import * as tools from '../../tools/index.ts'
import { logsAt } from '../shared/cluster-url.ts'
import { definitionFrom, isYaml, loadYaml } from '../shared/load-team-file.ts'
import { type Answers, Beats, type Job, type PlayedOld, type Plays } from './job.ts'

const { control, answers, job, beats } = workerData as {
  control: MessagePort
  answers: MessagePort
  job: Job
  beats: SharedArrayBuffer
}
const { href, file, query, place, faults, recorded, realModels, realTools, shown } = job

const host = wrap<Answers>(nodeEndpoint(answers))
const pulse = new Beats(beats)
const rehearser = new Rehearser({
  pulse,
  modules: { 'dramatis/tools': tools },
  realModels,
  realTools,
  ...(shown && { logger: defaultLogger }),
  ...(recorded && {
    fetch: recordedFetch((asked: Asked) => host.answer(asked)),
    steps: { knownStep: host.knownStep, keepStep: host.keepStep }, // the proxy itself has every method there is
  }),
})

process.on('uncaughtException', (error) => rehearser.uncaught(error))
process.on('unhandledRejection', (error) => rehearser.uncaught(error))

const teamFile = { href, shown: file }
/** Definition from a file that is no module; it is the same in every run. */
let written: MultiAgentPatternOptions | undefined

const inFlow = (options: MultiAgentPatternOptions) => inFlowMode(options, process.env.FLOW_MODE)
const definitionIn = (exported: unknown) => inFlow(definitionFrom(exported, file, href))

async function unlessRefused<T>(work: () => Promise<T>): Promise<T | { refused: ErrorData }> {
  try {
    return await work()
  } catch (error) {
    const refusal =
      error instanceof DramatisError
        ? error
        : new ConfigurationError(`Team file "${file}": ${describe(error)}`, { file }, error)
    return { refused: errorData(refusal) }
  }
}

const plays: Plays = {
  ready: () =>
    unlessRefused(async () => {
      if (isYaml(file)) written = inFlow(await loadYaml(new URL(href), file))
      else await rehearser.prepare(teamFile)
      return undefined
    }),
  play: (seed, traced) =>
    unlessRefused(async () => {
      const part: Part = { query, faults, traced }
      const team = written
      const outcome = team
        ? await rehearser.play(seed, () => team, part)
        : await rehearser.playFile(seed, teamFile, definitionIn, part)
      return { played: { ...outcome, error: outcome.error && errorData(outcome.error) } }
    }),
  playOld: (...asked) => unlessRefused(async () => ({ played: await playedOld(...asked) })),
}

async function playedOld(runId: string, batch: readonly string[], traced: boolean): Promise<PlayedOld> {
  const run = (await runsOf(batch)).get(runId)
  if (!run)
    throw new UnknownRunError(
      `The log has run "${runId}" no more: the team that writes it has given it up (stateManagement.keep).`,
      { runId },
    )
  const part = { run, old: oldTurnsOf(run) }
  const team = written
  const { before, mismatches, result } = team
    ? await rehearser.playOld(() => team, part)
    : await rehearser.playOldFile(teamFile, definitionIn, part)
  const { success, finalOutput, error, orchestrationTrace } = result
  const now = { success, finalOutput, error: error && errorData(error) }
  return { runId, before, mismatches, now, trace: traced ? orchestrationTrace : null }
}

let known: { batch: readonly string[]; runs: ReadonlyMap<string, RecordedRun> } = { batch: [], runs: new Map() }

async function runsOf(batch: readonly string[]): Promise<ReadonlyMap<string, RecordedRun>> {
  if (batch.join() === known.batch.join()) return known.runs
  known = { batch: [], runs: new Map() } // makes room
  const wanted = new Set(batch)
  const found = new Map<string, RecordedRun>()
  for (const { read } of (await logsAt(place!, '')).logs) {
    const { runs } = await recordedRuns(
      () => withBeats(read()),
      ({ id, own }) => !own && wanted.has(id),
      {
        facts: true,
        parts: true,
      },
    )
    for (const run of runs) found.set(run.id, run)
    if (found.size === wanted.size) break
  }
  known = { batch, runs: found }
  return known.runs
}

/** A long log takes its time. */
async function* withBeats<T>(blocks: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const block of blocks) {
    pulse.beat()
    yield block
  }
}

expose(plays, nodeEndpoint(control))
