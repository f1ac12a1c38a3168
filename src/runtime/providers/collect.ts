/**
 * Joins the pieces of a client's answer. A client may be user code, so each piece is checked, and a wrong piece causes
 * a `ModelError`. The signal ends the wait, even if the client ignores it.
 */

import type { ContentPart, ProviderData, ReasoningPart, TextPart } from '../../actors/definition/content.ts'
import {
  addUsage,
  type FinishReason,
  type ModelClient,
  type ModelPiece,
  type ModelRequest,
  NO_TOKENS,
  type TokenUsage,
  type ToolCall,
} from '../../actors/definition/model.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { isObject } from '../../shared/checks.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { CancelledError, ModelError, type ModelFailureCode, shown } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { modelError } from './model-errors.ts'

type Said = TextPart | ReasoningPart
type SaidPart = Said & { block: string | undefined }

/** Parts that have been received. Usage counts even if the answer never comes. */
export interface Collected {
  text: string
  parts: SaidPart[]
  toolCalls: ToolCall[]
  usage: TokenUsage
  finishReason: FinishReason | undefined
  warnings: string[]
}

/** Part of an answer for those who read along. 'restart': what came before is void. */
export type Heard =
  | { part: 'text' | 'reasoning'; text: string }
  | { part: 'tool_input'; text: string; id: string; name: string }
  | { part: 'restart' }

const MOST_WARNINGS = 32
const LONGEST_WARNING = 500

/** Maximum characters of an answer, so that it fits into one frame. It stops a client that never ends. */
export const MOST_CHARACTERS = 2 ** 23

export const MOST_CALLS = 1_024

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>(['stop', 'length', 'tool_calls', 'content_filter'])

export const nothingYet = (): Collected => ({
  text: '',
  parts: [],
  toolCalls: [],
  usage: { ...NO_TOKENS },
  finishReason: undefined,
  warnings: [],
})

/** Changes the pieces of an answer before they are joined. */
export interface PieceFilter {
  take(piece: ModelPiece): Iterable<ModelPiece>
  end(): Iterable<ModelPiece>
}

/** Fills `into` with the answer; `hear` is given its text, reasoning and tool inputs piece by piece. */
export function collect(
  client: ModelClient,
  request: ModelRequest,
  into: Collected,
  hear: (heard: Heard) => void,
  filter?: PieceFilter,
): Promise<void> {
  const { signal } = request
  let leave = () => {}
  return new Promise<void>((resolve, reject) => {
    const abort = () => {
      leave()
      reject(new CancelledError('The call of the model was withdrawn.', { model: request.model }, signal.reason))
    }
    if (signal.aborted) return abort()
    const stop = onAbort(signal, abort)
    const read = async () => {
      const pieces = piecesOf(client, request)[Symbol.asyncIterator]()
      leave = () => void pieces.return?.().then(undefined, () => {}) // nobody needs its result
      let isOver = false
      try {
        const adding = new Adding(into, hear)
        for (;;) {
          const next = await pieces.next()
          if (signal.aborted) return
          if (next.done) break
          if (filter) for (const piece of filter.take(next.value)) adding.add(piece)
          else adding.add(next.value)
          if (adding.size > MOST_CHARACTERS) throw endless()
        }
        for (const piece of filter?.end() ?? []) adding.add(piece)
        isOver = true
      } finally {
        if (!isOver) leave()
      }
      if (into.text === '' && into.toolCalls.length === 0 && into.finishReason === undefined)
        throw wrong('no text, no call of a tool, and no reason why', 'no_parts')
    }
    read().finally(stop).then(resolve, reject)
  })
}

export function piecesOf(client: ModelClient, request: ModelRequest): AsyncIterable<ModelPiece> {
  const pieces: unknown = client.complete(request)
  const iterate: unknown = Object(pieces)[Symbol.asyncIterator]
  if (typeof iterate !== 'function') {
    if (pieces instanceof Promise) pieces.catch(() => {}) // nobody else hears what an async function has thrown
    throw wrong(`${shown(pieces)} in place of an async iterable`)
  }
  return pieces as AsyncIterable<ModelPiece>
}

