/** Everything that is asked for while somebody looks, since the digest of the team does not have it. */
import { type Signal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { z } from 'zod'
import type { Digest, DigestFact } from '../../runtime/views/digest-line.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import type { listedAgent, Task, TaskMessage } from '../http/schemas.ts'
import { isToldLater } from '../pictures/deadlocks.ts'
import { begun, live, version } from './live.ts'
import { session, team } from './place.ts'
import { ask, lines, messageOf, taskPath } from './service.ts'
import { tasks } from './tasks.ts'

export interface Fill {
  readonly tokens: number
  readonly maxTokens: number
}

const PAUSE_MS = 3_000

const found = signal<{ team: string; fills: ReadonlyMap<string, Fill> }>({ team: '', fills: new Map() })
let nextAt = 0

/** Returns the contexts of agents that a model plays, by their names. A team whose models said nothing is not asked. */
export function useContexts(): ReadonlyMap<string, Fill> {
  version.value
  const agents = [...live().agents.values()]
  const spent = agents.reduce((sum, { tokens }) => sum + tokens, 0)
  const turns = agents.reduce((sum, agent) => sum + agent.turns, 0) // a context has an answer when its turn has ended
  const key = `${team.value} ${begun.value} ${spent} ${turns}`
  useEffect(() => {
    if (spent === 0) return
    const pause = found.peek().team === team.peek() ? Math.max(0, nextAt - Date.now()) : 0
    const timer = setTimeout(() => void look(team.peek()), pause)
    return () => clearTimeout(timer)
  }, [key])
  const { team: of, fills } = found.value
  return of === team.value ? fills : NONE
}

const NONE: ReadonlyMap<string, Fill> = new Map()

async function look(asked: string): Promise<void> {
  nextAt = Date.now() + PAUSE_MS
  const page = await ask<{ agents: z.infer<typeof listedAgent>[] }>('api/agents', {
    query: { team: asked, context: '1' },
  }).catch(() => undefined) // the banner says that nobody answers
  if (!page || asked !== team.peek()) return
  const fills = new Map(page.agents.flatMap(({ name, context }) => (context ? [[name, context] as const] : [])))
  found.value = { team: asked, fills }
}

export type Cost = NonNullable<Task['cost']>

const costs = signal<ReadonlyMap<string, Cost>>(new Map())
const asked = new Set<string>()

/** Returns the costs of tasks that are known by now. `ended`: ids of tasks whose costs are wanted. */
export function useCosts(ended: readonly string[]): ReadonlyMap<string, Cost> {
  const hasPrices = session.value?.hasPrices === true
  useEffect(() => {
    if (hasPrices) void askCosts(ended)
  }, [hasPrices, ended.join()])
  return costs.value
}

async function askCosts(ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    if (asked.has(id)) continue
    asked.add(id)
    try {
      const { cost, money } = await ask<Task>(taskPath(id))
      const known = money ? { estimate: money.amount, byModel: money.byModel, unpriced: [] } : cost
      if (known) costs.value = new Map(costs.value).set(id, known)
    } catch {
      asked.delete(id) // it is asked for again with the next one
    }
  }
}

export const money = (amount: number): string => amount.toFixed(4)
export const moneyOf = (cost: Cost | undefined): string => (cost ? money(cost.estimate) : '')

export interface RunFold {
  readonly fold: DigestFold
  /** Why it could not be had. */
  readonly failure: string
}

interface Kept {
  readonly found: Signal<RunFold | undefined>
  /** Sum of all that was known of the run when it was asked for. */
  key: string
  isBusy: boolean
  nextAt: number
}

const MOST_KEPT = 24
/** A digest is asked for again after so many times what it took. */
const SHARE = 6
const LEAST_PAUSE_MS = 500

const kept = new Map<string, Kept>()

export function useRunFold(id: string | undefined): RunFold | undefined {
  version.value
  const key = id === undefined ? '' : keyOf(id)
  useEffect(() => {
    if (id !== undefined) keep(id)
  }, [id, key])
  return id === undefined ? undefined : of(id).found.value
}

export const knownFold = (id: string): DigestFold | undefined => of(id).found.value?.fold

function of(id: string): Kept {
  let found = kept.get(id)
  if (!found) {
    found = { found: signal(undefined), key: '', isBusy: false, nextAt: 0 }
    kept.set(id, found)
    for (const oldest of [...kept.keys()].slice(0, Math.max(0, kept.size - MOST_KEPT))) kept.delete(oldest)
  }
  return found
}

/** Names what is known of a run: when it changes, there is more to ask for. */
function keyOf(id: string): string {
  const run = live().runs.get(id)
  const summary = tasks.value.find((task) => task.id === id)
  return `${begun.value} ${run?.messages} ${run?.tokens} ${run?.endedAt} ${run?.status} ${summary?.status}`
}

export function keep(id: string): void {
  const entry = of(id)
  const known = entry.found.peek()?.fold
  if (entry.isBusy || known?.runs.get(id)?.endedAt || (known && entry.key === keyOf(id))) return
  const waitMs = entry.nextAt - performance.now()
  entry.isBusy = true
  if (waitMs > 0) setTimeout(() => void load(id, entry), waitMs)
  else void load(id, entry)
}

