/** Entry of a thread that rehearses. It plays the seeds that it is given, one at a time. */
import { type MessagePort, workerData } from 'node:worker_threads'
import { expose, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { ConfigurationError, DramatisError, describe, errorData } from '../../errors.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import { type Asked, type Part, Rehearser, recordedFetch, type StepAnswers } from '../../rehearsal.ts'
import { defaultLogger } from '../../runtime/logging/default-logger.ts'
import type { MultiAgentPatternOptions } from '../../team.ts'
import * as tools from '../../tools/index.ts'
import { definitionFrom, isYaml, loadYaml } from '../load-team-file.ts'
import { type Answers, Beats, type Job, type Plays } from './job.ts'

const { control, answers, job, beats } = workerData as {
  control: MessagePort
  answers: MessagePort
  job: Job
  beats: SharedArrayBuffer
}
const { href, file, query, faults, recorded, realModels, realTools, shown } = job

const host = wrap<Answers>(nodeEndpoint(answers))
const rehearser = new Rehearser({
  pulse: new Beats(beats),
  modules: { 'dramatis/tools': tools },
  realModels,
  realTools,
  ...(shown && { logger: defaultLogger }),
  ...(recorded && { fetch: recordedFetch((asked: Asked) => host.answer(asked)), steps: answersOf(host) }),
})

/** A proxy of the other side has every method there is. */
function answersOf({ knownStep, keepStep }: typeof host): StepAnswers {
  return { knownStep, keepStep }
}

process.on('uncaughtException', (error) => rehearser.uncaught(error))
process.on('unhandledRejection', (error) => rehearser.uncaught(error))

const teamFile = { href, shown: file }
/** Definition from a file that is no module; it is the same in every run. */
let written: MultiAgentPatternOptions | undefined

const inFlow = (options: MultiAgentPatternOptions) => inFlowMode(options, process.env.FLOW_MODE)

const plays: Plays = {
  async ready() {
    try {
      if (isYaml(file)) written = inFlow(await loadYaml(new URL(href), file))
      else await rehearser.prepare(teamFile)
      return undefined
    } catch (error) {
      return { refused: errorData(refusalOf(error)) }
    }
  },
  async play(seed, traced) {
    const part: Part = { query, faults, traced }
    try {
      const team = written
      const outcome = team
        ? await rehearser.play(seed, () => team, part)
        : await rehearser.playFile(seed, teamFile, (exported) => inFlow(definitionFrom(exported, file, href)), part)
      return { played: { ...outcome, error: outcome.error && errorData(outcome.error) } }
    } catch (error) {
      return { refused: errorData(refusalOf(error)) }
    }
  },
}

function refusalOf(error: unknown): DramatisError {
  if (error instanceof DramatisError) return error
  return new ConfigurationError(`Team file "${file}": ${describe(error)}`, { file }, error)
}

expose(plays, nodeEndpoint(control))