class Adding {
  readonly #into: Collected
  readonly #hear: (heard: Heard) => void
  /** Parts by the name of their block: an answer may have one for each word. */
  #blocks = blocksYet()
  #inParts = new Set<string>()
  #said = 0
  #inputs = 0

  constructor(into: Collected, hear: (heard: Heard) => void) {
    this.#into = into
    this.#hear = hear
  }

  /** Number of characters of the answer. The parts of inputs come a second time, as complete calls. */
  get size(): number {
    return Math.max(this.#said, this.#inputs)
  }

  add(piece: unknown): void {
    if (typeof piece !== 'object' || piece === null) throw wrong(`${shown(piece)} in place of a piece`)
    const into = this.#into
    const { text, reasoning, toolInput, toolCall, usage, finishReason, warning, restart } = piece as Given
    if (usage !== undefined) into.usage = addUsage(into.usage, usageOf(usage)) // first: it was paid, also in a wrong piece
    if (restart === true) this.#restart()
    if (text !== undefined) {
      if (typeof text !== 'string') throw wrong(`${shown(text)} in place of text`)
      into.text += text
      this.#say('text', text, piece)
    }
    if (reasoning !== undefined) {
      if (typeof reasoning !== 'string') throw wrong(`${shown(reasoning)} in place of reasoning`)
      this.#say('reasoning', reasoning, piece)
    }
    if (toolInput !== undefined) this.#toolInput(toolInput)
    if (toolCall !== undefined) this.#toolCall(toolCallOf(toolCall))
    if (finishReason !== undefined) {
      if (!FINISH_REASONS.has(finishReason))
        throw wrong(`the unknown finish reason ${shown(finishReason)}`, 'unknown_end')
      into.finishReason = finishReason as FinishReason
    }
    if (warning !== undefined) {
      if (typeof warning !== 'string') throw wrong(`${shown(warning)} in place of a warning`)
      if (into.warnings.length < MOST_WARNINGS) into.warnings.push(warning.slice(0, LONGEST_WARNING))
    }
  }

  #say(part: Said['type'], text: string, piece: ModelPiece): void {
    this.#said += text.length
    this.#addTo(part, text, piece)
    if (text !== '') this.#hear({ part, text })
  }

  #addTo(type: Said['type'], text: string, { block, providerData }: ModelPiece): void {
    if (block !== undefined && typeof block !== 'string') throw wrong(`${shown(block)} in place of the name of a block`)
    const data = providerDataOf(providerData)
    const { parts } = this.#into
    const last = parts.at(-1)
    const unnamed = last?.type === type ? last : undefined
    const found = block === undefined ? unnamed : this.#blocks[type].get(block)
    if (!found && text === '' && !data) return
    const part: SaidPart = found ?? { type, text: '', block }
    part.text += text
    if (data) part.providerData = data
    if (found) return
    parts.push(part)
    if (block !== undefined) this.#blocks[type].set(block, part)
  }

  #toolInput(given: unknown): void {
    const { id, name, text } = Object(given) as Partial<Record<'id' | 'name' | 'text', unknown>>
    if (typeof id !== 'string' || typeof name !== 'string' || typeof text !== 'string')
      throw wrong('a part of the input of a tool without an id, a name or a text', 'half_part')
    this.#inputs += text.length
    this.#inParts.add(id)
    if (text !== '') this.#hear({ part: 'tool_input', text, id, name })
  }

  /** A client may give the input of a call as a whole. Those who read along get it all the same. */
  #toolCall(call: ToolCall): void {
    const { toolCalls } = this.#into
    if (toolCalls.length === MOST_CALLS)
      throw wrong(`an answer with more than ${MOST_CALLS} calls of tools`, 'too_many_calls')
    const { name, input } = call
    const id = freeId(call.id, toolCalls)
    this.#said += input.length
    toolCalls.push({ ...call, id })
    if (!this.#inParts.has(id) && input !== '') this.#hear({ part: 'tool_input', text: input, id, name })
  }

  #restart(): void {
    Object.assign(this.#into, { ...nothingYet(), usage: this.#into.usage })
    this.#blocks = blocksYet()
    this.#inParts = new Set()
    this.#said = 0
    this.#inputs = 0
    this.#hear({ part: 'restart' })
  }
}

type Given = Partial<Record<keyof ModelPiece, unknown>>

