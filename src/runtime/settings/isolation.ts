/**
 * Decides whether an agent shares its thread with others. Only model agents may: their thread runs no code but the
 * runtime's.
 */
import type { AgentRole } from '../../actors/definition/role.ts'
import { refusedAs } from '../checks/refused.ts'
import type { ToolSettings } from './tools.ts'

/** 'thread': the agent has a thread for itself. 'shared': it shares one with other model agents. */
export type Isolation = NonNullable<AgentRole['isolation']>

interface Given {
  /** Default of the team. */
  readonly team: Isolation | undefined
  readonly playedByModel: boolean
  readonly tools: ToolSettings
}

/**
 * Returns the isolation of the role at `path`. Throws `ConfigurationError` for a role that says 'shared' and cannot be.
 * A default of the team holds for the roles that can.
 */
export function isolationOf(role: AgentRole, path: string, { team = 'thread', ...given }: Given): Isolation {
  const wanted = role.isolation ?? team
  if (wanted === 'thread') return 'thread'
  const reason = whyNotShared(role, path, given)
  if (reason === undefined) return 'shared'
  if (role.isolation === undefined) return 'thread'
  throw refusedAs(
    `${path}.isolation`,
    '"shared"',
    '"thread", or a role whose thread runs no code of yours',
    `Agent "${role.name}" cannot share a thread: ${reason}.`,
  )
}

function whyNotShared(
  { module, env = [], limits = {} }: AgentRole,
  path: string,
  { playedByModel, tools }: Omit<Given, 'team'>,
): string | undefined {
  if (module !== undefined) return `its code runs in it (${path}.module)`
  if (!playedByModel) return 'its code, given as a definition, runs in it'
  const [tool] = tools.modules
  if (tool) return `${tool.option} runs in it (give that isolate: true, or give the tool itself)`
  if (env.length > 0) return `its environment is that of one agent (${path}.env)`
  for (const name of ['maxHeapMb', 'maxExternalMb'] as const)
    if (limits[name] !== undefined) return `its memory cannot be limited for one agent (${path}.limits.${name})`
  return undefined
}
