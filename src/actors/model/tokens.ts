/**
 * Counts the tokens of a text by OpenAI's own vocabularies. A vocabulary takes 20 MB of heap and a tenth of a second to
 * load. So the first count loads it, and a context that cannot reach its bound is not counted at all (`mostTokens`). It
 * is loaded by `require`, so a count does not wait: under a virtual clock nothing may take the machine's own time.
 */
import { fileURLToPath } from 'node:url'
import { referenceIn } from '../../mailbox/stored-parts.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { ownFile, ownRequire } from '../../shared/environment.ts'
import type { Content, MediaPart } from '../definition/content.ts'
import type { ModelMessage, ModelRequest, ToolSpec } from '../definition/model.ts'
import { offeredIn } from './answer-function.ts'

type Encoding = 'o200k_base' | 'cl100k_base'
type Tokenizer = Pick<typeof import('gpt-tokenizer/encoding/o200k_base'), 'countTokens' | 'setMergeCacheSize'>

const tokenizers = new Map<Encoding, Tokenizer>()

const AS_TEXT = { disallowedSpecial: new Set<string>() } // '<|endoftext|>' in a prompt is ordinary text

/** Matches GPT-4 before 4o, and 3.5; also `ft:gpt-4-...` and `openai/gpt-4`. */
const OF_CL100K = /(^|[/:])(gpt-4(-(?!4o)|$)|gpt-3\.5|gpt-35|text-embedding-)/

/**
 * Returns the vocabulary that a model counts by: `cl100k_base` for GPT-4 before 4o, GPT-3.5 and the embeddings,
 * `o200k_base` for OpenAI's later models and for all models of other vendors. Counts of other vendors differ from it,
 * mostly by less than a fifth; the `usage` of their answers has what they charge. Source: the model table of
 * openai/tiktoken.
 */
export function encodingOf(model = ''): Encoding {
  return OF_CL100K.test(model) ? 'cl100k_base' : 'o200k_base'
}

const LONGEST_EXACT = 2 ** 18 // characters; less than a second for the worst text
const SAMPLES = 64
const SAMPLE_LENGTH = LONGEST_EXACT / SAMPLES

/**
 * Returns the number of tokens of a text.
 *
 * Up to 262,144 characters are counted. Of a longer text, samples of 4,096 characters at 64 places are counted, and the
 * count is extrapolated. A run of more than 128 letters, or of spaces and signs, is cut at each 128th, because the time
 * for the merges of a run grows with the square of its length. Each cut can count one token too many.
 */
export function countTokens(text: string, model?: string): number {
  const known = counted.get(text, model)
  if (known !== undefined) return known
  const count = text.length > LONGEST_EXACT ? sampled(text, model) : exactly(text, model)
  counted.set(text, model, count)
  return count
}

function sampled(text: string, model?: string): number {
  const gap = (text.length - SAMPLE_LENGTH) / (SAMPLES - 1)
  let count = 0
  for (let i = 0; i < SAMPLES; i++) {
    const from = Math.floor(i * gap)
    count += exactly(text.slice(from, from + SAMPLE_LENGTH), model)
  }
  return Math.ceil((count * text.length) / LONGEST_EXACT)
}

const LONGEST_RUN = 128

function exactly(text: string, model?: string): number {
  const tokenizer = tokenizerOf(encodingOf(model))
  let count = 0
  let from = 0
  const runs = /[\p{L}\p{M}]+|[^\p{L}\p{M}\p{N}]+/gu // spaces and signs can form one run
  for (const { 0: run, index } of text.matchAll(runs)) {
    if (run.length <= LONGEST_RUN) continue
    count += tokenizer.countTokens(text.slice(from, index), AS_TEXT)
    from = index
    for (; index + run.length - from > LONGEST_RUN; from += LONGEST_RUN)
      count += tokenizer.countTokens(text.slice(from, from + LONGEST_RUN), AS_TEXT)
  }
  return count + tokenizer.countTokens(text.slice(from), AS_TEXT)
}