const blocksYet = () => ({ text: new Map<string, SaidPart>(), reasoning: new Map<string, SaidPart>() })

/** Returns checked data of a provider. It comes from a client, and has to be JSON: it goes through threads and logs. */
function providerDataOf(data: unknown): ProviderData | undefined {
  if (data === undefined) return undefined
  const isData = typeof data === 'object' && data !== null && Object.values(data).every(isObject)
  if (isData && jsonIssue(data) === undefined) return data as ProviderData
  throw wrong('provider data that is no JSON by the name of a provider')
}

/** Returns the parts of an answer; undefined for a plain text. */
export function partsOfAnswer({ parts }: Pick<Collected, 'parts'>): ContentPart[] | undefined {
  if (parts.every(({ type, providerData }) => type === 'text' && !providerData)) return undefined
  return parts.map(({ block: _, ...part }) => part)
}

function toolCallOf(call: unknown): ToolCall {
  const { id, name, input, providerData } = Object(call) as Partial<Record<keyof ToolCall, unknown>>
  const data = providerDataOf(providerData)
  if (typeof id === 'string' && typeof name === 'string' && name !== '' && typeof input === 'string')
    return { id, name, input, ...(data && { providerData: data }) }
  throw wrong('a call of a tool without an id, a name or an input', 'half_part')
}

/** Returns an id that no other call of the answer has: results of tools find their calls by it. */
function freeId(id: string, calls: readonly ToolCall[]): string {
  let free = id
  while (calls.some((call) => call.id === free)) free = `${free}-${calls.length + 1}`
  return free
}

function usageOf(usage: unknown): TokenUsage {
  const given = Object(usage) as Partial<Record<keyof TokenUsage, unknown>>
  const { inputTokens, outputTokens, totalTokens, cachedTokens = 0, reasoningTokens = 0, calls } = given
  const counts = [inputTokens, outputTokens, totalTokens, cachedTokens, reasoningTokens, calls]
  if (counts.every((count) => typeof count === 'number' && Number.isFinite(count) && count >= 0))
    return usage as TokenUsage
  throw wrong('a usage that has no counts')
}

export const endless = () => wrong(`an answer of more than ${MOST_CHARACTERS} characters`, 'too_large')

const wrong = (what: string, code: ModelFailureCode = 'foreign_part') =>
  new ModelError(`The model's client gave ${what}.`, { reason: 'invalid_answer', code })

/*
 * Ends a call whose model is silent for longer than its list of models waits (`models.<name>.silenceMs`).
 */

interface Silence {
  readonly clock: Scheduler
  readonly provider: string
}

/**
 * Yields the pieces of an answer; rejects if none comes for `request.silenceMs`, also if the client ignores its signal.
 * Behind words that their reader cannot take back there is no limit, since no other model may answer then.
 */
export async function* heardPieces(
  client: ModelClient,
  request: ModelRequest,
  { clock, provider }: Silence,
): AsyncGenerator<ModelPiece> {
  const { silenceMs, model, signal, stream, restarts } = request
  if (silenceMs === undefined) return yield* piecesOf(client, request)
  const ending = new AbortController()
  const detach = onAbort(signal, () => ending.abort(signal.reason))
  const pieces = piecesOf(client, { ...request, signal: ending.signal })[Symbol.asyncIterator]()
  const inTime = () =>
    new Promise<IteratorResult<ModelPiece>>((resolve, reject) => {
      const late = () => {
        const what = `has sent nothing for ${silenceMs} ms`
        const advice = 'Look at the provider, or raise silenceMs of the list for a model that thinks for longer.'
        const error = modelError({ provider, model }, what, advice, { reason: 'timeout', retryable: false })
        reject(error)
        ending.abort(error)
      }
      const timer = clock.timer(silenceMs, late, true)
      void pieces
        .next()
        .then(resolve, reject)
        .finally(() => timer.cancel())
    })
  let [isOver, isFinal] = [false, false]
  try {
    for (;;) {
      const next = await (isFinal ? pieces.next() : inTime())
      isOver = next.done === true
      if (next.done) return
      isFinal ||= stream === true && restarts !== true && Object(next.value).text !== undefined
      yield next.value
    }
  } finally {
    detach()
    if (!isOver) void pieces.return?.().then(undefined, () => {}) // a silent client may never come back
  }
}
