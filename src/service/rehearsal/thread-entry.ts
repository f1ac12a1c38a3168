/** What runs in a thread that rehearses: it plays the seeds that it is given, one at a time. */
import { type MessagePort, workerData } from 'node:worker_threads'
import { expose, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { ConfigurationError, DramatisError, describe, errorData } from '../../errors.ts'
import { type Asked, type Part, Rehearser, recordedFetch } from '../../rehearsal.ts'
import { lineLogger } from '../../runtime/default-logger.ts'
import { definitionFrom } from '../load-team-file.ts'
import type { Answers, Job, Plays } from './job.ts'

const { control, answers, job } = workerData as { control: MessagePort; answers: MessagePort; job: Job }
const { href, file, query, faults, recorded } = job

let log: string[] = []
const host = wrap<Answers>(nodeEndpoint(answers))
const rehearser = new Rehearser({
  logger: lineLogger((line) => log.push(line)),
  ...(recorded && { fetch: recordedFetch((asked: Asked) => host.answer(asked)) }),
})

process.on('uncaughtException', (error) => rehearser.uncaught(error))
process.on('unhandledRejection', (error) => rehearser.uncaught(error))

const plays: Plays = {
  async play(seed, traced) {
    log = []
    const part: Part = { query, faults, traced }
    try {
      const outcome = await rehearser.playFile(seed, { href, shown: file }, (exported) => definitionFrom(exported, file), part)
      return { played: { ...outcome, error: outcome.error && errorData(outcome.error), log } }
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