/**
 * Loads what the counts by that model need, in two turns of the loop: an event loop that serves others must not stand
 * still for all of it. A virtual clock has no such others, and is not to see whether an earlier test has counted.
 */
export async function loadVocabulary(model: string, clock: Scheduler): Promise<void> {
  const encoding = encodingOf(model)
  if (tokenizers.has(encoding) || clock.virtual) return
  loaded(encoding, 'ranks.json')
  await new Promise<void>((resolve) => clock.defer(resolve))
  tokenizerOf(encoding)
}

const loaded = (encoding: Encoding, part: string) =>
  ownRequire()(fileURLToPath(ownFile(`actors/model/${encoding}.${part}`)))

function tokenizerOf(encoding: Encoding): Tokenizer {
  const known = tokenizers.get(encoding)
  if (known) return known
  const tokenizer: Tokenizer = loaded(encoding, 'bundle.cjs')
  tokenizer.setMergeCacheSize(0) // its cache is slower than the merges once it is full, and takes seconds for some texts
  tokenizers.set(encoding, tokenizer)
  return tokenizer
}

/**
 * Returns an upper bound of the tokens at no cost: each token has at least one byte of UTF-8. A text that is within a
 * limit by this bound need not be counted.
 */
export function mostTokens(text: string): number {
  return Buffer.byteLength(text)
}

// Tokens that a chat adds to its texts. Source: OpenAI's cookbook, "How to count tokens with tiktoken", for gpt-3.5 to
// gpt-4o.
const OF_A_MESSAGE = 3
const OF_THE_ANSWER = 3 // each answer is primed with <|start|>assistant<|message|>
const OF_A_TOOL = 10 // the largest number that it gives for a tool, as for gpt-4
const OF_ALL_TOOLS = 12

/**
 * Tokens of an image, and bytes of a sound or a file for one token, as estimates: a provider counts pixels, seconds or
 * pages, which nobody here knows. Its usage tells what was really paid. Sources: Anthropic's documentation of vision
 * (1,600 for the largest image that is not scaled down); OpenAI's of audio (10 a second).
 */
const OF_AN_IMAGE = 1_600
const BYTES_OF_A_TOKEN = { audio: 512, file: 32 } as const

function countMedia(part: MediaPart): number {
  const { type } = part
  if (type === 'image') return OF_AN_IMAGE
  const bytes = referenceIn(part)?.bytes ?? (part.data.length * 3) / 4
  return Math.ceil(bytes / BYTES_OF_A_TOKEN[type])
}

function countContent(content: Content, model?: string): number {
  if (typeof content === 'string') return countTokens(content, model)
  return sum(content.map((part) => ('text' in part ? countTokens(part.text, model) : countMedia(part))))
}

/** Returns an upper bound of the tokens of a content, at no cost. */
function mostOfContent(content: Content): number {
  if (typeof content === 'string') return mostTokens(content)
  return sum(content.map((part) => ('text' in part ? mostTokens(part.text) : countMedia(part))))
}

const MOST_OF_A_MESSAGE = 16 // more than any chat adds to a message or a tool call

/** Returns an upper bound of the tokens of messages, without a vocabulary. */
export function mostOfMessages(messages: readonly ModelMessage[]): number {
  let most = MOST_OF_A_MESSAGE
  for (const { content, toolCalls = [] } of messages) {
    most += MOST_OF_A_MESSAGE + mostOfContent(content)
    for (const { name, input } of toolCalls) most += MOST_OF_A_MESSAGE + mostTokens(name) + mostTokens(input)
  }
  return most
}

/** Counts one message of a chat: its role, its text, its tool calls, and the tokens around them. */
export function countMessage(message: ModelMessage, model?: string): number {
  const calls = message.toolCalls ?? []
  const ofCalls = calls.map(({ name, input }) => OF_A_MESSAGE + countTokens(name, model) + countTokens(input, model))
  return sum([OF_A_MESSAGE, countTokens(message.role, model), countContent(message.content, model), ...ofCalls])
}

