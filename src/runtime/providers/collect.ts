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
import { CancelledError, ModelError, shown } from '../../errors.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { onAbort } from '../../on-abort.ts'

type Said = TextPart | ReasoningPart

/** Parts that have been received. Usage counts even if the answer never comes. */
export interface Collected {
  text: string
  /** Text and reasoning in the order of their blocks. */
  parts: (Said & { block: string | undefined })[]
  toolCalls: ToolCall[]
  usage: TokenUsage
  finishReason: FinishReason | undefined
}

/** Maximum characters of an answer, so that it fits into one frame. It stops a client that never ends. */
export const MOST_CHARACTERS = 2 ** 23

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>(['stop', 'length', 'tool_calls', 'content_filter'])

export const nothingYet = (): Collected => ({
  text: '',
  parts: [],
  toolCalls: [],
  usage: { ...NO_TOKENS },
  finishReason: undefined,
})

/** Fills `into` with the answer; `onText` is given its text piece by piece. */
export function collect(
  client: ModelClient,
  request: ModelRequest,
  into: Collected,
  onText: (text: string) => void,
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
        let size = 0
        for (;;) {
          const next = await pieces.next()
          if (signal.aborted) return
          if (next.done) break
          size += add(into, next.value, onText)
          if (size > MOST_CHARACTERS) throw endless()
        }
        isOver = true
      } finally {
        if (!isOver) leave()
      }
      if (into.text === '' && into.toolCalls.length === 0 && into.finishReason === undefined)
        throw wrong('no text, no call of a tool, and no reason why')
    }
    read().finally(stop).then(resolve, reject)
  })
}

/** Calls the client. Throws `ModelError` if the result is not async iterable. */
export function piecesOf(client: ModelClient, request: ModelRequest): AsyncIterable<ModelPiece> {
  const pieces: unknown = client.complete(request)
  const iterate: unknown = Object(pieces)[Symbol.asyncIterator]
  if (typeof iterate !== 'function') throw wrong(`${shown(pieces)} in place of an async iterable`)
  return pieces as AsyncIterable<ModelPiece>
}

/** Adds a piece to the answer, and returns the number of its characters. */
function add(into: Collected, piece: unknown, onText: (text: string) => void): number {
  if (typeof piece !== 'object' || piece === null) throw wrong(`${shown(piece)} in place of a piece`)
  const { text, reasoning, toolCall, usage, finishReason } = piece as Partial<Record<keyof ModelPiece, unknown>>
  let size = 0
  if (usage !== undefined) into.usage = addUsage(into.usage, usageOf(usage)) // first: it was paid, also in a wrong piece
  if (text !== undefined) {
    if (typeof text !== 'string') throw wrong(`${shown(text)} in place of text`)
    into.text += text
    size += text.length
    addTo(into, 'text', text, piece)
    if (text !== '') onText(text)
  }
  if (reasoning !== undefined) {
    if (typeof reasoning !== 'string') throw wrong(`${shown(reasoning)} in place of reasoning`)
    size += reasoning.length
    addTo(into, 'reasoning', reasoning, piece)
  }
  if (toolCall !== undefined) {
    const call = toolCallOf(toolCall)
    into.toolCalls.push(call)
    size += call.input.length
  }
  if (finishReason !== undefined) {
    if (!FINISH_REASONS.has(finishReason)) throw wrong(`the unknown finish reason ${shown(finishReason)}`)
    into.finishReason = finishReason as FinishReason
  }
  return size
}

/** Adds text or reasoning to its block, or begins one. */
function addTo({ parts }: Collected, type: Said['type'], text: string, { block, providerData }: ModelPiece): void {
  if (block !== undefined && typeof block !== 'string') throw wrong(`${shown(block)} in place of the name of a block`)
  const data = providerDataOf(providerData)
  const last = parts.at(-1)
  const found =
    block === undefined
      ? last?.type === type
        ? last
        : undefined
      : parts.find((part) => part.type === type && part.block === block)
  if (!found && text === '' && !data) return
  const part: Collected['parts'][number] = found ?? { type, text: '', block }
  part.text += text
  if (data) part.providerData = data
  if (!found) parts.push(part)
}

/** Returns checked data of a provider. It comes from a client, and has to be JSON: it goes through threads and logs. */
function providerDataOf(data: unknown): ProviderData | undefined {
  if (data === undefined) return undefined
  const isData = typeof data === 'object' && data !== null && Object.values(data).every(isPlainObject)
  if (isData && jsonIssue(data) === undefined) return data as ProviderData
  throw wrong('provider data that is no JSON by the name of a provider')
}

const isPlainObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns the parts of an answer that has more than text: with reasoning, or with data of its provider. Undefined for a
 * plain text.
 */
export function partsOfAnswer({ parts }: Pick<Collected, 'parts'>): ContentPart[] | undefined {
  if (parts.every(({ type, providerData }) => type === 'text' && !providerData)) return undefined
  return parts.map(({ block: _, ...part }) => part)
}

function toolCallOf(call: unknown): ToolCall {
  const { id, name, input, providerData } = Object(call) as Partial<Record<keyof ToolCall, unknown>>
  const data = providerDataOf(providerData)
  if (typeof id === 'string' && typeof name === 'string' && name !== '' && typeof input === 'string')
    return { id, name, input, ...(data && { providerData: data }) }
  throw wrong('a call of a tool without an id, a name or an input')
}

function usageOf(usage: unknown): TokenUsage {
  const given = Object(usage) as Partial<Record<keyof TokenUsage, unknown>>
  const { inputTokens, outputTokens, totalTokens, cachedTokens = 0, reasoningTokens = 0, calls } = given
  const counts = [inputTokens, outputTokens, totalTokens, cachedTokens, reasoningTokens, calls]
  if (counts.every((count) => typeof count === 'number' && Number.isFinite(count) && count >= 0))
    return usage as TokenUsage
  throw wrong('a usage that has no counts')
}

export const endless = () => wrong(`an answer of more than ${MOST_CHARACTERS} characters`)

const wrong = (what: string) => new ModelError(`The model's client gave ${what}.`, { reason: 'invalid_answer' })
