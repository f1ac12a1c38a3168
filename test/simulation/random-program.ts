/**
 * Programs at random: trees of messages in which each agent asks, tells, delegates, hands off, meets others, sleeps, works and
 * fails. In an orderly one requests go from earlier agents to later ones alone, so that it ends when nothing stands in its way;
 * but for those that go back to an agent which waits for them, and takes them within the turn that waits. In an entangled one
 * anybody asks anybody, so that some wait for each other.
 */
import type { Dice } from '../dice.ts'

/** Who meets at the sync point `MEETING`: they ask nobody. */
export const MEMBERS = ['fay', 'gus'] as const
export const MEETING = 'meeting'

export type Action =
  | { do: 'send' | 'request' | 'requestStream' | 'delegate' | 'handoff' | 'escalate'; to: string; plan: Plan }
  | { do: 'requestAll' | 'requestAny'; to: string[]; plan: Plan }
  | { do: 'requestQuorum'; to: string[]; count: number; plan: Plan }
  | { do: 'sleep'; ms: number }
  | { do: 'publish'; key: string }
  | { do: 'waitFor'; key: string; timeoutMs: number }
  | { do: 'step' | 'fail' | 'draw' | 'meet' | 'broadcast' }

/** What tells somebody else to do something. */
export type Telling = Extract<Action, { plan: Plan }>

/** What a message makes its recipient do. The path names the message. */
export interface Plan {
  path: string
  actions: Action[]
}

/** The plan, and all that it makes others do. */
export function* plansIn(plan: Plan): IterableIterator<Plan> {
  yield plan
  for (const action of plan.actions) if ('plan' in action) yield* plansIn(action.plan)
}

type OneToOne = Extract<Telling, { to: string }>['do']

/** What a plan is made for. */
interface Scene {
  readonly path: string
  /** Those that nobody of its chain is: it may ask them. */
  readonly later: readonly string[]
  /** Agents of its chain that take a request back within the turn that waits for it. */
  readonly back: readonly string[]
  readonly self: string
  readonly depth: number
}

/** Which verbs a program has. */
export interface Verbs {
  /** Those whose turns take requests that come back to them. */
  readonly reentrant?: readonly string[]
  /** It delegates, and hands off. */
  readonly tasks?: boolean
  /** It lets the members meet. */
  readonly meetings?: boolean
  /** It asks some of several, reads answers in pieces, writes on the blackboard and waits for what is written there. */
  readonly talk?: boolean
  /** Whom each asks when it cannot go on, where it does. */
  readonly managers?: Readonly<Record<string, string>>
  /** It tells all at once: no mailbox is ever full. */
  readonly broadcasts?: boolean
}

/** An orderly plan for the first of `agents`. */
export function randomPlan(dice: Dice, agents: readonly string[], path: string, verbs: Verbs = {}): Plan {
  const [first = '', ...later] = agents
  return new Orderly(dice, verbs).plan({ path, later, self: first, back: [], depth: 4 }, true)
}

class Orderly {
  readonly #dice: Dice
  readonly #verbs: Verbs

  constructor(dice: Dice, verbs: Verbs) {
    this.#dice = dice
    this.#verbs = verbs
  }