/** Counts the messages of a chat, and the three tokens that begin the answer. */
export function countMessages(messages: readonly ModelMessage[], model?: string): number {
  return OF_THE_ANSWER + sum(messages.map((message) => countOnce(message, model)))
}

/** Counts of messages that cannot change: a conversation is counted again with each new one. */
const ofMessages = { o200k_base: new WeakMap<ModelMessage, number>(), cl100k_base: new WeakMap<ModelMessage, number>() }

function countOnce(message: ModelMessage, model?: string): number {
  if (!isFixed(message)) return countMessage(message, model)
  const counts = ofMessages[encodingOf(model)]
  const count = counts.get(message) ?? countMessage(message, model)
  counts.set(message, count)
  return count
}

/** Checks for a message without parts of its own that could change. */
const isFixed = (message: ModelMessage): boolean =>
  Object.isFrozen(message) && typeof message.content === 'string' && !message.toolCalls

/**
 * Counts the tokens that tools add to a prompt. The count is an upper estimate: providers write schemas shorter than
 * JSON, each in its own way.
 */
export function countTools(tools: readonly ToolSpec[], model?: string): number {
  if (tools.length === 0) return 0
  const each = tools.map(
    ({ name, description, inputSchema }) =>
      OF_A_TOOL + countTokens(`${name}:${description}`, model) + countSchema(inputSchema, model),
  )
  return OF_ALL_TOOLS + sum(each)
}

/** Counts a JSON schema in a prompt: an upper estimate, as for tools. */
function countSchema(schema: object, model?: string): number {
  return countTokens(JSON.stringify(schema), model)
}

interface Prompt extends Pick<ModelRequest, 'jsonSchema' | 'answerFunction'> {
  readonly messages: readonly ModelMessage[]
  readonly tools?: readonly ToolSpec[]
  /** Model whose vocabulary is used. */
  readonly model?: string
}

/** Counts everything that a request puts into its prompt. */
export function countPrompt(prompt: Prompt): number {
  const { messages, model } = prompt
  const { tools, jsonSchema } = offeredIn(prompt)
  const ofSchema = jsonSchema === undefined ? 0 : countSchema(jsonSchema, model)
  return countMessages(messages, model) + countTools(tools, model) + ofSchema
}

/** Returns an upper bound of `countPrompt`, without a vocabulary. */
export function mostOfPrompt(prompt: Prompt): number {
  const { tools, jsonSchema } = offeredIn(prompt)
  const ofTools = OF_ALL_TOOLS + OF_A_TOOL * tools.length + mostTokens(JSON.stringify([tools, jsonSchema]))
  return mostOfMessages(prompt.messages) + ofTools
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0)
}

/**
 * Remembers the counts of long texts, since a conversation is counted again with each new message. The oldest go first.
 */
class Counted {
  readonly #counts = new Map<string, Map<Encoding, number>>()
  #characters = 0

  get(text: string, model?: string): number | undefined {
    return text.length < SHORTEST_KEPT ? undefined : this.#counts.get(text)?.get(encodingOf(model))
  }

  set(text: string, model: string | undefined, count: number): void {
    if (text.length < SHORTEST_KEPT || text.length > MOST_KEPT) return
    const counts = this.#counts.get(text)
    if (counts) return void counts.set(encodingOf(model), count)
    this.#counts.set(text, new Map([[encodingOf(model), count]]))
    this.#characters += text.length
    for (const oldest of this.#counts.keys()) {
      if (this.#characters <= MOST_KEPT) break
      this.#counts.delete(oldest)
      this.#characters -= oldest.length
    }
  }
}

const SHORTEST_KEPT = 512
const MOST_KEPT = 2 ** 22 // characters
const counted = new Counted()
