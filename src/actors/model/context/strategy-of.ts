/** Which context strategy an agent has: what its role says, and what its definition can do. */
import { ConfigurationError } from '../../../errors.ts'
import type { Assignment } from '../../definition/assignment.ts'
import type { AgentHandlers } from '../../definition/definition.ts'
import type { ContextStrategy } from '../../definition/role.ts'

/**
 * A definition with a `buildContext` has its own strategy, unless the role names another.
 *
 * @throws ConfigurationError where one of the two would have no effect.
 */
export function strategyOf(
  { role, option, contextStrategy }: Assignment,
  { buildContext }: AgentHandlers,
): ContextStrategy | undefined {
  const isCustom = contextStrategy?.strategy === 'custom'
  if (buildContext) {
    if (!contextStrategy || isCustom) return contextStrategy ?? { strategy: 'custom' }
    throw wrong(
      option,
      `is "${contextStrategy.strategy}", but the definition of "${role.name}" has a buildContext, which would have no effect; say 'custom', or take it out`,
      { agent: role.name, got: contextStrategy.strategy, accepted: "'custom'" },
    )
  }
  if (!isCustom) return contextStrategy
  throw wrong(
    option,
    `is "custom", but "${role.name}" has no definition with a buildContext; give it a module that has one`,
    {
      agent: role.name,
      got: 'custom',
      accepted: "'append_until_full' or 'hierarchical'",
    },
  )
}

function wrong(option: string, text: string, details: object): ConfigurationError {
  const path = `${option}.contextStrategy.strategy`
  return new ConfigurationError(`${path} ${text}.`, { path, ...details })
}
