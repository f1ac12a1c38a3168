/** Models of a suite: what judges and scorers ask, by the clients of a team, with their keys, limits and retries. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { textOf } from '../actors/definition/content.ts'
import {
  addUsage,
  type ModelClient,
  type ModelMessage,
  type ModelRequest,
  NO_TOKENS,
  type TokenUsage,
} from '../actors/definition/model.ts'
import { Redactor } from '../runtime/logging/redactor.ts'
import { collect, nothingYet } from '../runtime/providers/collect.ts'
import { Models } from '../runtime/providers/models.ts'
import { type AddressEntry, isClient, type ModelsConfig, type ResolvedModel } from '../runtime/providers/provider.ts'
import { refusedAs } from '../shared/checks.ts'
import { systemClock } from '../shared/clock.ts'
import { environment } from '../shared/environment.ts'
import { ModelError, modelFailureIn, TapeMissError } from '../shared/errors.ts'
import { digestOf } from '../shared/random.ts'
import { own } from '../shared/values.ts'

/** Means by which a scorer asks models. */
export interface ScorerContext {
  /** Asks a model of the suite (`models`). Rejects with `ModelError` where it has no answer. */
  complete(prompt: string, options?: CompleteOptions): Promise<string>
  /** Asks a model of the suite for a vector of each text. Rejects with `ModelError` where it gives none. */
  embed(texts: readonly string[], options?: { model?: string }): Promise<number[][]>
  /** Ends with the suite. */
  readonly signal: AbortSignal
}

export interface CompleteOptions extends Pick<ModelRequest, 'temperature' | 'jsonSchema'> {
  /** Name in the suite's `models`. Default: the one named `default`, else the first. */
  model?: string
  /** Instructions, before the prompt. */
  system?: string
  /**
   * Keeps the answer for the next time that the same is asked of the same model, in `.dramatis/answers.jsonl` beside
   * the suite, if it returns true. Default: no answer is kept.
   */
  keepIf?(answer: string): boolean
}

const KEPT_ANSWERS = 10_000
const LONGEST_KEPT = 4_000
/** A provider's answer is read up to 65,536 values; a vector may have thousands. */
const TEXTS_AT_ONCE = 8

/** Answers that scorers had, in a file. `isLoose`: what it does not have is asked, if there is a key. */
export interface ScorerTape {
  readonly path: string
  readonly how: 'record' | 'playback'
  readonly isLoose: boolean
}

export class SuiteModels {
  readonly #redactor = new Redactor()
  readonly #models: Models
  readonly #embedders: Models
  readonly #kept: KeptAnswers
  readonly #tape: ({ answers: KeptAnswers; isStrict: boolean } & ScorerTape) | undefined
  /** Models that have one temperature alone, and refuse any other, as reasoning models do. */
  readonly #oneTemperature = new Set<string>()
  /** Tokens that these models have used, by their names. */
  readonly used = new Map<string, TokenUsage>()

  /** `folder`: that of the suite, for the answers that are kept. */
  constructor(models: ModelsConfig | undefined, folder: string, tape?: ScorerTape) {
    const known = environment()
    const missing = tape?.how === 'playback' ? keysOf(models).filter((name) => !own(known, name)?.trim()) : []
    const env = { ...known, ...Object.fromEntries(missing.map((name) => [name, NO_KEY])) }
    const isStrict = tape?.how === 'playback' && (!tape.isLoose || missing.length > 0)
    this.#tape = tape && { ...tape, isStrict, answers: new KeptAnswers(tape.path, Number.POSITIVE_INFINITY) }
    const context = { env, clock: systemClock, redactor: this.#redactor }
    this.#models = new Models(models, context)
    this.#embedders = new Models(models && embeddersOf(models), { ...context, api: 'embeddings' })
    this.#kept = new KeptAnswers(join(folder, '.dramatis', 'answers.jsonl'))
  }

  /** Throws `ConfigurationError` if there is no model of that name, or a list of them. */
  resolve(name: string | undefined, path: string): ResolvedModel {
    return oneOf(this.#models, name, path)
  }

  /** Takes the keys of the models out of a text. */
  redacted(text: string): string {
    return this.#redactor.text(text)
  }

  for(signal: AbortSignal): ScorerContext {
    return {
      signal,
      complete: (prompt, options = {}) => this.#complete(prompt, options, signal),
      embed: (texts, { model } = {}) => this.#embed(texts, model, signal),
    }
  }

  /** Returns the answer that the tape has, or asks, and keeps what is said there. */
  async #taped(asked: string, model: string, ask: () => Promise<string>): Promise<string> {
    const { how, answers, path, isStrict = false } = this.#tape ?? {}
    const known = how === 'playback' ? answers?.get(asked) : undefined
    if (known !== undefined) return known
    if (isStrict)
      throw new TapeMissError(
        `A scorer asks the model "${model}", and the tape ${path} has no answer to that. Record the suite again (--record).`,
        { kind: 'model', name: model, tape: path },
      )
    const answer = await ask()
    if (how === 'record') answers?.add(asked, answer)
    return answer
  }

  async #embed(texts: readonly string[], name: string | undefined, signal: AbortSignal): Promise<number[][]> {
    const { client, model, options, host } = oneOf(this.#embedders, name, `models.${name ?? 'default'}`)
    const vectors: number[][] = []
    for (let at = 0; at < texts.length; at += TEXTS_AT_ONCE) {
      const messages = texts.slice(at, at + TEXTS_AT_ONCE).map((content) => ({ role: 'user' as const, content }))
      const asked = digestOf(['vectors', host ?? client.provider ?? name ?? null, model, options ?? null, messages])
      const text = await this.#taped(asked, model, async () => {
        const into = nothingYet()
        try {
          await collect(client, { ...options, model, messages, signal }, into, () => {})
        } finally {
          this.#count(model, into.usage)
        }
        return into.text
      })
      vectors.push(...(JSON.parse(text) as number[][]))
    }
    return vectors
  }

  #count(model: string, usage: TokenUsage): void {
    this.used.set(model, addUsage(this.used.get(model) ?? NO_TOKENS, usage))
  }

  async #complete(
    prompt: string,
    { model: name, system, keepIf, ...options }: CompleteOptions,
    signal: AbortSignal,
  ): Promise<string> {
    const { client, model, options: own, host } = this.resolve(name, `models.${name ?? 'default'}`)
    const messages: ModelMessage[] = [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      { role: 'user', content: prompt },
    ]
    const request = { ...own, ...options, model, messages, signal }
    const asked = digestOf([host ?? client.provider ?? name ?? null, model, own ?? null, options, messages])
    return this.#taped(asked, model, async () => {
      const kept = keepIf && this.#kept.get(asked)
      if (kept !== undefined) return kept
      const into = nothingYet()
      const { temperature, ...bare } = request
      try {
        await collect(client, this.#oneTemperature.has(model) ? bare : request, into, () => {})
      } catch (error) {
        if (temperature === undefined || !isOfTemperature(error)) throw error
        this.#oneTemperature.add(model)
        await collect(client, bare, into, () => {})
      } finally {
        this.#count(model, into.usage)
      }
      const answer = this.redacted(into.text)
      if (keepIf?.(answer)) this.#kept.add(asked, answer)
      return answer
    })
  }
}

