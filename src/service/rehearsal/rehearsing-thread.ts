/** A thread that rehearses, seen from outside: it is watched, and replaced where a seed does not come to its end. */
import { MessageChannel, Worker } from 'node:worker_threads'
import { expose, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { AgentCrashedError, describe, type ErrorData, errorData, errorFrom } from '../../errors.ts'
import type { Answers, Job, Played, Plays } from './job.ts'

const ENTRY = new URL('./thread-entry.js', import.meta.url)

interface Running {
  play: Plays['play']
  /** Rejects when the thread ends. */
  dead: Promise<never>
  end(): void
}

export class RehearsingThread {
  readonly #job: Job
  readonly #answers: Answers
  readonly #limitMs: number
  readonly #print: (text: string) => void
  #running: Running | undefined

  /** `limitMs`: real time for one seed. `print`: what comes out of the thread itself. */
  constructor(job: Job, answers: Answers, limitMs: number, print: (text: string) => void) {
    this.#job = job
    this.#answers = answers
    this.#limitMs = limitMs
    this.#print = print
  }

  /** Rejects with `ConfigurationError` for a team that cannot work at all. */
  async play(seed: number, traced: boolean): Promise<Played> {
    const running = this.#running ?? this.#begin()
    this.#running = running
    let watch: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      watch = setTimeout(() => reject(this.#stuck(seed)), this.#limitMs)
    })
    try {
      const answer = await Promise.race([running.play(seed, traced), running.dead, late])
      if ('refused' in answer) throw new Refused(answer.refused)
      return answer.played
    } catch (error) {
      if (error instanceof Refused) throw errorFrom(error.data)
      this.end()
      const failure = error instanceof AgentCrashedError ? error : this.#ended(seed, error)
      return { seed, kind: 'failed', error: errorData(failure), messages: 0, faults: [], refused: [], trace: null, log: [] }
    } finally {
      clearTimeout(watch)
    }
  }

  end(): void {
    this.#running?.end()
    this.#running = undefined
  }

  #begin(): Running {
    const control = new MessageChannel()
    const answers = new MessageChannel()
    const worker = new Worker(ENTRY, {
      workerData: { control: control.port2, answers: answers.port2, job: this.#job },
      transferList: [control.port2, answers.port2],
      stdout: true,
      stderr: true,
    })
    for (const stream of [worker.stdout, worker.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => this.#print(text))
    expose(this.#answers, nodeEndpoint(answers.port1))
    const remote = wrap<Plays>(nodeEndpoint(control.port1))
    const dead = new Promise<never>((_, reject) => {
      worker.once('error', reject)
      worker.once('exit', (code) => reject(new Error(`the thread ended with code ${code}`)))
    })
    dead.catch(() => {})
    const end = () => {
      for (const { port1 } of [control, answers]) port1.close()
      void worker.terminate()
    }
    return { play: (seed, traced) => remote.play(seed, traced), dead, end }
  }

  #stuck(seed: number): AgentCrashedError {
    return new AgentCrashedError(
      `Seed ${seed} did not come to its end within ${this.#limitMs} ms of real time, so it was ended alone: an endless loop, or code that blocks, in an agent or in the protocol. Raise --seed-timeout if it may take that long.`,
      { seed, limitMs: this.#limitMs },
    )
  }

  #ended(seed: number, error: unknown): AgentCrashedError {
    const text = `Seed ${seed} ended the thread that played it: ${describe(error)}.`
    return new AgentCrashedError(text, { seed }, error)
  }
}

/** Tells what the thread refused from what happened to it. */
class Refused extends Error {
  readonly data: ErrorData
  constructor(data: ErrorData) {
    super(data.message)
    this.data = data
  }
}
