/**
 * Answers of `fetch`, and results of steps that reach outside, kept in a file: real the first time, and from the file
 * ever after.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { isObject } from '../../shared/checks.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { refusedIo } from './reach.ts'
import type { Fetch } from './sandbox.ts'
import type { RecordedStep, StepAnswers } from './script.ts'

/** A request as data. Bodies are base64. */
export interface Asked {
  method: string
  url: string
  headers: [string, string][]
  body: string
}

/** A response as data. */
export interface Recorded {
  status: number
  statusText: string
  headers: [string, string][]
  body: string
}

const WITHOUT_BODY = [101, 204, 205, 304]
/** Headers that describe the body as it was transferred, not as it is stored. */
const OF_THE_WIRE = ['content-encoding', 'content-length', 'transfer-encoding']

export const refusingFetch: Fetch = async (who, ...request) => {
  const { method, url } = new Request(...request)
  const advice = `Play it with --record <file> (rehearse: record): its answer is then kept in that file. Or let a test play the agent.`
  throw refusedIo(who, `fetch (${method} ${url})`, advice)
}

/** `fetch` as code in a rehearsal has it. `answer` may be in another thread. */
export function recordedFetch(answer: (asked: Asked) => Promise<Recorded>): Fetch {
  return async (_who, ...given) => {
    const request = new Request(...given)
    const { method, url, headers } = request
    const body = Buffer.from(await request.arrayBuffer()).toString('base64')
    const recorded = await answer({ method, url, headers: [...headers], body })
    const content = WITHOUT_BODY.includes(recorded.status) ? null : Buffer.from(recorded.body, 'base64')
    return new Response(content, recorded)
  }
}

export class Recording implements StepAnswers {
  readonly #file: string
  readonly #known = new Map<string, Recorded>()
  readonly #steps = new Map<string, RecordedStep>()
  readonly #asked = new Map<string, Promise<Recorded>>()

  constructor(file: string) {
    this.#file = file
    for (const [key, entry] of Object.entries(contentOf(file))) {
      if (key.startsWith(STEP)) this.#steps.set(key, entry)
      else if (isRecorded(entry)) this.#known.set(key, entry)
      else throw noRecording(file)
    }
  }

  /** Equal requests at the same time share one answer. Headers are not compared, since they hold dates and keys. */
  answer(asked: Asked): Promise<Recorded> {
    const key = `${asked.method} ${asked.url} ${asked.body}`.trim()
    const known = this.#known.get(key)
    if (known) return Promise.resolve(known)
    const answer = this.#asked.get(key) ?? this.#ask(key, asked)
    this.#asked.set(key, answer)
    return answer
  }

  async #ask(key: string, { method, url, headers, body }: Asked): Promise<Recorded> {
    try {
      const response = await fetch(url, { method, headers, ...(body !== '' && { body: Buffer.from(body, 'base64') }) })
      const recorded = {
        status: response.status,
        statusText: response.statusText,
        headers: [...response.headers].filter(([name]) => !OF_THE_WIRE.includes(name)),
        body: Buffer.from(await response.arrayBuffer()).toString('base64'),
      }
      this.#known.set(key, recorded)
      this.#write()
      return recorded
    } finally {
      this.#asked.delete(key)
    }
  }

  async knownStep(key: string): Promise<RecordedStep | null> {
    return this.#steps.get(STEP + key) ?? null
  }

  async keepStep(key: string, step: RecordedStep): Promise<RecordedStep> {
    const known = this.#steps.get(STEP + key)
    if (known) return known
    this.#steps.set(STEP + key, step)
    this.#write()
    return step
  }

  #write(): void {
    const content = Object.fromEntries<object>([...this.#known, ...this.#steps])
    writeFileSync(this.#file, `${JSON.stringify(content, null, 2)}\n`)
  }
}

/** Prefix of the keys of steps; keys of requests begin with a method. */
const STEP = 'step '

function contentOf(file: string): Record<string, object> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return {}
    throw new ConfigurationError(`record: ${file} cannot be read: ${describe(error)}`, { path: 'record', file }, error)
  }
  try {
    const content: unknown = JSON.parse(text)
    if (isObject(content) && Object.values(content).every(isObject)) return { ...content }
  } catch {} // reported by the error below
  throw noRecording(file)
}

function noRecording(file: string): ConfigurationError {
  return new ConfigurationError(`record: ${file} is no recording of a rehearsal. Name another file, or delete it.`, {
    path: 'record',
    file,
  })
}

const isRecorded = (entry: object): entry is Recorded => 'status' in entry && 'body' in entry && 'headers' in entry
