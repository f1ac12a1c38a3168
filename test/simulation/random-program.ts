/**
 * Programs at random: trees of messages in which each agent asks, tells, sleeps, works and fails. Requests go from
 * earlier agents to later ones alone, so that every program ends when nothing stands in its way; but for those that go
 * back to an agent which waits for them, and takes them within the turn that waits.
 */
import type { Dice } from '../dice.ts'

export type Action =
  | { do: 'send' | 'request'; to: string; plan: Plan }
  | { do: 'requestAll' | 'requestAny'; to: string[]; plan: Plan }
  | { do: 'sleep'; ms: number }
  | { do: 'step' | 'fail' | 'draw' }

/** What a message makes its recipient do. The path names the message. */
export interface Plan {
  path: string
  actions: Action[]
}

/** What a plan is made for. */
interface Scene {
  readonly path: string
  /** Those that nobody of its chain is: it may ask them. */
  readonly later: readonly string[]
  /** Agents of its chain that take a request back within the turn that waits for it. */
  readonly back: readonly string[]
  readonly depth: number
}

/** A plan for the first of `agents`. `reentrant`: those whose turns take requests that come back to them. */
export function randomPlan(
  dice: Dice,
  agents: readonly string[],
  path: string,
  reentrant: readonly string[] = [],
): Plan {
  const [first, ...later] = agents
  return planFor(dice, { path, later, back: reentrant.filter((name) => name === first), depth: 4 }, reentrant)
}

function planFor(dice: Dice, { path, later, back, depth }: Scene, reentrant: readonly string[]): Plan {
  const actions = Array.from({ length: 1 + dice.upTo(4) }, (_, i): Action => {
    const at = `${path}.${i}`
    if (back.length > 0 && depth > 0 && dice.chance(0.25)) {
      const plan = planFor(dice, { path: at, later, back, depth: depth - 1 }, reentrant)
      return { do: 'request', to: dice.pick(back), plan }
    }
    const next = later.length > 0 && depth > 1 ? dice.upTo(8) : 4 + dice.upTo(4)
    if (next >= 4) return ownAction(dice)
    const to = dice.upTo(later.length)
    const mine = reentrant.filter((name) => name === later[to])
    const scene = {
      path: at,
      later: later.slice(to + 1),
      back: next === 0 ? mine : [...back, ...mine],
      depth: depth - 1,
    }
    const plan = planFor(dice, scene, reentrant)
    if (next < 2) return { do: next === 0 ? 'send' : 'request', to: later[to]!, plan }
    return { do: next === 2 ? 'requestAll' : 'requestAny', to: later.slice(to, to + 2), plan: withoutMessages(plan) }
  })
  return { path, actions }
}

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
