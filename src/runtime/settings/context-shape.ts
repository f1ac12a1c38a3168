/** Shape of a role's `contextStrategy`, and what it needs of the rest of the role. */
import type { AgentRole, ContextStrategy } from '../../actors/definition/role.ts'
import { type Check, integer, isObject, number, oneOf, shape } from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'

type Shapes = { [Name in ContextStrategy['strategy']]: Check }

const common = {
  strategy: oneOf('append_until_full', 'hierarchical', 'custom'),
  inherit: oneOf('none', 'summary', 'full'),
}

/** Shapes by strategy. Each strategy has its own options: an option of another strategy has no effect. */
const shapes: Shapes = {
  append_until_full: shape({ ...common, threshold: number(0.01, 1), keepRecent: integer(1) }, 'strategy'),
  hierarchical: shape({ ...common, historyKeep: integer(1) }, 'strategy'),
  custom: shape(common, 'strategy'),
}

export const contextStrategyShape: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object with a strategy')
  const strategy: unknown = reading(path, () => Reflect.get(value, 'strategy'))
  common.strategy(strategy, `${path}.strategy`)
  shapes[strategy as keyof Shapes](value, path)
}

/** Returns a copy of the strategy of the role at `path`. Throws if the rest of the role leaves it without effect. */
export function contextStrategyOf(role: AgentRole, path: string, playedByModel: boolean): ContextStrategy | undefined {
  const { contextStrategy, maxTokens, maxOutputTokens } = role
  if (maxTokens !== undefined && maxOutputTokens !== undefined && maxOutputTokens >= maxTokens)
    throw refusedAs(
      `${path}.maxOutputTokens`,
      String(maxOutputTokens),
      `less than maxTokens (${maxTokens})`,
      'The answer and what the model reads share its window.',
    )
  if (!contextStrategy) return undefined
  if (contextStrategy.strategy === 'custom' && playedByModel)
    throw refusedAs(
      `${path}.contextStrategy.strategy`,
      '"custom"',
      '"append_until_full", "hierarchical"',
      'Custom is what buildContext of a definition does: give the role a module.',
    )
  return { ...contextStrategy }
}