/** In the place of a key, where nobody is asked. */
const NO_KEY = 'none'

/** Returns the names of the variables with keys that models need. */
const keysOf = (models: ModelsConfig = {}): string[] =>
  Object.values(models).flatMap((entry) => {
    if (!('model' in entry) || 'client' in entry) return []
    const { apiKeyEnv, apiKey, baseURL } = entry as AddressEntry
    return apiKeyEnv ?? (apiKey === undefined && baseURL === undefined ? 'OPENAI_API_KEY' : [])
  })

const isOfTemperature = (error: unknown): boolean =>
  modelFailureIn(error)?.reason === 'rejected' && /temperature/i.test(String(error))

function oneOf(models: Models, name: string | undefined, path: string): ResolvedModel {
  const found = models.resolve(name, path)
  if (found.list) throw refusedAs(path, `the list "${name}"`, 'the name of one model, which is always the same')
  return found
}

/** Returns the same models, whose answers are the vectors of the messages: by the queues and retries of all models. */
function embeddersOf(models: ModelsConfig): ModelsConfig {
  return Object.fromEntries(
    Object.entries(models).map(([name, entry]) => {
      if (isClient(entry)) return [name, embedder(entry, name)]
      return [name, 'client' in entry ? { ...entry, client: embedder(entry.client, name) } : entry]
    }),
  )
}

function embedder(client: ModelClient, name: string): ModelClient {
  const { offline, provider, modelId } = client
  return {
    ...(offline !== undefined && { offline }),
    ...(provider !== undefined && { provider }),
    ...(modelId !== undefined && { modelId }),
    async *complete({ messages, model, signal }) {
      const texts = messages.map(({ content }) => textOf(content))
      const answer = await client.embed?.({ texts, model, signal })
      if (!answer)
        throw noVectors(`The client "${name}" has no method embed. Give it one, or take the address of a model.`)
      const { vectors, usage } = answer
      if (!isVectors(vectors, texts.length)) throw noVectors(`The client "${name}" gave no vector for each text.`)
      yield { text: JSON.stringify(vectors), ...(usage && { usage }) }
    },
  }
}

const noVectors = (text: string) => new ModelError(text, { reason: 'invalid_answer', retryable: false })

const isVectors = (given: unknown, count: number): boolean =>
  Array.isArray(given) &&
  given.length === count &&
  given.every((each) => Array.isArray(each) && each.length === given[0].length && each.every(Number.isFinite))

/** Answers by the digest of what was asked: the prompts themselves are not in the file. */
class KeptAnswers {
  readonly #path: string
  readonly #longest: number
  #answers: Map<string, string> | undefined

  constructor(path: string, longest = LONGEST_KEPT) {
    this.#path = path
    this.#longest = longest
  }

  get(key: string): string | undefined {
    return this.#all.get(key)
  }

  add(key: string, answer: string): void {
    if (answer.length > this.#longest) return
    this.#all.set(key, answer)
    try {
      mkdirSync(dirname(this.#path), { recursive: true })
      appendFileSync(this.#path, lineOf(key, answer))
    } catch {} // a folder that may not be written: the answer is asked for again
  }

  get #all(): Map<string, string> {
    this.#answers ??= this.#read()
    return this.#answers
  }

  #read(): Map<string, string> {
    let lines: string[]
    try {
      lines = readFileSync(this.#path, 'utf8').split('\n')
    } catch {
      return new Map()
    }
    const answers = new Map(lines.flatMap(entryIn).slice(-KEPT_ANSWERS))
    if (lines.length > KEPT_ANSWERS + 1)
      try {
        writeFileSync(this.#path, [...answers].map(([key, answer]) => lineOf(key, answer)).join(''))
      } catch {}
    return answers
  }
}

const lineOf = (key: string, answer: string): string => `${JSON.stringify([key, answer])}\n`

function entryIn(line: string): [key: string, answer: string][] {
  try {
    const [key, answer]: unknown[] = JSON.parse(line)
    return typeof key === 'string' && typeof answer === 'string' ? [[key, answer]] : []
  } catch {
    return [] // the end of a line that another process is writing
  }
}
