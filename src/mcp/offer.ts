/** Lists the tools of an MCP server, and finds those that cannot be used. */
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { shown } from '../errors.ts'
import { foreignSchema } from '../json-schema/foreign-schema.ts'
import { visible } from '../visible.ts'
import type { Sdk } from './sdk.ts'
import type { Session } from './session.ts'

export interface OfferedTool {
  name: string
  description?: string | undefined
  inputSchema: object
  outputSchema?: object | undefined
  annotations: { readOnlyHint?: unknown; idempotentHint?: unknown }
}

export interface Offer {
  readonly tools: readonly OfferedTool[]
  /** Tools that cannot be used, with the reason of each. */
  readonly refused: ReadonlyMap<string, string>
  /** Keywords of schemas that are not checked by, with their tools and reasons. */
  readonly leftOut: readonly string[]
}

/** In pages: a server that always has another one is not asked for ever. */
const MOST_PAGES = 100
/** Maximum number of tools of a server: ten times as many as a model can choose from. */
const MOST_TOOLS = 1_024
const LONGEST_REASON = 300

/** Asks a server for its tools, page by page, until it names no further page, or one that it has named before. */
export async function listOf(
  { client }: Session,
  { ResultSchema }: Sdk,
  options: { signal: AbortSignal; timeout: number },
): Promise<unknown[]> {
  const listed: unknown[] = []
  const known = new Map<unknown, unknown>()
  const cursors = new Set<string>()
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor }
    const { tools, nextCursor: next } = await client.request({ method: 'tools/list', params }, ResultSchema, options)
    if (!Array.isArray(tools)) throw new Error(`its list of tools is ${shown(tools)}`)
    for (const tool of tools) {
      const { name }: { name?: unknown } = Object(tool)
      if (known.has(name) && isDeepStrictEqual(known.get(name), tool)) continue // a page that came again
      if (listed.length === MOST_TOOLS) throw new Error(`it has more than ${MOST_TOOLS} tools`)
      known.set(name, tool)
      listed.push(tool)
    }
    if (next === undefined || next === null || next === '') return listed
    if (typeof next !== 'string') throw new Error(`the next page of its tools is ${shown(next)}, and no text`)
    if (cursors.has(next)) return listed
    cursors.add(next)
    cursor = next
  }
  throw new Error(`its list of tools has more than ${MOST_PAGES} pages`)
}

/** Reads the schemas of a list of tools; of those that are wanted. Rejects only if the signal is aborted. */
export async function offerIn(
  listed: readonly unknown[],
  isWanted: (name: string) => boolean,
  signal: AbortSignal,
): Promise<Offer> {
  const tools = new Map<string, OfferedTool>()
  const refused = new Map<string, string>()
  const leftOut: string[] = []
  for (const [at, given] of listed.entries()) {
    const { name }: { name?: unknown } = Object(given)
    const label = typeof name === 'string' && name !== '' ? name : `tool ${at + 1} of its list`
    try {
      const tool = toolIn(given)
      if (tools.has(tool.name)) throw new Error('another tool has the same name')
      if (isWanted(tool.name)) leftOut.push(...(await notChecked(tool)))
      tools.set(tool.name, tool)
    } catch (error) {
      refused.set(label, visible((error as Error).message).slice(0, LONGEST_REASON))
    }
    await setImmediate() // the patterns of one tool take up to a tenth of a second
    signal.throwIfAborted()
  }
  return { tools: [...tools.values()], refused, leftOut }
}

/** Returns the keywords of a tool's schemas that are not checked by. Rejects if a schema is beyond a bound. */
async function notChecked({ name, inputSchema, outputSchema }: OfferedTool): Promise<string[]> {
  const found: string[] = []
  const noteIn = (schema: string) => (place: string, why: string) =>
    void found.push(visible(`${name}: ${schema}.${place} (${why})`.slice(0, LONGEST_REASON)))
  await foreignSchema(inputSchema, noteIn('inputSchema'))
  if (outputSchema) await foreignSchema(outputSchema, noteIn('outputSchema'))
  return found
}

/** Returns the tool that a server lists. Fields without a value may be null. Throws for what is none. */
function toolIn(given: unknown): OfferedTool {
  const { name, description, inputSchema, outputSchema, annotations, execution }: { [field: string]: unknown } =
    Object(given)
  if (typeof name !== 'string' || name === '') throw new Error(`its name is ${shown(name)}; accepted: a text`)
  if (!isObject(inputSchema) || Reflect.get(inputSchema, 'type') !== 'object')
    throw new Error(`its inputSchema is ${shown(inputSchema)}; accepted: a JSON Schema with the type "object"`)
  if (!isObject(outputSchema ?? {})) throw new Error(`its outputSchema is ${shown(outputSchema)}; accepted: an object`)
  if (typeof (description ?? '') !== 'string') throw new Error(`its description is ${shown(description)}, and no text`)
  if (!isObject(annotations ?? {})) throw new Error(`its annotations are ${shown(annotations)}; accepted: an object`)
  if (Object(execution).taskSupport === 'required') throw new Error('it can be called only as a task')
  return {
    name,
    inputSchema,
    description: description as string | undefined,
    outputSchema: outputSchema as object | undefined,
    annotations: annotations ?? {},
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
