/** Lists of a team over several processes: each shard has a part of them, and a page has a place in every part. */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { ConfigurationError } from '../../index.ts'
import { groupedBy, own } from '../../shared/values.ts'
import type { Operation } from '../http/routes.ts'
import { WORST_FIRST } from './merged-digest.ts'

/** A list as a route answers with it. */
export type Part = Readonly<Record<string, unknown>>
type Item = Readonly<Record<string, unknown>>
type Query = Readonly<Record<string, unknown>>

interface List {
  readonly items: string
  /** Field by whose time the items are in order. */
  readonly time?: string
  readonly isNewestFirst?: (query: Query) => boolean
  /** Parameter of the query that names the place behind which a page begins. */
  readonly cursor?: 'before' | 'after'
  /** Items of one name, from several shards, as one. */
  readonly joined?: (items: readonly Item[]) => Item
}

const LISTS: Partial<Record<Operation, List>> = {
  listTasks: { items: 'tasks', time: 'createdAt', isNewestFirst: () => true, cursor: 'before' },
  listDeadLetters: { items: 'letters', time: 'at', isNewestFirst: ({ order }) => order === 'newest', cursor: 'after' },
  listQuestions: { items: 'questions', time: 'askedAt' },
  listWaits: { items: 'waits', time: 'since' },
  listTurns: { items: 'turns', time: 'since' },
  listBudgets: { items: 'budgets' },
  listAgents: { items: 'agents', joined: joinedAgents },
}

export const isList = (name: Operation): boolean => LISTS[name] !== undefined

/** Returns what another process has said, if it is a part of that list. */
export function partIn(name: Operation, said: unknown): Part {
  const { items } = LISTS[name]!
  const list: unknown = own(Object(said), items)
  if (Array.isArray(list) && list.every((item) => typeof item === 'object' && item !== null)) return said as Part
  throw new Error(`it answers without a list of ${items}`)
}

interface Asked {
  readonly name: Operation
  readonly query: Query
}

/** Returns the request for the part of one shard. */
export function pageOfShard<Call extends Asked>(call: Call, shard: number): Call {
  const { cursor } = LISTS[call.name] ?? {}
  if (cursor === undefined) return call
  return { ...call, query: { ...call.query, [cursor]: placesIn(call.query[cursor], cursor)[shard] } }
}

/** Returns a part that says of which shard it is, and whose items do where a page has places. */
export function ofShard({ name }: Asked, part: Part, shard: number): Part {
  const { items, cursor } = LISTS[name]!
  const shown = itemsOf(part, items).map((item) => (cursor === undefined ? item : { ...item, shard }))
  return { ...part, [items]: shown, shards: [shard] }
}

/** Returns the shards of which a part tells. */
export const shardsIn = ({ shards }: Part): readonly unknown[] => (Array.isArray(shards) ? shards : [])

/** Returns several parts as one page. */
export function mergedList({ name, query }: Asked, parts: readonly Part[]): Part {
  const { items, time, isNewestFirst, cursor, joined } = LISTS[name]!
  const all = parts.flatMap((part) => itemsOf(part, items))
  if (time !== undefined) {
    const sign = isNewestFirst?.(query) ? -1 : 1
    all.sort((one, other) => sign * (Date.parse(String(own(one, time))) - Date.parse(String(own(other, time)))))
  }
  const { cycles, judgement } = othersOf(parts)
  const others = { ...(name === 'listWaits' && { cycles }), ...(name === 'listTurns' && { judgement }) }
  if (joined) return { ...others, [items]: Array.from(groupedBy(all, ({ name }) => String(name)).values(), joined) }
  if (cursor === undefined) return { ...others, [items]: all }
  const page = all.slice(0, Number(query.limit))
  const hasMore = page.length < all.length || parts.some(({ next }) => typeof next === 'string')
  const places = { ...placesIn(query[cursor], cursor), ...Object.fromEntries(page.map(({ shard, id }) => [shard, id])) }
  return { [items]: page, next: hasMore && page.length > 0 ? textOf(places) : null }
}

const itemsOf = (part: Part, items: string): readonly Item[] => own(part, items) as readonly Item[]

const STATES = ['fine', 'slow', 'stuck']

function othersOf(parts: readonly Part[]) {
  const judgements = parts.flatMap(({ judgement }) =>
    judgement ? [judgement as { state: string; sentences: string[] }] : [],
  )
  const worst = Math.max(0, ...judgements.map(({ state }) => STATES.indexOf(state)))
  return {
    cycles: parts.flatMap(({ cycles }) => (cycles as unknown[] | undefined) ?? []),
    judgement: { state: STATES[worst], sentences: judgements.flatMap(({ sentences }) => sentences) },
  }
}

function joinedAgents(agents: readonly Item[]): Item {
  const rank = ({ status }: Item) => WORST_FIRST.indexOf(String(status))
  const [first = {}] = [...agents].sort((one, other) => rank(one) - rank(other))
  const sum = (field: string) => agents.reduce((all, agent) => all + Number(own(agent, field)), 0)
  if (first.queued === undefined) return { ...first, restarts: sum('restarts') } // for a caller with a tenant
  const lastBeatMs = Math.min(...agents.map((agent) => Number(agent.lastBeatMs)))
  const usage = agents.map((agent) => Object(agent.usage) as Record<string, number>).reduce(added)
  return { ...first, queued: sum('queued'), inFlight: sum('inFlight'), restarts: sum('restarts'), lastBeatMs, usage }
}

function added(one: Record<string, number>, other: Record<string, number>): Record<string, number> {
  const sums = Object.entries(other).map(([name, value]) => [
    name,
    typeof value === 'number' ? (own(one, name) ?? 0) + value : value,
  ])
  return { ...one, ...Object.fromEntries(sums) }
}

/*
 * A place in the list: the last item of each shard that was shown, as JSON made short. Shards that are not in it
 * begin with their first.
 */

/** Bytes of a place before it is made short: 4,096 shards have fewer. */
const LONGEST = 1_048_576

/** Made short for the head of a request, of which servers take 16 KB: with 400 shards and UUIDs it has 12 KB. */
const textOf = (places: object): string => deflateRawSync(JSON.stringify(places), { level: 9 }).toString('base64url')

function placesIn(given: unknown, cursor: string): Record<string, string | undefined> {
  if (given === undefined) return {}
  const places = parsed(String(given))
  const isOne = typeof places === 'object' && places !== null && Object.values(places).every(isText)
  if (isOne) return places as Record<string, string>
  throw new ConfigurationError(`${cursor}: it is not the "next" of a page of this list.`, { path: cursor })
}

const isText = (value: unknown): boolean => typeof value === 'string'

function parsed(text: string): unknown {
  try {
    return JSON.parse(inflateRawSync(Buffer.from(text, 'base64url'), { maxOutputLength: LONGEST }).toString())
  } catch {
    return undefined
  }
}