  /** `awaited`: somebody waits for its answer. */
  plan(scene: Scene, awaited: boolean): Plan {
    const { path, self } = scene
    const above = awaited ? scene.back : []
    const mine = this.#verbs.reentrant?.includes(self) && !above.includes(self) ? [self] : []
    const inside = { ...scene, back: [...above, ...mine] }
    const actions = Array.from({ length: 1 + this.#dice.upTo(4) }, (_, i) => this.#action(inside, `${path}.${i}`))
    // Whoever waits for this turn waits for the other's then, and this one is over.
    if (this.#verbs.tasks && this.#mayAsk(scene) && this.#dice.chance(0.1))
      actions.push(this.#told('handoff', { ...scene, back: above }, `${path}.${actions.length}`, awaited))
    return { path, actions }
  }

  #mayAsk({ later, depth }: Scene): boolean {
    return later.length > 0 && depth > 1
  }

  #action(scene: Scene, path: string): Action {
    const dice = this.#dice
    const { back, later, depth } = scene
    if (back.length > 0 && depth > 0 && dice.chance(0.25)) {
      const to = dice.pick(back)
      return { do: 'request', to, plan: this.plan({ ...scene, path, depth: depth - 1, self: to }, true) }
    }
    if (this.#verbs.meetings && dice.chance(0.08)) return this.#meeting(path)
    if (this.#verbs.talk && dice.chance(0.4)) return this.#talk(scene, path)
    const next = this.#mayAsk(scene) ? dice.upTo(9) : 4 + dice.upTo(4)
    if (next === 8 && this.#verbs.tasks) return this.#told('delegate', scene, path, true)
    if (next >= 4) return ownAction(dice)
    if (next < 2) return this.#told(next === 0 ? 'send' : 'request', scene, path, next === 1)
    const to = dice.upTo(later.length)
    const plan = withoutMessages(this.plan({ ...this.#after(scene, to, path), back: [] }, false))
    return { do: next === 2 ? 'requestAll' : 'requestAny', to: later.slice(to, to + 2), plan }
  }

  #told(verb: OneToOne, scene: Scene, path: string, awaited: boolean): Telling {
    const to = verb === 'escalate' ? 0 : this.#dice.upTo(scene.later.length)
    return { do: verb, to: scene.later[to]!, plan: this.plan(this.#after(scene, to, path), awaited) }
  }

  #talk(scene: Scene, path: string): Action {
    const dice = this.#dice
    const key = `key${dice.upTo(4)}`
    const next = dice.upTo(this.#mayAsk(scene) ? 8 : 4)
    if (next < 2) return { do: 'publish', key }
    if (next === 2) return { do: 'waitFor', key, timeoutMs: 1 + dice.upTo(40) }
    if (next === 3) return this.#verbs.broadcasts ? { do: 'broadcast' } : { do: 'publish', key }
    if (next === 4 && this.#verbs.managers?.[scene.self] === scene.later[0])
      return this.#told('escalate', scene, path, true)
    if (next < 7) return this.#told('requestStream', scene, path, true)
    const to = scene.later.slice(dice.upTo(scene.later.length))
    const plan = withoutMessages(
      this.plan({ ...this.#after(scene, scene.later.length - to.length, path), back: [] }, false),
    )
    return { do: 'requestQuorum', to, count: 1 + dice.upTo(to.length), plan }
  }

  #after({ later, back, depth }: Scene, to: number, path: string): Scene {
    return { path, later: later.slice(to + 1), self: later[to]!, back, depth: depth - 1 }
  }

  #meeting(path: string): Telling {
    const actions = Array.from({ length: this.#dice.upTo(3) }, () => ownAction(this.#dice))
    return { do: 'requestAll', to: [...MEMBERS], plan: { path, actions: [...actions, { do: 'meet' }] } }
  }
}

/** A plan in which anybody asks anybody: the members of the meeting too, and they meet in the middle of other things. */
export function entangledPlan(dice: Dice, agents: readonly string[], path: string, depth = 3): Plan {
  const actions = Array.from({ length: 1 + dice.upTo(3) }, (_, i): Action => {
    const at = `${path}.${i}`
    if (depth === 0 || dice.chance(0.3)) return dice.chance(0.2) ? { do: 'meet' } : ownAction(dice)
    const to = Array.from({ length: 2 }, () => dice.pick(agents))
    const plan = entangledPlan(dice, agents, at, depth - 1)
    const verb = dice.pick(['request', 'request', 'delegate', 'send', 'requestAll', 'requestAny'] as const)
    if (verb === 'requestAll' || verb === 'requestAny')
      return { do: verb, to: [...new Set(to)], plan: withoutMessages(plan) }
    return { do: verb, to: to[0]!, plan }
  })
  if (depth > 0 && dice.chance(0.1))
    actions.push({
      do: 'handoff',
      to: dice.pick(agents),
      plan: entangledPlan(dice, agents, `${path}.${actions.length}`, depth - 1),
    })
  return { path, actions }
}

/** What an agent does that tells nobody anything. */
export const ownActions = (dice: Dice): Action[] => Array.from({ length: 1 + dice.upTo(3) }, () => ownAction(dice))

function ownAction(dice: Dice): Action {
  const drawn = dice.upTo(20)
  if (drawn === 0) return { do: 'fail' }
  if (drawn < 8) return { do: 'sleep', ms: dice.upTo(30) }
  return { do: drawn < 14 ? 'step' : 'draw' }
}

/** Several agents get the same: what they send on would go backwards for some. */
const withoutMessages = ({ path, actions }: Plan): Plan => ({
  path,
  actions: actions.filter((action) => !('plan' in action)),
})
