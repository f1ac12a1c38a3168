/** Models of a suite: what judges and scorers ask, by the clients of a team, with their keys, limits and retries. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  addUsage,
  type ModelMessage,
  type ModelRequest,
  NO_TOKENS,
  type TokenUsage,
} from '../actors/definition/model.ts'
import { Redactor } from '../runtime/logging/redactor.ts'
import { collect, nothingYet } from '../runtime/providers/collect.ts'
import { Models } from '../runtime/providers/models.ts'
import type { ModelsConfig, ResolvedModel } from '../runtime/providers/provider.ts'
import { refusedAs } from '../shared/checks.ts'
import { systemClock } from '../shared/clock.ts'
import { environment } from '../shared/environment.ts'
import { modelFailureIn } from '../shared/errors.ts'
import { digestOf } from '../shared/random.ts'

/** Means by which a scorer asks models. */
export interface ScorerContext {
  /** Asks a model of the suite (`models`). Rejects with `ModelError` where it has no answer. */
  complete(prompt: string, options?: CompleteOptions): Promise<string>
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

export class SuiteModels {
  readonly #redactor = new Redactor()
  readonly #models: Models
  readonly #kept: KeptAnswers
  /** Tokens that these models have used, by their names. */
  readonly used = new Map<string, TokenUsage>()

  /** `folder`: that of the suite, for the answers that are kept. */
  constructor(models: ModelsConfig | undefined, folder: string) {
    this.#models = new Models(models, { env: environment(), clock: systemClock, redactor: this.#redactor })
    this.#kept = new KeptAnswers(join(folder, '.dramatis', 'answers.jsonl'))
  }

  /** Throws `ConfigurationError` if there is no model of that name, or a list of them. */
  resolve(name: string | undefined, path: string): ResolvedModel {
    const found = this.#models.resolve(name, path)
    if (found.list) throw refusedAs(path, `the list "${name}"`, 'the name of one model, which is always the same')
    return found
  }

  /** Takes the keys of the models out of a text. */
  redacted(text: string): string {
    return this.#redactor.text(text)
  }

  for(signal: AbortSignal): ScorerContext {
    return { signal, complete: (prompt, options = {}) => this.#complete(prompt, options, signal) }
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
    const key = keepIf && digestOf([host ?? client.provider ?? name ?? null, model, own ?? null, options, messages])
    const kept = key && this.#kept.get(key)
    if (kept !== undefined) return kept
    const into = nothingYet()
    try {
      await collect(client, request, into, () => {})
    } catch (error) {
      // Some models have one temperature alone, and refuse any other.
      const { reason, message } = { ...modelFailureIn(error), message: String(error) }
      if (reason !== 'rejected' || options.temperature === undefined || !/temperature/i.test(message)) throw error
      const { temperature: _, ...rest } = request
      await collect(client, rest, into, () => {})
    } finally {
      this.used.set(model, addUsage(this.used.get(model) ?? NO_TOKENS, into.usage))
    }
    const answer = this.redacted(into.text)
    if (key && keepIf?.(answer)) this.#kept.add(key, answer)
    return answer
  }
}

/** Answers by the digest of what was asked: the prompts themselves are not in the file. */
class KeptAnswers {
  readonly #path: string
  #answers: Map<string, string> | undefined

  constructor(path: string) {
    this.#path = path
  }

  get(key: string): string | undefined {
    return this.#all.get(key)
  }

  add(key: string, answer: string): void {
    if (answer.length > LONGEST_KEPT) return
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
