/**
 * Settings that the strategy `hierarchical` changes before a team's first run: who escalates to whom, and how deeply
 * agents may delegate.
 */
import type { AgentRole } from '../actors/definition/role.ts'
import type { AgentSettings } from '../runtime/settings/agent-settings.ts'
import { type DelegationBound, depthBound } from '../runtime/settings/delegation-bound.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'
import type { Autonomy } from './moves/led-task.ts'

/** Options of the strategy that define the hierarchy. */
interface Chart {
  manager: string
  workers: readonly string[]
  maxDelegationDepth?: number
  workerAutonomy?: Autonomy
  progressReporting?: boolean
}

/**
 * Returns the settings of a team for a configuration that has been checked. They also apply to agents that are added
 * later.
 */
export function organized(settings: TeamSettings, config: Chart): TeamSettings {
  const isWorker = ({ name }: AgentSettings) => config.workers.includes(name)
  const names = settings.agents.map(({ name }) => name)
  return {
    ...settings,
    agents: settings.agents.map((agent, i) => {
      const others = names.filter((name) => name !== agent.name)
      return isWorker(agent) ? settings.newcomer(roleOf(agent, config), `agents[${i}]`, others) : agent
    }),
    newcomer(role, path, others, expected) {
      const agent = settings.newcomer(role, path, others, expected)
      return isWorker(agent) ? settings.newcomer(roleOf(agent, config), path, others, expected) : agent
    },
    delegation: boundOf(config),
  }
}

function boundOf({ maxDelegationDepth = 2, workerAutonomy = 'low' }: Chart): DelegationBound {
  if (workerAutonomy === 'high') return depthBound(maxDelegationDepth)
  const why = `with workerAutonomy "${workerAutonomy}" the manager alone delegates`
  return { limit: 1, name: 'workerAutonomy', why }
}

/**
 * Returns a worker's role with its additions: its superior, and verbs that a model agent has as tools. Code agents have
 * all verbs.
 */
function roleOf({ role, playedByModel }: AgentSettings, config: Chart): AgentRole {
  const { maxDelegationDepth = 2, workerAutonomy = 'low', progressReporting = true } = config
  const { escalateTo = config.manager, tools = [], trust, delegationAllowed = true, canDelegateTo } = role
  const placed = { ...role, escalateTo }
  if (!playedByModel || trust === 'untrusted') return placed
  const isFree = workerAutonomy === 'high'
  const mayDelegate = delegationAllowed && canDelegateTo?.length !== 0 && maxDelegationDepth > 1
  const verbs = [
    ...(progressReporting ? ['report'] : []),
    ...(isFree ? ['request'] : []),
    ...(isFree && mayDelegate ? ['delegate'] : []),
  ]
  return { ...placed, tools: [...tools, ...verbs.filter((verb) => !tools.includes(verb))] }
}
