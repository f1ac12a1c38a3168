/**
 * A list of models (`models.<name>.anyOf`): which of them a call asks, when the next one is asked in its place, and
 * when the first is tried again.
 */

import type { ContentPart, ProviderData } from '../../actors/definition/content.ts'
import type { ModelAnswer, ModelMessage } from '../../actors/definition/model.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { modelFailureIn } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'

/** Reasons for which another model may be asked. A request that is rejected is wrong for each. */
export const SWITCH_REASONS = [
  'rate_limit',
  'quota',
  'auth',
  'not_found',
  'too_long',
  'filtered',
  'timeout',
  'unreachable',
  'server',
  'broken_off',
  'invalid_answer',
] as const

/** Why another model is asked: `broken_off` for an answer without its end, else `error.modelFailure.reason`. */
export type SwitchReason = (typeof SWITCH_REASONS)[number]

/** A list of other models of the team, in the order in which they are asked: the next one where one has no answer. */
export interface FailoverEntry {
  /** Names of other entries, which are no lists. */
  anyOf: readonly [string, string, ...string[]]
  /** Reasons to ask the next one. Default: all but `filtered` and `auth`. */
  switchOn?: readonly SwitchReason[]
  /** Longest pause, in ms, before another attempt at a model; before a longer one the next is asked. Default: 2,000. */
  patienceMs?: number
  /**
   * Longest time in ms without a word, a thought or a call of a tool; then the next is asked. Time in the queue of the
   * provider does not count. `false`: no limit. Default: `patienceMs` if that is set, else 60,000.
   */
  silenceMs?: number | false
  /** Time in ms after a failure of the first from which on one call tries it again. Default: 60,000. */
  returnAfterMs?: number
}

const PATIENCE_MS = 2_000
const SILENCE_MS = 60_000
const RETURN_AFTER_MS = 60_000
/** Reasons for which nobody wants another model by default: it may be milder, or the key is to be looked at. */
const ONLY_IF_NAMED: ReadonlySet<SwitchReason> = new Set(['filtered', 'auth'])

/** A model of a list, by the name of its own entry. */
export interface Listed<Model> {
  readonly name: string
  readonly model: Model
}

/** The first model rests after a failure: another one answers in its place. */
interface Rest {
  to: number
  reason: SwitchReason
  /** Epoch ms. */
  since: number
  /** Monotonic ms from which on one call tries the first again. */
  until: number
  /** True while that call is under way. */
  isTried: boolean
}

interface ListOptions {
  readonly clock: Scheduler
  readonly limits?: LimitNotices | undefined
}

export class ModelList<Model> {
  readonly name: string
  readonly all: readonly Listed<Model>[]
  /** Longest pause between two attempts at a model while another one can answer. */
  readonly patienceMs: number
  /** Longest time without a piece of an answer. */
  readonly silenceMs: number | undefined
  readonly #reasons: ReadonlySet<SwitchReason>
  readonly #returnAfterMs: number
  readonly #clock: Scheduler
  #rest: Rest | undefined

