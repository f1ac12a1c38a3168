/** Options of one run, checked at the start. */

import { asJson, type Content, messageParts, partsFault, textOf, withText } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../actors/definition/model.ts'
import { type MessagePart, withParts } from '../../mailbox/parts.ts'
import { isObject, oneOf, reading, refused, refusedAs, rule } from '../../shared/checks.ts'
import { ConfigurationError, describe, shown } from '../../shared/errors.ts'
import { optionMeant } from '../../shared/text.ts'
import { CALLER, callerIn, type RunState } from '../host/run.ts'
import type { Question } from '../log/host-frames.ts'
import type { Launched } from '../log/records.ts'
import type { TokenLimit } from '../settings/options.ts'
import { assertPossible } from '../settings/role-shape.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { modelNamesShape, tokenLimit, withoutPrices } from '../settings/team-shape.ts'
import type { Supervisor } from '../supervision/host.ts'
import { readMessages } from './result.ts'
import type { ResumeOptions, RunOptions, RunOwner } from './run.ts'

export function launchedOf(
  {
    id,
    query,
    startedAt,
    metadata,
    tenant,
    threadId,
    models,
    budget,
    streams,
    messages,
    output,
    traceHeaders,
    parts,
    asked,
    wanted,
  }: RunState,
  rest: Pick<Launched, 'timeoutMs' | 'priority' | 'target' | 'own' | 'script' | 'floor'>,
): Launched & { kind: 'run.launched' } {
  const caller = callerIn(metadata)
  const options = {
    ...(caller !== null && { caller }),
    ...(tenant !== undefined && { tenant }),
    ...(threadId !== undefined && { threadId }),
    ...(budget && { budget }),
    ...(streams && { streams }),
    ...(output?.written && { output: output.written.logged }),
    ...(messages.length > 0 && { messages }),
    ...(traceHeaders && { traceHeaders }),
    ...(parts && { parts }),
    ...(asked && { asked }),
    ...(wanted !== undefined && { speaker: wanted }),
  }
  return { kind: 'run.launched', id, query, startedAt, metadata, models, ...options, ...rest }
}

export class RunIntake {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings

  constructor(supervisor: Supervisor, settings: TeamSettings) {
    this.#supervisor = supervisor
    this.#settings = settings
  }

  take(run: RunState, parts: readonly MessagePart[] | undefined, messages: readonly ModelMessage[]): void {
    const keeper = this.#supervisor.parts.keeperFor(run)
    try {
      run.parts = parts && messageParts(asJson(parts, keeper))
      run.messages = messages.map((message) => ({ ...message, content: asJson(message.content, keeper) }))
    } catch (error) {
      this.forget(run)
      throw error
    }
  }

  forget(run: RunState): void {
    this.#supervisor.parts.release(run)
    this.#supervisor.runs.forget(run)
  }

  checkParts(parts: readonly MessagePart[] | undefined): void {
    const agents = this.#supervisor.directory.agents()
    for (const [i, { type }] of (parts ?? []).entries()) {
      if (type === 'text' || agents.some(({ settings }) => settings.info.accepts?.includes(type) ?? true)) continue
      const accepted = [...new Set(agents.flatMap(({ settings }) => settings.info.accepts ?? []))].join(', ')
      const advice = 'Say in the role of an agent that it accepts them, or send something else.'
      throw refusedAs(`query[${i}].type`, `"${type}", which no agent accepts`, accepted || 'text alone', advice)
    }
  }

