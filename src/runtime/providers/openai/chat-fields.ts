/**
 * Fields beyond the API that a server of chat completions adds to a message or to a call of a tool. Some servers refuse
 * the next request without them; strict ones refuse any that they do not know. So they go back to the same model at the
 * same address alone, and of them those that are known to be wanted. Sources: Google's "Thought signatures" (OpenAI
 * compatibility), OpenRouter's "Preserving reasoning blocks", LiteLLM's "thinking_blocks".
 */
import type { ProviderData } from '../../../actors/definition/content.ts'
import { nestsTooDeep } from '../../../mailbox/json-depth.ts'
import { own } from '../../../own.ts'
import { isObject } from '../../checks/checks.ts'

/** Fields that go back. */
const GIVEN_BACK = [
  'extra_content',
  'thought_signature',
  'reasoning_details',
  'provider_specific_fields',
  'thinking_blocks',
]
/** Fields that the API has, and those that chat-reasoning.ts reads. */
const KNOWN = {
  message: new Set(
    'role content refusal tool_calls function_call annotations audio name reasoning_content reasoning'.split(' '),
  ),
  call: new Set(['index', 'id', 'type', 'function']),
}
/** Characters of such fields in one answer. */
const MOST_CHARACTERS = 2 ** 20
/** Name under which the provider data of parts and calls stands. */
const CHAT = 'chat'

/** Fields of the message and of the calls of one answer. */
export class ChatFields {
  /** Address and model of the answer. */
  readonly #origin: string
  readonly #fields = new Map<object, Map<string, unknown>>()
  readonly #names = new Set<string>()
  #size = 0

  constructor(origin: string) {
    this.#origin = origin
  }

  /** Adds what a message or a call has besides. A stream sends a field in parts. `of`: what it belongs to. */
  take(of: object, kind: keyof typeof KNOWN, given: object): void {
    for (const [name, value] of Object.entries(given)) {
      if (KNOWN[kind].has(name) || value === null || value === '') continue
      const text = JSON.stringify(value) ?? ''
      this.#size += name.length + text.length
      this.#names.add(name)
      if (this.#size > MOST_CHARACTERS || nestsTooDeep(text)) continue
      const fields = this.#fields.get(of) ?? new Map<string, unknown>()
      this.#fields.set(of, fields.set(name, joined(fields.get(name), value)))
    }
  }

  /** Returns the data that goes back with a message or a call, if it has any. */
  of(of: object): { providerData?: ProviderData } {
    const fields = this.#fields.get(of)
    return fields ? { providerData: { [CHAT]: { of: this.#origin, fields: Object.fromEntries(fields) } } } : {}
  }

  /** Returns the names of the fields that do not go back. */
  others(giveBack: readonly string[] = []): string[] {
    return [...this.#names].filter((name) => !GIVEN_BACK.includes(name) && !giveBack.includes(name))
  }
}

/** Returns the fields that go back to that address and model. */
export function fieldsGivenBack(
  data: ProviderData | undefined,
  origin: string,
  giveBack: readonly string[] = [],
): Record<string, unknown> {
  const { of, fields } = data?.[CHAT] ?? {}
  if (of !== origin || !isObject(fields)) return {}
  return Object.fromEntries(
    Object.entries(fields).filter(([name]) => GIVEN_BACK.includes(name) || giveBack.includes(name)),
  )
}

/** Joins the parts of a field: lists one behind the other, objects field by field; of else the last counts. */
function joined(before: unknown, part: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(part)) {
    for (const entry of part) {
      const last: unknown = before.at(-1)
      if (goesOn(last, entry)) before[before.length - 1] = continued(last, entry)
      else before.push(entry)
    }
    return before
  }
  if (!isObject(before) || !isObject(part)) return part
  // In place: an object may come in 80,000 parts. A field may have any name, also `__proto__`.
  for (const [name, more] of Object.entries(part)) {
    const value = joined(own<unknown>(Object(before), name), more)
    Object.defineProperty(before, name, { value, writable: true, enumerable: true, configurable: true })
  }
  return before
}

type Block = { readonly [field: string]: unknown }

/** Checks whether a block goes on with the one before it. A signature ends a block. */
function goesOn(last: unknown, entry: unknown): last is Block {
  if (!isObject(last) || !isObject(entry)) return false
  const [a, b] = [last as Block, entry as Block]
  return (
    a.type === b.type &&
    a.index === b.index &&
    !a.signature &&
    (TEXTS.some((field) => Object.hasOwn(b, field)) || !!b.signature)
  )
}

const TEXTS = ['text', 'thinking', 'summary']

function continued(last: Block, entry: Block): Block {
  const words = TEXTS.filter((field) => typeof own(last, field) === 'string' && typeof own(entry, field) === 'string')
  return {
    ...last,
    ...entry,
    ...Object.fromEntries(words.map((field) => [field, `${own(last, field)}${own(entry, field)}`])),
  }
}
