/**
 * How many tokens a text has, by OpenAI's own vocabularies. A vocabulary is 20 MB of heap and a fifth of a second to load: it is
 * loaded by the first count, and a context that cannot reach its bound is not counted at all (`mostTokens`). It is
 * loaded by `require`, so that a count is no wait: under a virtual clock nothing may take the machine's own time.
 */
import { ownRequire } from '../../../own-files.ts'
import type { ModelMessage, ModelRequest, ToolSpec } from '../../definition/model.ts'
import { offeredIn } from '../answer-function.ts'

type Encoding = 'o200k_base' | 'cl100k_base'
type Tokenizer = Pick<typeof import('gpt-tokenizer/encoding/o200k_base'), 'countTokens' | 'setMergeCacheSize'>

const tokenizers = new Map<Encoding, Tokenizer>()

const AS_TEXT = { disallowedSpecial: new Set<string>() } // '<|endoftext|>' in a prompt is text like any other

/** GPT-4 as it was before 4o, and 3.5; `ft:gpt-4-...` and `openai/gpt-4` too. */
const OF_CL100K = /(^|[/:])(gpt-4(-(?!4o)|$)|gpt-3\.5|gpt-35|text-embedding-)/

/**
 * The vocabulary that a model counts by: `cl100k_base` for GPT-4 before 4o, GPT-3.5 and the embeddings, `o200k_base` for
 * OpenAI's later models and for every model that is not OpenAI's. Other vendors' counts differ from it, mostly by less than
 * a fifth; what they charge is in the `usage` of their answers. Source: the model table of openai/tiktoken.
 */
export function encodingOf(model = ''): Encoding {
  return OF_CL100K.test(model) ? 'cl100k_base' : 'o200k_base'
}

const LONGEST_EXACT = 2 ** 18 // characters; less than a second of the worst text
const SAMPLES = 64
const SAMPLE_LENGTH = LONGEST_EXACT / SAMPLES

/**
 * The tokens of a text. Up to 262,144 characters are counted; of a longer one a 64th part of that in each of 64 places, and the rest is
 * taken to be like them. A run of more than 128 letters, or of spaces and signs, is cut at each 128th, which can
 * count one token more for each cut: the merges of a run take time that grows with its square.
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
const RUNS = /[\p{L}\p{M}]+|[^\p{L}\p{M}\p{N}]+/gu // spaces and signs can stand in one piece

function exactly(text: string, model?: string): number {
  const tokenizer = tokenizerOf(encodingOf(model))
  let count = 0
  let from = 0
  for (const { 0: run, index } of text.matchAll(RUNS)) {
    if (run.length <= LONGEST_RUN) continue
    count += tokenizer.countTokens(text.slice(from, index), AS_TEXT)
    from = index
    for (; index + run.length - from > LONGEST_RUN; from += LONGEST_RUN)
      count += tokenizer.countTokens(text.slice(from, from + LONGEST_RUN), AS_TEXT)
  }
  return count + tokenizer.countTokens(text.slice(from), AS_TEXT)
}

function tokenizerOf(encoding: Encoding): Tokenizer {
  const loaded = tokenizers.get(encoding)
  if (loaded) return loaded
  const load = ownRequire()
  const tokenizer: Tokenizer =
    encoding === 'o200k_base' ? load('gpt-tokenizer/encoding/o200k_base') : load('gpt-tokenizer/encoding/cl100k_base')
  tokenizer.setMergeCacheSize(0) // its cache is slower than the merges once it is full, and takes seconds for some texts
  tokenizers.set(encoding, tokenizer)
  return tokenizer
}

/** A bound that costs nothing: no token is less than a byte of UTF-8. What is within a limit by it need not be counted. */
export function mostTokens(text: string): number {
  return Buffer.byteLength(text)
}

// What a chat adds to its texts. Source: OpenAI's cookbook, "How to count tokens with tiktoken", for gpt-3.5 to gpt-4o.
const OF_A_MESSAGE = 3
const OF_THE_ANSWER = 3 // each answer is primed with <|start|>assistant<|message|>
const OF_A_TOOL = 10 // the most that it says of one, as for gpt-4
const OF_ALL_TOOLS = 12

/** One message of a chat: its role, its text, the calls of tools in it, and what stands around them. */
export function countMessage(message: ModelMessage, model?: string): number {
  const calls = message.toolCalls ?? []
  const ofCalls = calls.map(({ name, input }) => OF_A_MESSAGE + countTokens(name, model) + countTokens(input, model))
  return sum([OF_A_MESSAGE, countTokens(message.role, model), countTokens(message.content, model), ...ofCalls])
}

/** The messages of a chat, and the three tokens that begin the answer. */
export function countMessages(messages: readonly ModelMessage[], model?: string): number {
  return OF_THE_ANSWER + sum(messages.map((message) => countMessage(message, model)))
}

/** What tools add to a prompt. Providers write schemas shorter than JSON is, each in its own way, so it is an estimate from above. */
export function countTools(tools: readonly ToolSpec[], model?: string): number {
  if (tools.length === 0) return 0
  const each = tools.map(
    ({ name, description, inputSchema }) =>
      OF_A_TOOL + countTokens(`${name}:${description}`, model) + countSchema(inputSchema, model),
  )
  return OF_ALL_TOOLS + sum(each)
}

/** A JSON schema in a prompt: an estimate from above, as for tools. */
function countSchema(schema: object, model?: string): number {
  return countTokens(JSON.stringify(schema), model)
}

/** What is in a prompt. */
interface Prompt extends Pick<ModelRequest, 'jsonSchema' | 'answerFunction'> {
  readonly messages: readonly ModelMessage[]
  readonly tools?: readonly ToolSpec[]
  /** Whose vocabulary counts. */
  readonly model?: string
}

/** All that a request puts into its prompt. */
export function countPrompt(prompt: Prompt): number {
  const { messages, model } = prompt
  const { tools, jsonSchema } = offeredIn(prompt)
  const ofSchema = jsonSchema === undefined ? 0 : countSchema(jsonSchema, model)
  return countMessages(messages, model) + countTools(tools, model) + ofSchema
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0)
}

/** A conversation is counted again with each of its messages, so that long texts are worth remembering; the oldest go first. */
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
