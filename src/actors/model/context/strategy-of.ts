/** Decides the context strategy of an agent from its role and its definition. */
import { ConfigurationError } from '../../../errors.ts'
import type { Assignment } from '../../definition/assignment.ts'
import type { AgentHandlers } from '../../definition/definition.ts'
import type { ContextStrategy } from '../../definition/role.ts'

/**
 * Returns 'custom' for a definition with a `buildContext`, otherwise the role's strategy.
 *
 * @throws ConfigurationError if the role's strategy or `buildContext` would have no effect.
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
