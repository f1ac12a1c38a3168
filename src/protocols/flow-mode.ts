/** Environment variable `FLOW_MODE`, which selects one of three flows for the same team. */
import type { AgentRole, ToolReference } from '../actors/definition/role.ts'
import { isObject } from '../shared/checks.ts'
import { ConfigurationError, shown } from '../shared/errors.ts'
import { own } from '../shared/values.ts'
import type { OrchestrationConfig, UnnamedConfig } from './index.ts'
import type { FlowMode, SupervisorConfig } from './supervisor.ts'

/** Flow modes by their accepted names. `langgraph` is another name of the fixed flow. */
const MODES: Readonly<Record<string, FlowMode>> = {
  tools: 'tools',
  graph: 'graph',
  langgraph: 'graph',
  multi_agent: 'multi_agent',
}

interface Switchable {
  agents: readonly AgentRole[]
  orchestration: OrchestrationConfig | UnnamedConfig
}

/**
 * Returns the options of a team for a flow mode, as `orchestration.flow` of the strategy `supervisor` describes it. In
 * 'tools' the agent that answers alone also gets the tools and `keys` of the supervisor and of the experts. If the mode
 * is undefined or empty, it returns the options as they are. The library never reads the environment by itself; the
 * command line does, and passes `FLOW_MODE` here.
 *
 * @param mode `tools`, `graph` (or `langgraph`) or `multi_agent`.
 * @throws {ConfigurationError} for another mode, and for `tools` or `graph` where the strategy is another one.
 *
 * @example
 * const team = createTeam(inFlowMode(options, process.env.FLOW_MODE))
 */
export function inFlowMode<Options extends Switchable>(options: Options, mode: string | undefined): Options {
  if (mode === undefined || mode === '') return options
  const flow = own(MODES, mode)
  const accepted = Object.keys(MODES).join(', ')
  if (flow === undefined) throw wrong(mode, accepted, `accepted: ${accepted}.`)
  const { orchestration } = options
  if (!isObject(orchestration) || orchestration.strategy !== 'supervisor') {
    if (flow === 'multi_agent') return options
    throw wrong(mode, 'multi_agent', 'only a team of the strategy "supervisor" has such a flow. Unset it for this one.')
  }
  const switched = { ...options, orchestration: { ...orchestration, flow } }
  return flow === 'tools'
    ? { ...switched, agents: equipped(options.agents, orchestration as SupervisorConfig) }
    : switched
}

/** Gives the agent that answers alone the tools and keys of the others; of tools with one name the first is kept. */
function equipped(agents: readonly AgentRole[], { supervisor, experts, fallback }: SupervisorConfig): AgentRole[] {
  const alone = fallback ?? supervisor
  const owners = [alone, supervisor, ...experts]
  const roles = owners.flatMap((owner) => agents.filter(({ name }) => name === owner))
  const tools = [...new Map(roles.flatMap((role) => role.tools ?? []).map((tool) => [keyOf(tool), tool])).values()]
  const keys = [...new Set(roles.flatMap((role) => role.keys ?? []))]
  const all = { ...(tools.length > 0 && { tools }), ...(keys.length > 0 && { keys }) }
  return agents.map((agent) => (agent.name === alone ? { ...agent, ...all } : agent))
}

function keyOf(tool: ToolReference): string {
  if (typeof tool === 'string') return tool
  return 'name' in tool ? tool.name : `${tool.module}#${tool.export}`
}

const wrong = (mode: string, accepted: string, advice: string): ConfigurationError =>
  new ConfigurationError(`FLOW_MODE: got ${shown(mode)}; ${advice}`, { path: 'FLOW_MODE', got: shown(mode), accepted })
