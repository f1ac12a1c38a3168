/**
 * Joins the calls of tools in an answer of chat completions. A stream sends a call in parts, and servers disagree on
 * what tells the parts apart: the index, the id, the name, or nothing.
 */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { ToolCall } from '../../../actors/definition/model.ts'
import { MOST_CALLS } from '../collect.ts'

export const callShape = z.looseObject({
  index: z.coerce.number().nullish().catch(undefined),
  id: z.string().nullish(),
  function: z
    .object({
      name: z.string().nullish(),
      /** Some servers send the arguments as the object itself. */
      arguments: z
        .union([z.string(), z.record(z.string(), z.unknown()).transform((input) => JSON.stringify(input))])
        .nullish(),
    })
    .nullish(),
})
type Part = z.infer<typeof callShape>

/** Bounds the number of calls before each call is checked: a server can send a million. */
export function notTooMany(calls: unknown, context: z.RefinementCtx): unknown {
  if (Array.isArray(calls) && calls.length > MOST_CALLS)
    context.addIssue({ code: 'custom', message: `more than ${MOST_CALLS} calls of tools` })
  return Array.isArray(calls) ? calls.slice(0, MOST_CALLS) : calls
}

export class ChatCalls {
  readonly all: ToolCall[] = []
  /** The last call that had an index or an id. */
  readonly #byIndex = new Map<number, ToolCall>()
  readonly #byId = new Map<string, ToolCall>()
  /** Calls whose input may be whole. The input itself is not looked at with each part: it may have 80,000. */
  readonly #ended = new Set<ToolCall>()
  /** Ids that the provider has given. Calls without one have an id of ours. */
  readonly #given = new Map<ToolCall, string>()

  /** Adds a whole call. */
  add({ id, function: called }: Part): ToolCall {
    const call = this.#begin(id, called?.name ?? '')
    call.input = called?.arguments ?? ''
    return call
  }

  /** Adds a part of a call. Returns the call, of which the part is the last. */
  addPart(part: Part): ToolCall {
    const { index, id, function: called } = part
    const name = called?.name ?? ''
    const known = this.#callOf(part)
    const call = known && !this.#beginsAnother(known, part) ? known : this.#begin(id, name)
    if (index != null) this.#byIndex.set(index, call)
    if (id && !this.#given.has(call)) this.#give(call, id)
    if (call.name === '') call.name = name
    const input = called?.arguments ?? ''
    call.input += input
    if (input.endsWith('}')) this.#ended.add(call)
    else if (input !== '') this.#ended.delete(call)
    return call
  }

  /** Returns the call that a part names, by its id or its index. A part that names none goes on with the last call. */
  #callOf({ index, id, function: called }: Part): ToolCall | undefined {
    const named = (id && this.#byId.get(id)) || (index == null ? undefined : this.#byIndex.get(index))
    if (named) return named
    const last = this.all.at(-1)
    const goesOn = !id && (!called?.name || (index == null && last?.name === ''))
    return goesOn ? last : undefined
  }

  /** Decides whether a part begins another call than the one that it names: Gemini gives all calls the index 0. */
  #beginsAnother(call: ToolCall, { index, id, function: called }: Part): boolean {
    const given = this.#given.get(call)
    if (id && given !== undefined && given !== id) return true
    if (!called?.name || call.name === '') return false
    if (called.name !== call.name) return true
    if (!this.#ended.has(call)) return false
    const input = called.arguments ?? ''
    return input === '' ? index != null && this.#byIndex.get(index) !== call : input.startsWith('{')
  }

  #begin(id: string | null | undefined, name: string): ToolCall {
    const call = { id: id || `call_${randomUUID()}`, name, input: '' }
    this.all.push(call)
    if (id) this.#give(call, id)
    return call
  }

  #give(call: ToolCall, id: string): void {
    this.#given.set(call, id)
    this.#byId.set(id, call)
  }
}
