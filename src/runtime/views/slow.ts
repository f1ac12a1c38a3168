/**
 * Judges what takes long, and tells it in words: the same in `team.turns()`, over HTTP, on the pages, in the terminal
 * and in events.
 */
import { grouped } from '../../shared/text.ts'
import type { Wait } from './digest-line.ts'

type Timed = Pick<Wait, 'since' | 'slowAfterMs'>

/** 'slow': longer than `supervision.slowMs`. 'stuck': nothing that is known ends it, or others wait for it. */
export type SlowState = OpenTurn['state']

/** Turn that is under way. */
export interface OpenTurn {
  readonly runId: string
  readonly agent: string
  readonly messageId: string
  /** Epoch ms at which it began. */
  readonly since: number
  /** Work and waits of the turn now, the oldest first: `kind` and names as in `Wait`; null for what has no name. */
  readonly doing: readonly { readonly kind: string; readonly name: string | null; readonly since: number }[]
  /**
   * 'slow': something takes longer than `supervision.slowMs`. 'stuck': the turn waits in a circle; or it is slow, and a
   * turn of another agent waits for it, nothing in its run can end its wait, or its thread does not answer.
   */
  readonly state: 'fine' | 'slow' | 'stuck'
  /** In words: `writer: step "fetch prices" for 4 min (slow after 30 s)`. */
  readonly sentence: string
}

/** Says what people should look at in a team: all that is slow or stuck, in words. */
export interface TeamJudgement {
  readonly state: OpenTurn['state']
  readonly sentences: readonly string[]
}

/** Checks for something that has taken longer than `supervision.slowMs` allows. `now`: epoch ms. */
export const isSlow = ({ since, slowAfterMs }: Timed, now: number): boolean =>
  slowAfterMs !== undefined && now - since >= slowAfterMs

export function stateOf(wait: Timed & Pick<Wait, 'stuck'>, now: number): SlowState {
  if (wait.stuck === 'now') return 'stuck'
  if (!isSlow(wait, now)) return 'fine'
  return wait.stuck === 'once_slow' ? 'stuck' : 'slow'
}

const STATES: readonly SlowState[] = ['fine', 'slow', 'stuck']

export const worstOf = (states: readonly SlowState[]): SlowState =>
  STATES[Math.max(0, ...states.map((state) => STATES.indexOf(state)))]!

/** A turn, or a queue, and what is to be said of it. */
export interface Judged {
  readonly state: SlowState
  readonly sentence: string
  /** The wait that is told: of a queue the oldest one. */
  readonly wait: Wait
}

/** Judges the turns and the queues that have these waits: one entry for each. */
export function judged(waits: readonly Wait[], now: number): Judged[] {
  const turns = new Map<string, Wait[]>()
  const queues = new Map<string, Wait[]>()
  for (const wait of waits) {
    const { runId, agent, turn, kind, for: names } = wait
    const isQueue = kind === 'limit'
    const key = isQueue ? names.join() : [runId, agent, turn, turn === null && kind + names.join()].join(' ')
    const groups = isQueue ? queues : turns
    groups.set(key, [...(groups.get(key) ?? []), wait])
  }
  return [
    ...Array.from(turns.values(), (all) => judgedTurn(all, now)),
    ...Array.from(queues.values(), (all) => judgedQueue(all, now)),
  ]
}

function judgedTurn(all: readonly Wait[], now: number): Judged {
  const state = worstOf(all.map((wait) => stateOf(wait, now)))
  const worst = all.filter((wait) => stateOf(wait, now) === state)
  const wait = worst.find((each) => isSlow(each, now)) ?? oldestOf(worst)
  return { state, sentence: slowSentence(wait, now), wait }
}

const oldestOf = (all: readonly Wait[]): Wait => all.reduce((one, other) => (other.since < one.since ? other : one))

function judgedQueue(all: readonly Wait[], now: number): Judged {
  const wait = oldestOf(all)
  const {
    for: [option = ''],
    agent,
    limit,
  } = wait
  const who = agent === null ? 'run' : CALLS.test(option) ? 'call' : 'turn'
  const height = typeof limit === 'number' ? ` ${grouped(limit)}` : ''
  const cause = wait.cause === undefined ? '' : `; ${wait.cause}`
  const many = all.length === 1 ? `1 ${who} waits` : `${grouped(all.length)} ${who}s wait`
  const age = `${all.length === 1 ? 'for' : 'the oldest for'} ${span(now - wait.since)}${boundOf(wait)}`
  return { state: stateOf(wait, now), sentence: `${many}: ${option}${height}, ${age}${cause}`, wait }
}

/** Limits that calls wait for, and no turns. */
const CALLS = /^(?:models\.|budget\.|rate limit|threads\.tools$|maxParallelToolCalls$)/

/** Returns what people should look at, the turns first. */
export const troublesIn = (waits: readonly Wait[], now: number): Judged[] =>
  judged(waits, now).filter(({ state }) => state !== 'fine')

const boundOf = ({ slowAfterMs }: Timed): string => (slowAfterMs ? ` (slow after ${span(slowAfterMs)})` : '')

/** Says what is slow: `writer: step "fetch prices" for 4 min (slow after 30 s)`. */
export function slowSentence(wait: Wait, now: number): string {
  const cause = wait.cause === undefined ? '' : `: ${wait.cause}`
  const who = wait.agent === null ? (OF_TEAM.has(wait.kind) ? '' : 'a run: ') : `${wait.agent}: `
  const silent = wait.loop === 'silent' ? ', and its thread does not answer' : ''
  return `${who}${doingWords(wait)} for ${span(now - wait.since)}${boundOf(wait)}${silent}${cause}`
}

const WORDS: ReadonlyMap<string, string> = new Map([
  ['own', 'its own code, in no step and no call'],
  ['sleep', 'sleeps'],
  ['step', 'step'],
  ['tool', 'tool'],
  ['model', 'model'],
  ['remote', 'waits for the agent at'],
  ['ask', 'waits for a person'],
  ['approve', 'waits for a person to allow'],
  ['request', 'waits for'],
  ['delegate', 'waits for'],
  ['limit', 'waits at the limit'],
  ['budget', 'used up:'],
  ['log', 'the durable log is behind'],
  ['switched', 'another model answers:'],
])
const QUOTED: ReadonlySet<string> = new Set(['step', 'tool', 'model'])
/** Kinds of what is wrong with a team as a whole. */
const OF_TEAM: ReadonlySet<string> = new Set(['budget', 'log', 'switched'])

/** Words for a turn that is in no step and no call, as far as the loop of its thread tells. */
const OF_LOOP: Readonly<Record<NonNullable<Wait['loop']>, string>> = {
  idle: 'waits for something that the runtime does not know',
  busy: 'computes',
  silent: 'computes',
}

/** Says what a turn does or waits for: `step "fetch prices"`, `waits for editor`. */
export function doingWords({
  kind,
  for: subjects,
  limit,
  loop,
}: Pick<Wait, 'kind' | 'for' | 'limit' | 'loop'>): string {
  if (kind === 'own' && loop) return OF_LOOP[loop]
  const names = subjects.map((name) => (QUOTED.has(kind) ? `"${name}"` : name)).join(', ')
  const height = typeof limit === 'number' ? ` (${limit})` : ''
  return `${WORDS.get(kind) ?? `waits for ${kind}`} ${names}`.trim() + height
}

/** Returns a time span in words: 0.4 s, 12 s, 3 min, 2 h. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  return minutes < 120 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`
}