  constructor(name: string, entry: FailoverEntry, all: readonly Listed<Model>[], { clock, limits }: ListOptions) {
    this.name = name
    this.all = all
    this.patienceMs = entry.patienceMs ?? PATIENCE_MS
    const silenceMs = entry.silenceMs ?? (entry.patienceMs || SILENCE_MS)
    this.silenceMs = silenceMs === false ? undefined : silenceMs
    this.#returnAfterMs = entry.returnAfterMs ?? RETURN_AFTER_MS
    this.#reasons = new Set(entry.switchOn ?? SWITCH_REASONS.filter((reason) => !ONLY_IF_NAMED.has(reason)))
    this.#clock = clock
    limits?.watch(() => this.#told())
  }

  /**
   * Returns the place of the model that a run begins with, and why it is not the first. After its rest one call tries
   * the first again; the others stay where they are until that call has an answer.
   */
  begin(): { at: number; reason: SwitchReason | undefined; isTrial: boolean } {
    const rest = this.#rest
    if (rest && (rest.isTried || this.#clock.monotonic() < rest.until))
      return { at: rest.to, reason: rest.reason, isTrial: false }
    if (rest) rest.isTried = true
    return { at: 0, reason: undefined, isTrial: rest !== undefined }
  }

  /**
   * Returns the reason to ask another model after that error; undefined if there is none. `hasBegun`: a part of its
   * answer had come, so a connection that broke has cut it off.
   */
  reasonIn(error: unknown, hasBegun: boolean): SwitchReason | undefined {
    const failure = modelFailureIn(error)
    if (!failure || own(Object(error).details ?? {}, 'final') === true) return undefined
    const { code, reason } = failure
    const isCut = code === 'broken_off' || (hasBegun && reason === 'unreachable')
    for (const said of isCut ? (['broken_off', reason] as const) : [reason]) {
      const known = SWITCH_REASONS.find((each) => each === said && this.#reasons.has(each))
      if (known) return known
    }
    return undefined
  }

  answered(at: number): void {
    if (at === 0) this.#rest = undefined
  }

  /** Notes that a model has no answer, and the place of the one that is asked now. */
  switched(from: number, to: number, reason: SwitchReason): void {
    const until = this.#clock.monotonic() + this.#returnAfterMs
    if (from === 0) this.#rest = { to, reason, since: this.#clock.now(), until, isTried: false }
    else if (this.#rest && to > 0) this.#rest.to = to
  }

  /** Notes that the call is over that has tried the first again, whatever came of it. */
  left(): void {
    if (this.#rest) this.#rest.isTried = false
  }

  *#told(): IterableIterator<LimitWait> {
    const rest = this.#rest
    const [first] = this.all
    const spare = rest && this.all[rest.to]
    if (!rest || !first || !spare) return
    const leftMs = rest.until - this.#clock.monotonic()
    const until = this.#clock.now() + leftMs
    const rests = leftMs > 0 ? `rests until ${new Date(until).toISOString()}` : 'is tried again by the next run'
    const words = `${first.name} (${rest.reason}) ${rests}, ${spare.name} answers`
    const trouble = { kind: 'switched', words } as const
    yield { option: `models.${this.name}`, limit: null, since: rest.since, ...(leftMs > 0 && { until }), trouble }
  }
}

/*
 * Opaque data of a provider and thoughts are understood by the model alone that has given them. In a list each carries
 * the name of its model, so that another one does not get them.
 */

const MARK = 'dramatis'

/** Returns the answer of a model of a list, with the name of the model in its opaque parts. */
export function markedAnswer(answer: ModelAnswer, name: string): ModelAnswer {
  const { parts, toolCalls } = answer
  const marked = (data: ProviderData | undefined) => ({ providerData: { ...data, [MARK]: { by: name } } })
  const markedPart = (part: ContentPart): ContentPart => {
    if (part.type === 'reasoning') return { ...part, ...marked(part.providerData) }
    return part.type === 'text' && part.providerData ? { ...part, ...marked(part.providerData) } : part
  }
  return {
    ...answer,
    ...(parts && { parts: parts.map(markedPart) }),
    toolCalls: toolCalls.map((call) => (call.providerData ? { ...call, ...marked(call.providerData) } : call)),
  }
}

/** Returns a conversation as that model of a list may have it. Parts without a name are those of the first. */
export function messagesFor(
  messages: readonly ModelMessage[],
  { name }: Listed<unknown>,
  isFirst: boolean,
): ModelMessage[] {
  const isOwn = ({ providerData }: { providerData?: ProviderData }) =>
    providerData?.[MARK] === undefined ? isFirst : Object(providerData[MARK]).by === name
  const dataOf = (part: { providerData?: ProviderData }) => {
    const { [MARK]: _, ...data } = part.providerData ?? {}
    return isOwn(part) && Object.keys(data).length > 0 ? { providerData: data } : {}
  }
  const partsFor = (part: ContentPart): ContentPart[] => {
    if (part.type !== 'reasoning' && part.type !== 'text') return [part]
    if (part.type === 'reasoning') return isOwn(part) ? [{ type: 'reasoning', text: part.text, ...dataOf(part) }] : []
    return [{ type: 'text', text: part.text, ...dataOf(part) }]
  }
  return messages.map((message) => {
    const { role, content, toolCalls } = message
    if (role !== 'assistant') return message
    return {
      ...message,
      content: typeof content === 'string' ? content : content.flatMap(partsFor),
      ...(toolCalls && {
        toolCalls: toolCalls.map((call) => ({ id: call.id, name: call.name, input: call.input, ...dataOf(call) })),
      }),
    }
  })
}