  /** Checks that a limit of the run in money can be held. */
  checkBudget({ money, perAgentMoney }: TokenLimit = {}): void {
    if (money === undefined && perAgentMoney === undefined) return
    if (!this.#settings.prices) throw withoutPrices('budget.money')
  }

  /** Checks model overrides: each key must be a name that is in use, and each value a model that exists. */
  checkModels(models: Readonly<Record<string, string>>): void {
    const roles = this.#supervisor.directory.agents().map(({ settings }) => settings.info.model)
    for (const name of Object.keys(models)) this.#settings.models.assertOverride(name, models, roles)
  }
}

/** Returns the question to the script. Parts of a query whose text was changed have that text. */
export function questionOf(content: string, { query, parts, asked, wanted }: RunState): Question {
  if (asked) {
    const { data, metadata } = asked
    return { content, ...(data !== undefined && { data }), ...(metadata !== undefined && { metadata }) }
  }
  if (!parts && wanted === undefined) return { content }
  const changed = !parts || content === query ? parts : messageParts(withText(parts, content))
  return {
    content,
    metadata: JSON.stringify(withParts(wanted === undefined ? undefined : { speaker: wanted }, changed)),
  }
}

const KNOWN = [
  'signal',
  'timeoutMs',
  'priority',
  'runId',
  'threadId',
  'speaker',
  'metadata',
  'caller',
  'tenant',
  'models',
  'budget',
  'output',
  'stream',
  'messages',
] as const

/** A query: its text, and its parts if it is more than that. */
export interface Query {
  readonly text: string
  readonly parts: readonly MessagePart[] | undefined
}

/**
 * Reads a query: a text, or parts.
 *
 * @throws ConfigurationError that names the part, what came and what is accepted.
 */
export function readQuery(query: unknown, path = 'query'): Query {
  if (typeof query === 'string') return { text: query, parts: undefined }
  if (!reading(path, () => Array.isArray(query))) throw refused(path, query, 'a text or a list of parts')
  const fault = reading(path, () => partsFault(query, path))
  if (fault) throw refused(fault.path, fault.value, fault.needed)
  const parts = messageParts(query as Content)
  const text = textOf(parts)
  return { text, parts: parts.every(({ type }) => type === 'text') ? undefined : parts }
}

/**
 * Returns a copy of the options as they are now: a later read could return something else, or throw.
 *
 * @throws ConfigurationError that names the option, what came and what is accepted.
 */
export function readRunOptions<T>(given: RunOptions<T>): RunOptions<T> {
  if (!isObject(given)) throw refused('options', given, 'an object')
  const options = copied('options', given)
  if (isObject(options.metadata)) options.metadata = copied('metadata', options.metadata)
  if (isObject(options.models)) options.models = copied('models', options.models)
  if (isObject(options.budget)) options.budget = copied('budget', options.budget)
  reading('options', () => check(options, KNOWN, 'a run'))
  const { messages, caller } = options
  if (caller !== undefined) options.metadata = { ...options.metadata, [CALLER]: caller }
  if (messages !== undefined) options.messages = reading('messages', () => readMessages(messages))
  return options
}

const RESUME = ['output', 'signal', 'timeoutMs', 'onMismatch'] as const
const mismatchMode = oneOf('refuse', 'continue')

/**
 * Returns a copy of the options of `team.resume`.
 *
 * @throws ConfigurationError that names the option, what came and what is accepted.
 */
export function readResumeOptions<T>(runId: unknown, given: ResumeOptions<T>): ResumeOptions<T> {
  if (typeof runId !== 'string' || runId === '') throw refused('runId', runId, 'the id of a run')
  if (!isObject(given)) throw refused('options', given, 'an object')
  const options = copied('options', given)
  reading('options', () => {
    check(options, RESUME, 'team.resume')
    if (options.onMismatch !== undefined) mismatchMode(options.onMismatch, 'onMismatch')
  })
  return options
}

const LONGEST_OWNER = 256
const ownerName = rule(
  `a text of 1 to ${LONGEST_OWNER} characters`,
  (value) => typeof value === 'string' && value !== '' && value.length <= LONGEST_OWNER,
)

const copied = <T extends object>(path: string, given: T): T => reading(path, () => ({ ...given }))

function check(options: RunOptions<never> | RunOptions<unknown>, known: readonly string[], of: string): void {
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      const near = optionMeant(key, known)
      throw new ConfigurationError(
        `${key}: no such option of ${of}${near ? `; did you mean "${near}"?` : `; there are ${known.join(', ')}.`}`,
        { path: key },
      )
    }
  }
  const { signal, timeoutMs, priority, runId, threadId, speaker, metadata, models, budget, output, stream } = options
  const { caller, tenant }: RunOwner = options
  if (caller !== undefined) ownerName(caller, 'caller')
  if (tenant !== undefined) ownerName(tenant, 'tenant')
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw refused('signal', signal, 'an AbortSignal')
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs < 2 ** 31))
    throw refused('timeoutMs', timeoutMs, 'milliseconds above 0, below 2^31')
  if (priority !== undefined && !Number.isFinite(priority)) throw refused('priority', priority, 'a finite number')
  if (runId !== undefined && (typeof runId !== 'string' || runId === ''))
    throw refused('runId', runId, 'a text that is not empty')
  if (threadId !== undefined && (typeof threadId !== 'string' || threadId === ''))
    throw refused('threadId', threadId, 'a text that is not empty')
  if (speaker !== undefined && (typeof speaker !== 'string' || speaker === ''))
    throw refused('speaker', speaker, 'the name of an agent')
  if (metadata !== undefined && !isObject(metadata)) throw refused('metadata', metadata, 'an object of texts')
  if (metadata !== undefined)
    for (const [key, value] of Object.entries(metadata))
      if (typeof value !== 'string') throw refused(`metadata.${key}`, value, 'a text')
      else if (key === CALLER && caller !== undefined && value !== caller)
        throw refusedAs(
          'metadata.caller',
          shown(value),
          `"${caller}", as \`caller\``,
          'Leave it out: `caller` sets it.',
        )
  if (models !== undefined) modelNamesShape(models, 'models')
  if (budget !== undefined) tokenLimit(budget, 'budget')
  if (output !== undefined && typeof output?.['~standard']?.validate !== 'function')
    throw refused('output', output, 'a Standard Schema (zod, arktype, ...)')
  if (output) assertPossible(output, 'output')
  if (stream !== undefined && typeof stream !== 'boolean') throw refused('stream', stream, 'true or false')
}

/** Returns why a signal has aborted, in words. */
export const reasonOf = (signal: AbortSignal): string =>
  signal.reason instanceof Error ? signal.reason.message : describe(signal.reason)
