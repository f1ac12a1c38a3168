/** A model that says what a test has written down: exact answers, and a loud failure for everything else. */
import { textOf } from '../../actors/definition/content.ts'
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { countPrompt, countTokens } from '../../actors/model/tokens.ts'
import { anyList, anyObject, oneOf, pause, rule, shape, text } from '../../shared/checks.ts'
import { systemClock } from '../../shared/clock.ts'
import { ConfigurationError, ModelError } from '../../shared/errors.ts'

/**
 * Reaction of a scripted model to a call: it answers, calls a tool, or fails. `agent`: only for calls of that agent.
 * `when`: only if the last message of the conversation contains that text, or matches. A `reply` that is no string is
 * answered as JSON. `delayMs` passes first, by the team's clock.
 */
export type Script =
  | { agent?: string; when?: RegExp | string; reply: string | object; delayMs?: number }
  | { agent?: string; when?: RegExp | string; toolCall: { name: string; input: object }; delayMs?: number }
  | { agent?: string; when?: RegExp | string; fail: 'rate_limit' | 'timeout' | 'server'; delayMs?: number }

/** A model that says what a test has written down. */
export interface ScriptedModel extends ModelClient {
  /** Every call until now: who asked, and the text of the last message. */
  readonly calls: { agent: string; prompt: string }[]
  /** Throws if part of the script was never asked for, or if something was asked that is not in it. */
  assertDone(): void
}

/**
 * A model for tests. Each entry of the script is used once; a call gets the first one left that is for its agent and
 * its message, so that agents which ask side by side do not take each other's answers. A call for which none is left
 * fails with `ModelError`, and so does `assertDone` afterwards, whatever became of that error.
 *
 * @example
 * const model = scriptedModel([
 *   { agent: 'critic', toolCall: { name: 'search', input: { query: 'graphql' } } },
 *   { agent: 'critic', reply: 'It is slower.' },
 *   { agent: 'judge', when: /slower/, reply: { winner: 'critic' } },
 * ])
 * const team = testTeam(options, { model })
 * await team.execute('REST or GraphQL?')
 * model.assertDone()
 *
 * @throws {ConfigurationError} for a wrong entry, and for one that says nothing to do, or more than one thing.
 */
export function scriptedModel(script: readonly Script[]): ScriptedModel {
  return new ScriptPlayer(script)
}

class ScriptPlayer implements ScriptedModel {
  readonly offline = true
  readonly calls: { agent: string; prompt: string }[] = []
  readonly #left: Map<number, Script>
  readonly #unexpected: string[] = []

  constructor(script: readonly Script[]) {
    anyList(script, 'script')
    this.#left = new Map(script.map((entry, i) => [i, checked(entry, i)]))
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { agent = '', messages, clock = systemClock, model, signal } = request
    const prompt = textOf(messages.at(-1)?.content ?? '')
    const number = this.calls.push({ agent, prompt })
    const entry = this.#take(agent, prompt)
    if (entry.delayMs !== undefined) await clock.sleep(entry.delayMs, signal)
    signal.throwIfAborted()
    if ('fail' in entry) throw failure(entry.fail, model)
    const inputTokens = countPrompt(request)
    if ('toolCall' in entry) {
      const { name } = entry.toolCall
      const input = JSON.stringify(entry.toolCall.input)
      yield { toolCall: { id: `call_${number}`, name, input } }
      const outputTokens = countTokens(name, model) + countTokens(input, model)
      yield { usage: usageOf(inputTokens, outputTokens), finishReason: 'tool_calls' }
      return
    }
    const text = typeof entry.reply === 'string' ? entry.reply : JSON.stringify(entry.reply)
    yield { text }
    yield { usage: usageOf(inputTokens, countTokens(text, model)), finishReason: 'stop' }
  }

