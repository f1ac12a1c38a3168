/** A thread that rehearses, seen from outside: it is watched, and replaced where a play does not come to its end. */
import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import { expose, releaseProxy, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { environment, ownFile } from '../../shared/environment.ts'
import {
  AgentCrashedError,
  type DramatisError,
  describe,
  type ErrorData,
  errorData,
  errorFrom,
} from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { type Answers, Beats, type Job, type Played, type PlayedOld, type Plays } from './job.ts'

const START_LIMIT_MS = 120_000
const LATE_MS = 100

/** Name and details of what is played, for errors. */
interface Whose {
  readonly what: string
  readonly details: Readonly<Record<string, unknown>>
}

interface Running {
  readonly plays: Plays
  readonly beats: Beats
  /** Aborted with an error when the thread ends. */
  readonly died: AbortSignal
  end(): Promise<void>
}

export class RehearsingThread {
  readonly #job: Job
  readonly #answers: Answers | undefined
  readonly #limitMs: number
  readonly #print: (text: string) => void
  #running: Running | undefined

  /**
   * `answers`: where `fetch` is answered. `limitMs`: real time without a step of the clock. `print`: what comes out of
   * the thread itself.
   */
  constructor(job: Job, answers: Answers | undefined, limitMs: number, print: (text: string) => void) {
    this.#job = job
    this.#answers = answers
    this.#limitMs = limitMs
    this.#print = print
  }

  /**
   * A seed that ends or blocks the thread is a failed one. Rejects with `ConfigurationError` for a team that cannot
   * work at all.
   */
  async play(seed: number, traced: boolean): Promise<Played> {
    const whose = { what: `seed ${seed}`, details: { seed } }
    const played = await this.#watch(whose, (plays) => plays.play(seed, traced))
    return played instanceof AgentCrashedError ? { ...NOTHING_TOLD, seed, error: errorData(played) } : played
  }

  /**
   * Plays a run of the log. Resolves to the error for one that ends or blocks the thread. Rejects with
   * `ConfigurationError` for a team that cannot work at all, or not with the options of the run.
   */
  playOld(runId: string, batch: readonly string[], traced: boolean): Promise<PlayedOld | AgentCrashedError> {
    const whose = { what: `run "${runId}"`, details: { runId } }
    return this.#watch(whose, (plays) => plays.playOld(runId, batch, traced))
  }

  async #watch<T>(whose: Whose, play: (plays: Plays) => Promise<{ played: T } | { refused: ErrorData }>) {
    try {
      const running = this.#running ?? (await this.#begin(whose))
      const answer = await watched(play(running.plays), running, this.#limitMs, () => this.#stuck(whose))
      if ('refused' in answer) throw errorFrom(answer.refused)
      return answer.played
    } catch (error) {
      if (!(error instanceof AgentCrashedError)) throw error
      await this.end()
      return error
    }
  }

  /** Resolves when it is gone, and what it had printed is told. */
  async end(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    await running?.end()
  }

  async #begin(whose: Whose): Promise<Running> {
    const { what, details } = whose
    const running = this.#spawn(whose)
    this.#running = running
    const late = () =>
      new AgentCrashedError(`The thread for ${what} was not ready within ${START_LIMIT_MS} ms.`, details)
    const answer = await watched(running.plays.ready(), running, START_LIMIT_MS, late)
    if (answer) throw errorFrom(answer.refused)
    return running
  }

  #spawn({ what, details }: Whose): Running {
    const beats = new Beats()
    const control = new MessageChannel()
    const answers = new MessageChannel()
    const worker = new Worker(ownFile('service/rehearsal/thread-entry.js'), {
      workerData: { control: control.port2, answers: answers.port2, job: this.#job, beats: beats.memory },
      transferList: [control.port2, answers.port2],
      env: { ...environment() },
      stdout: true,
      stderr: true,
    })
    const streams = [worker.stdout, worker.stderr]
    for (const stream of streams) stream.setEncoding('utf8').on('data', (text: string) => this.#print(text))
    const told = Promise.all(streams.map((stream) => once(stream, 'end')))
    if (this.#answers) expose(this.#answers, nodeEndpoint(answers.port1))
    const plays = wrap<Plays>(nodeEndpoint(control.port1))
    const dead = new AbortController()
    const ended = (why: unknown) => {
      if (dead.signal.aborted) return
      dead.abort(new AgentCrashedError(`The thread that played ${what} ended: ${describe(why)}.`, details, why))
      plays[releaseProxy]() // else Comlink keeps what was not answered
    }
    worker.once('error', ended)
    worker.once('exit', (code) => ended(`code ${code}`))
    return {
      plays,
      beats,
      died: dead.signal,
      async end() {
        for (const { port1 } of [control, answers]) port1.close()
        await worker.terminate()
        await told
      },
    }
  }

  #stuck({ what, details }: Whose): AgentCrashedError {
    const agent = this.#running?.beats.agent ?? ''
    const whose =
      agent === '' ? 'No turn of an agent had begun' : `The turn that began last was one of agent "${agent}"`
    return new AgentCrashedError(
      `${what[0]!.toUpperCase()}${what.slice(1)} blocked its thread for ${this.#limitMs} ms, so it was ended alone: an endless loop, or code that blocks. ${whose}. Raise --seed-timeout if something may take that long.`,
      { ...details, limitMs: this.#limitMs, ...(agent !== '' && { agent }) },
    )
  }
}

const NOTHING_TOLD = {
  kind: 'failed',
  messages: 0,
  faults: [],
  standsInFor: [],
  simulatedTools: [],
  refused: [],
  trace: null,
} as const

/** Looks at a thread before it is given up. */
const LOOKS = 8

/**
 * Resolves like `work`, while the thread lives and makes a step in each `limitMs`. A look that comes late does not
 * count: a machine that has no time for this process has none for the thread either.
 */
async function watched<T>(
  work: Promise<T>,
  { beats, died }: Running,
  limitMs: number,
  late: () => DramatisError,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const everyMs = limitMs / LOOKS
  const stuck = new Promise<never>((_, reject) => {
    const look = (inVain: number, before: number, lookedAt: number) => {
      timer = setTimeout(() => {
        const { steps } = beats
        const now = performance.now()
        const excused = steps !== before || now - lookedAt > 2 * everyMs + LATE_MS
        const count = excused ? 0 : inVain + 1
        if (count >= LOOKS) reject(late())
        else look(count, steps, now)
      }, everyMs)
    }
    look(0, beats.steps, performance.now())
  })
  try {
    return await unlessAborted(died, Promise.race([work, stuck]))
  } finally {
    clearTimeout(timer)
  }
}
