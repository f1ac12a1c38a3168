/**
 * Options of a model call that the team's models, a role and a single call can set. The call's value takes precedence
 * over the role's, and the role's over that of the model. Each option has one check, which all three places use.
 */
import { jsonIssue } from '../../mailbox/message.ts'

/** How a model may use the tools that it is offered. `tool`: it has to call the tool of that name. */
export type ToolChoice = 'auto' | 'none' | 'required' | { tool: string }

/**
 * Options of a model call. A provider without an option ignores it or refuses the call; the error says what the
 * provider said.
 */
export interface ModelOptions {
  /** Sampling temperature, from 0 to 2. Default: the provider's own. */
  temperature?: number
  /** Share of the probability mass that sampling considers, above 0 and at most 1. Default: the provider's own. */
  topP?: number
  /** Texts at which the answer ends; up to 16. They are no part of the answer. */
  stop?: string[]
  /** Seed of the sampling, for providers that have one: the same request is then likely to get the same answer. */
  seed?: number
  /**
   * Effort of a reasoning model: 'none', 'minimal', 'low', 'medium', 'high', or another word that the provider has.
   * Default: the provider's own.
   */
  reasoningEffort?: string
  /**
   * 'auto' (the default), 'none', 'required', or one tool by its name. In a loop of model and tools a choice that
   * demands a call holds until the model has called a tool; afterwards it is 'auto', so that the loop can end.
   */
  toolChoice?: ToolChoice
  /** Says whether the model may ask for several tool calls in one answer. Default: the provider's own. */
  parallelToolCalls?: boolean
  /**
   * Has the provider keep to the schemas of tools and of the answer exactly. Such schemas must require each property.
   * Default: the provider's own.
   */
  strict?: boolean
  /**
   * Marks the system prompt and the conversation so far for the provider's cache, where a provider wants marks:
   * Anthropic's and Bedrock's models of `fromAiSdk`. Others cache by themselves, and ignore it. Default: false.
   */
  promptCaching?: boolean
  /** HTTP headers of the request. A header with a secret belongs to the team's `models`, which no agent sees. */
  headers?: Record<string, string>
  /** Fields that are added to the body of the request, for providers that have more than the API which they speak. */
  extraBody?: Record<string, unknown>
  /** Options by the name of a provider, for a client of your own: it finds them in its request, as they are. */
  providerOptions?: Record<string, Record<string, unknown>>
  /** Limit of this answer, in tokens. Default: the provider's own. */
  maxOutputTokens?: number
}

interface OptionCheck {
  /** Values that it accepts, as an error says it. */
  readonly accepted: string
  accepts(value: unknown): boolean
}

const MOST_STOPS = 16
const LARGEST = 2 ** 31 - 1
/** Header names of HTTP. Source: RFC 9110, section 5.6.2 (token). */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Values that HTTP cannot carry. Source: RFC 9110, section 5.5. */
const NO_HEADER_VALUE = /[^\t\x20-\x7e\x80-\xff]/

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isJsonObject = (value: unknown) => isPlain(value) && jsonIssue(value) === undefined

const isNumber = (value: unknown, least: number, most: number) =>
  typeof value === 'number' && value >= least && value <= most

const flag: OptionCheck = { accepted: 'true or false', accepts: (value) => typeof value === 'boolean' }

function isToolChoice(value: unknown): boolean {
  if (value === 'auto' || value === 'none' || value === 'required') return true
  return isPlain(value) && Object.keys(value).length === 1 && typeof value.tool === 'string' && value.tool !== ''
}

const isHeaders = (value: unknown) =>
  isPlain(value) &&
  Object.entries(value).every(
    ([name, text]) => HEADER_NAME.test(name) && typeof text === 'string' && !NO_HEADER_VALUE.test(text),
  )

/** The check of each option. */
export const MODEL_OPTIONS: { readonly [Key in keyof Required<ModelOptions>]: OptionCheck } = {
  temperature: { accepted: 'a number from 0 to 2', accepts: (value) => isNumber(value, 0, 2) },
  topP: {
    accepted: 'a number above 0, at most 1',
    accepts: (value) => isNumber(value, 0, 1) && value !== 0,
  },
  stop: {
    accepted: `a list of 1 to ${MOST_STOPS} texts that are not empty`,
    accepts: (value) =>
      Array.isArray(value) &&
      value.length > 0 &&
      value.length <= MOST_STOPS &&
      value.every((text) => typeof text === 'string' && text !== ''),
  },
  seed: { accepted: 'a safe integer', accepts: (value) => Number.isSafeInteger(value) },
  reasoningEffort: {
    accepted: "'none', 'minimal', 'low', 'medium', 'high', or another word of the provider",
    accepts: (value) => typeof value === 'string' && /^[\w-]{1,32}$/.test(value),
  },
  toolChoice: { accepted: "'auto', 'none', 'required', or { tool: name }", accepts: isToolChoice },
  parallelToolCalls: flag,
  strict: flag,
  promptCaching: flag,
  headers: { accepted: 'an object of HTTP headers: a text for each name', accepts: isHeaders },
  extraBody: { accepted: 'an object of JSON values', accepts: isJsonObject },
  providerOptions: {
    accepted: "an object with an object of JSON values for each provider's name",
    accepts: (value) => isPlain(value) && Object.values(value).every(isJsonObject),
  },
  maxOutputTokens: {
    accepted: `an integer from 1 to ${LARGEST}`,
    accepts: (value) => Number.isSafeInteger(value) && isNumber(value, 1, LARGEST),
  },
}

export const MODEL_OPTION_NAMES = Object.keys(MODEL_OPTIONS) as readonly (keyof ModelOptions)[]

/** Returns the options of the first source that has each one; later sources give way. */
export function modelOptionsOf(...sources: readonly ModelOptions[]): ModelOptions {
  const options: Record<string, unknown> = {}
  for (const source of sources)
    for (const name of MODEL_OPTION_NAMES) if (source[name] !== undefined) options[name] ??= source[name]
  return options as ModelOptions
}
