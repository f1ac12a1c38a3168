/** Lists of a team over several processes: each shard has a part of them, and a page a place in the whole. */
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

/** Field of the query for a shard of which nothing stands at the place where a page begins. */
export interface Behind {
  /** Epoch ms: the page begins with what is earlier; in a list with the oldest first, with what is later. */
  readonly behind?: number
}

interface Asked {
  readonly name: Operation
  readonly query: Query
}

/** Returns the request for the part of one shard. */
export function pageOfShard<Call extends Asked>(call: Call, shard: number): Call {
  const { cursor, isNewestFirst } = LISTS[call.name] ?? {}
  if (cursor === undefined || call.query[cursor] === undefined) return call
  const place = placeIn(call.query[cursor], cursor)
  if (shard === place.shard) return { ...call, query: { ...call.query, [cursor]: place.id } }
  // of items of one time those of the first shards come first, and were shown
  const behind = shard < place.shard ? place.at : place.at + (isNewestFirst?.(call.query) ? 1 : -1)
  return { ...call, query: { ...call.query, [cursor]: undefined, behind } }
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
    all.sort(
      (one, other) =>
        sign * (timeIn(one, time) - timeIn(other, time)) || Number(own(one, 'shard')) - Number(own(other, 'shard')),
    )
  }
  const { cycles, judgement } = othersOf(parts)
  const others = { ...(name === 'listWaits' && { cycles }), ...(name === 'listTurns' && { judgement }) }
  if (joined) return { ...others, [items]: Array.from(groupedBy(all, ({ name }) => String(name)).values(), joined) }
  if (cursor === undefined) return { ...others, [items]: all }
  const page = all.slice(0, Number(query.limit))
  const hasMore = page.length < all.length || parts.some(({ next }) => typeof next === 'string')
  const last = page.at(-1)
  const next = last && hasMore && textOf({ at: timeIn(last, time!), shard: Number(last.shard), id: String(last.id) })
  return { [items]: page, next: next || null }
}

const timeIn = (item: Item, time: string): number => Date.parse(String(own(item, time)))

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

/** Place in a list: the last item that was shown. However many shards there are, it goes into a URL. */
interface Place {
  /** Epoch ms. */
  readonly at: number
  readonly shard: number
  readonly id: string
}

const textOf = ({ at, shard, id }: Place): string => Buffer.from(JSON.stringify([at, shard, id])).toString('base64url')

/** @throws ConfigurationError */
function placeIn(given: unknown, cursor: string): Place {
  const [at, shard, id] = parsed(String(given))
  if (Number.isInteger(at) && Number(at) >= 0 && Number.isInteger(shard) && typeof id === 'string')
    return { at: Number(at), shard: Number(shard), id }
  throw new ConfigurationError(`${cursor}: it is not the "next" of a page of this list.`, { path: cursor })
}

function parsed(text: string): unknown[] {
  try {
    return [JSON.parse(Buffer.from(text, 'base64url').toString())].flat()
  } catch {
    return []
  }
}
