/** Who dies of what, where and upon which message: all of it follows from a seed. */
import { seededRandom } from '../../src/shared/random.ts'
import type { Deaths, Kind, Point } from '../fixtures/chaos/deaths.ts'
import { isFor, laneOf, ORACLES, oracleFor, SOURCES, type Use, WORKERS } from '../fixtures/chaos/traffic.ts'

export interface Size {
  /** Numbers of each source. */
  each: number
  /** Deaths by plan, and by the host's hand. */
  planned: number
  killed: number
}

/** A message that an agent may die upon. */
interface Occasion {
  agent: string
  key: string
}

interface Victim {
  /** How many of twenty deaths it has. */
  share: number
  agents: readonly string[]
  points: readonly Point[]
  /** What a number becomes for it, where that gets to the point. */
  occasion(from: string, n: number, point: Point): Occasion | undefined
}

/** From here on the handler is through, and the death may hit the message after it. */
const PAST: readonly Point[] = ['returned', 'committed', 'later']

const USED: Partial<Record<Point, Use>> = { asked: 'ask', reading: 'tell', streaming: 'tell', step: 'step' }
const reaches = (point: Point, n: number): boolean => {
  const use = USED[point]
  return use === undefined || isFor(use, n)
}

const worker: Victim = {
  share: 9,
  agents: WORKERS,
  points: ['before', 'asked', 'reading', 'step', 'claimed', 'sent', 'effect', ...PAST],
  occasion: (from, n, point) => (reaches(point, n) ? { agent: laneOf(n).worker, key: `${from} ${n}` } : undefined),
}
const oracle: Victim = {
  share: 5,
  agents: ORACLES,
  points: ['before', 'streaming', 'effect', ...PAST],
  occasion(from, n, point) {
    const use = isFor('tell', n) ? 'tell' : 'ask'
    return isFor(use, n) && reaches(point, n) ? { agent: oracleFor(use, n), key: `${use} ${from} ${n}` } : undefined
  },
}
const source: Victim = {
  share: 1,
  agents: SOURCES,
  points: ['before', 'sent', 'effect'],
  occasion: (from, n) => ({ agent: from, key: `${from} ${n}` }),
}
const sink: Victim = {
  share: 2,
  agents: ['sink'],
  points: ['before', 'effect', ...PAST],
  occasion: (from, n) => ({ agent: 'sink', key: `${from} ${n}` }),
}
const listener: Victim = {
  share: 1,
  agents: ['listener-a'],
  points: ['before', 'effect', ...PAST],
  occasion: (from, n) => (isFor('publish', n) ? { agent: 'listener-a', key: `publish ${from} ${n}` } : undefined),
}
const till: Victim = {
  share: 2,
  agents: ['till'],
  points: ['step', 'before', 'step', 'effect', ...PAST],
  occasion(from, n) {
    const use = isFor('charge', n) ? 'charge' : 'tick'
    return isFor(use, n) ? { agent: 'till', key: `${use} ${from} ${n}` } : undefined
  },
}
const VICTIMS = [worker, oracle, source, sink, listener, till].flatMap((victim) =>
  new Array<Victim>(victim.share).fill(victim),
)

/** Of twenty deaths. Those that cost little time come more often. */
const KINDS: readonly Kind[] = [
  ...(['throw', 'throw', 'throw', 'reject', 'reject', 'reject', 'exit', 'exit', 'exit', 'exit'] as const),
  ...(['stack', 'stack', 'overflow', 'loop', 'throw', 'heap', 'heap', 'buffers', 'wait', 'native'] as const),
]
/** These look the same each time, so one must never hit a message that was hit by another: see `mayFollow`. */
const ALIKE: readonly Kind[] = ['stack', 'loop']
/** In the midst of a verb, at once. */
const diesAtOnce = (kind: Kind) => ['exit', 'loop', 'wait', 'native', 'heap'].includes(kind)
const mayComeLater = (kind: Kind) => ['throw', 'reject', 'exit', ...ALIKE].includes(kind)
/** A message without priority is taken after whatever has come again. */
const mayFollow = (kind: Kind, point: Point, n: number) =>
  !ALIKE.includes(kind) || !PAST.includes(point) || laneOf(n).priority === 0

/**
 * A watchdog with much patience: where memory runs out, which takes its time on a busy machine. Where a thread is stuck it
 * has little, or that would take too long.
 */
export const PATIENT: readonly string[] = ['worker-a', 'oracle-a', 'sink']

const mayDieOf = (kind: Kind, agent: string): boolean => {
  if (kind === 'overflow') return agent === 'oracle-b' // is restarted for what its handler throws
  if (kind === 'heap' || kind === 'buffers') return PATIENT.includes(agent)
  return !['loop', 'wait', 'native'].includes(kind) || !PATIENT.includes(agent)
}

const UNTIL = 0.92 // the last messages are left alone, so that who has died lives again

/** The deaths of each agent, spread over all numbers. */
export function planOf(seed: number, { each, planned }: Size): Record<string, Deaths> {
  const random = seededRandom([seed, 1, 0, 0])
  const kinds = new Deck(KINDS, random)
  const victims = new Deck(VICTIMS, random)
  const points = new Map([...new Set(VICTIMS)].map((victim) => [victim, new Deck(victim.points, random)]))
  const plan: Record<string, Deaths> = {}
  for (let i = 0; i < planned; i++) {
    const victim = victims.draw()
    const kind = kinds.draw((kind) => victim.agents.some((agent) => mayDieOf(kind, agent)))
    const point = points.get(victim)!.draw((point) => {
      if (point === 'claimed') return diesAtOnce(kind)
      return !PAST.includes(point) || mayComeLater(kind)
    })
    const from = SOURCES[i % SOURCES.length]!
    for (let n = Math.floor(((i + random() / 2) / planned) * each * UNTIL); ; n++) {
      const occasion = mayFollow(kind, point, n) ? victim.occasion(from, n, point) : undefined
      if (!occasion || plan[occasion.agent]?.[occasion.key] || !mayDieOf(kind, occasion.agent)) continue
      plan[occasion.agent] ??= {}
      plan[occasion.agent]![occasion.key] = { kind, point }
      break
    }
  }
  return plan
}

/** Cards in an order of chance, shuffled again when they are used up: each comes as often as its number says. */
class Deck<Card> {
  readonly #all: readonly Card[]
  readonly #random: () => number
  #left: Card[] = []

  constructor(all: readonly Card[], random: () => number) {
    this.#all = all
    this.#random = random
  }

  /** The next that fits; those that do not keep their place. */
  draw(fits: (card: Card) => boolean = () => true): Card {
    for (;;) {
      const at = this.#left.findIndex(fits)
      if (at >= 0) return this.#left.splice(at, 1)[0]!
      this.#left.push(...this.#shuffled())
    }
  }

  #shuffled(): Card[] {
    const cards = [...this.#all]
    for (let i = cards.length - 1; i > 0; i--) {
      const j = Math.floor(this.#random() * (i + 1))
      ;[cards[i], cards[j]] = [cards[j]!, cards[i]!]
    }
    return cards
  }
}
