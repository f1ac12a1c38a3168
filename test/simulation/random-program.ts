/**
 * Programs at random: trees of messages in which each agent asks, tells, sleeps, works and fails. Requests go from
 * earlier agents to later ones alone, so that every program ends when nothing stands in its way.
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

/** A plan for the first of `agents`. */
export function randomPlan(dice: Dice, agents: readonly string[], path: string, depth = 3): Plan {
  const [, ...later] = agents
  const actions = Array.from({ length: 1 + dice.upTo(4) }, (_, i): Action => {
    const next = later.length > 0 && depth > 0 ? dice.upTo(8) : 4 + dice.upTo(4)
    if (next >= 4) return ownAction(dice)
    const to = dice.upTo(later.length)
    const plan = randomPlan(dice, later.slice(to), `${path}.${i}`, depth - 1)
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