  #take(agent: string, prompt: string): Script {
    for (const [i, entry] of this.#left) {
      if (entry.agent !== undefined && entry.agent !== agent) continue
      if (entry.when !== undefined && !matches(entry.when, prompt)) continue
      this.#left.delete(i)
      return entry
    }
    const asked = `${agent === '' ? 'nobody by name' : `"${agent}"`}, who asked ${quote(prompt)}`
    this.#unexpected.push(asked)
    throw new ModelError(
      `The script has no answer left for ${asked}. Left: ${this.#shownLeft() || 'nothing'}. Add an entry for it.`,
      { agent, retryable: false, final: true },
    )
  }

  #shownLeft(): string {
    return [...this.#left].map(([i, entry]) => `${i + 1}. ${shownEntry(entry)}`).join('; ')
  }

  assertDone(): void {
    const problems = []
    if (this.#unexpected.length > 0) problems.push(`it had no answer for ${this.#unexpected.join('; nor for ')}`)
    if (this.#left.size > 0) problems.push(`it was never asked for ${this.#shownLeft()}`)
    if (problems.length === 0) return
    const what = problems.join(', and ')
    throw new ModelError(`The script and what was asked differ: ${what}. Change the script or what your agents ask.`)
  }
}

const ACTIONS = ['reply', 'toolCall', 'fail'] as const

type Field = Script extends infer Each ? (Each extends Script ? keyof Each : never) : never
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

const checkEntry = shape<Record<Field, unknown>>({
  agent: text,
  when: rule('a text, or a regular expression', (value) => typeof value === 'string' || value instanceof RegExp),
  delayMs: pause,
  reply: rule('a text, or an object', (value) => typeof value === 'string' || isObject(value)),
  toolCall: shape<{ name: string; input: object }>({ name: text, input: anyObject }, 'name', 'input'),
  fail: oneOf('rate_limit', 'timeout', 'server'),
})

function checked(entry: Script, i: number): Script {
  checkEntry(entry, `script[${i}]`)
  const said = ACTIONS.filter((action) => Object.hasOwn(Object(entry), action))
  if (said.length === 1) return { ...entry }
  const got = said.length === 0 ? 'none of them' : said.join(' and ')
  const path = `script[${i}]`
  throw new ConfigurationError(`${path}: got ${got}; one of reply, toolCall, fail is needed.`, { path, got })
}

/** Uses `search`, which ignores `lastIndex`: a pattern with the flag g keeps it from call to call. */
const matches = (when: RegExp | string, prompt: string) =>
  typeof when === 'string' ? prompt.includes(when) : prompt.search(when) >= 0

const LONGEST_QUOTE = 80 // characters

function quote(text: string): string {
  return JSON.stringify(text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text)
}

function shownEntry(entry: Script): string {
  const { agent, when } = entry
  const from = agent === undefined ? '' : ` for "${agent}"`
  const on = when === undefined ? '' : ` when ${typeof when === 'string' ? quote(when) : when}`
  if ('toolCall' in entry) return `call of ${entry.toolCall.name}${from}${on}`
  if ('fail' in entry) return `failure ${entry.fail}${from}${on}`
  const { reply } = entry
  return `reply ${quote(typeof reply === 'string' ? reply : JSON.stringify(reply))}${from}${on}`
}

const FAILURES = {
  rate_limit: { what: 'is asked too often (429)', details: { status: 429, retryable: true, retryAfterMs: 1_000 } },
  timeout: { what: 'was silent for too long', details: { retryable: true } },
  server: { what: 'has a failure of its own (500)', details: { status: 500, retryable: true } },
} as const

/** Returns an error with the shape of a provider's failure, so that a test exercises the code that handles those. */
function failure(kind: keyof typeof FAILURES, model: string): ModelError {
  const { what, details } = FAILURES[kind]
  const provider = 'the script'
  const said = { provider, model, reason: kind, ...details }
  return new ModelError(`Model "${model}" of ${provider} ${what}. The script says so.`, said)
}

const usageOf = (inputTokens: number, outputTokens: number) => ({
  inputTokens,
  outputTokens,
  totalTokens: inputTokens + outputTokens,
  calls: 1,
})