async function load(id: string, entry: Kept): Promise<void> {
  const beganAt = performance.now()
  entry.key = keyOf(id)
  const fold = new DigestFold()
  let failure = ''
  try {
    for await (const line of lines(taskPath(id, 'trace'), { query: { as: 'digest' } })) fold.read(line as Digest)
  } catch (error) {
    failure = messageOf(error)
  }
  const tookMs = performance.now() - beganAt
  entry.nextAt = performance.now() + Math.max(LEAST_PAUSE_MS, tookMs * SHARE)
  entry.isBusy = false
  entry.found.value = failure === '' || !entry.found.peek() ? { fold, failure } : entry.found.peek()
  if (failure === '' && entry.key !== keyOf(id)) keep(id)
}

export interface Troubles {
  /** Facts of what went wrong, the newest first. */
  readonly facts: readonly DigestFact[]
  /** Digests that tell what came of it. */
  readonly folds: readonly DigestFold[]
}

const TYPES: ReadonlySet<string> = new Set([
  'agent.crashed',
  'message.dead',
  'deadlock',
  'livelock',
  'stall',
  'step.mismatch',
  'budget',
  'limit.reached',
])
/** Tasks whose history is asked for. */
const MOST_TASKS = 12

/** Facts that are kept at most, and of which team and log they are. */
const MOST_FACTS = 5_000
let keptTroubles = { of: '', facts: new Map<string, DigestFact>() }

/**
 * Returns what went wrong, with what earlier looks have found: a task that is no longer among the newest takes nothing
 * back.
 */
export function useTroubles(): Troubles {
  version.value
  const newest = tasks.value.slice(0, MOST_TASKS).map(({ id }) => id)
  useEffect(() => {
    for (const id of newest) keep(id)
  }, [newest.join()])
  const folds = [live(), ...newest.flatMap((id) => knownFold(id) ?? [])]
  const of = `${team.value} ${live().log}`
  if (keptTroubles.of !== of) keptTroubles = { of, facts: new Map() }
  for (const { facts } of folds)
    for (const fact of facts) if (TYPES.has(fact.type)) keptTroubles.facts.set(factKey(fact), fact)
  for (const key of [...keptTroubles.facts.keys()].slice(0, Math.max(0, keptTroubles.facts.size - MOST_FACTS)))
    keptTroubles.facts.delete(key)
  const all = [...keptTroubles.facts.values()]
  return { folds, facts: all.filter((fact) => !isToldLater(fact, all)).sort((one, other) => other.at - one.at) }
}

/** Names a fact among those of all shards: each has numbers of its own, and no run is in two. */
export const factKey = ({ runId, seq, type }: DigestFact): string => `${runId} ${seq} ${type}`

/* Texts of messages in lists: the digest has their sizes alone, so those in sight are asked for, many at a time. */

/** Text of a message; undefined as long as it is not known, null if the log has given it up. */
type Text = Signal<string | null | undefined>

const MOST_TEXTS = 10_000
/** Time for which rows are in sight before their texts are asked for: a hand that scrolls passes many. */
const TEXT_PAUSE_MS = 150
const PAGE = 100
const MOST_PAGES = 5
const LONGEST = 400
/** Events that one entry of the log can have: its message has a number of its own among them. */
const EVENTS = 8

const known = new Map<string, Text>()
const wanted = new Map<string, Set<number>>()

export function messageText(id: string, n: number): Text {
  const key = `${id} ${n}`
  const found = known.get(key)
  if (found) return found
  const text: Text = signal(undefined)
  known.set(key, text)
  for (const oldest of [...known.keys()].slice(0, Math.max(0, known.size - MOST_TEXTS))) known.delete(oldest)
  if (wanted.size === 0) setTimeout(() => void askAll(), TEXT_PAUSE_MS)
  wanted.set(id, (wanted.get(id) ?? new Set()).add(n))
  return text
}

async function askAll(): Promise<void> {
  const all = [...wanted]
  wanted.clear()
  for (const [id, numbers] of all) {
    await askTexts(id, numbers).catch(() => {}) // the banner says that nobody answers
    for (const n of numbers) settle(id, n, null)
  }
}

/** Asks for the texts, page by page, and takes out the numbers that were found. */
async function askTexts(id: string, numbers: Set<number>): Promise<void> {
  const { log } = live()
  for (let page = 0; page < MOST_PAGES && numbers.size > 0 && log !== null; page++) {
    const messages = await messagesFrom(id, Math.min(...numbers), PAGE)
    const last = Math.max(-1, ...messages.map(numberOf))
    for (const message of messages)
      if (numbers.delete(numberOf(message))) settle(id, numberOf(message), textOf(message))
    for (const n of numbers) {
      if (messages.length === PAGE && n > last) continue
      numbers.delete(n)
      settle(id, n, null)
    }
  }
}

/** Asks for messages of a task, from the one with that number on. */
export async function messagesFrom(id: string, n: number, limit: number): Promise<TaskMessage[]> {
  const { log } = live()
  const query = { after: log === null ? undefined : `${log}.${n * EVENTS + 1}`, limit: String(limit) }
  return (await ask<{ messages: TaskMessage[] }>(taskPath(id, 'messages'), { query })).messages
}

const numberOf = ({ eventId }: TaskMessage): number => Math.floor(Number(eventId.split('.').at(-1)) / EVENTS)

function settle(id: string, n: number, text: string | null): void {
  const found = known.get(`${id} ${n}`)
  if (found) found.value = text
}

/** A message without words has data. */
function textOf({ content, structuredData }: TaskMessage): string {
  if (content !== '') return content.slice(0, LONGEST)
  return structuredData ? JSON.stringify(structuredData).slice(0, LONGEST) : '(no text)'
}
