/**
 * A desk that writes programs, after the third source document: an orchestrator that talks with the user, and an executor with
 * files and commands in one folder. Who they are is in agents.yaml; their classes are ready. Only the executor has tools of its
 * own here, since its folder is another one each time, and it may start node.
 */
import { loadTeam, type MultiAgentPatternOptions } from 'dramatis'
import { decomposeTask, markSubtaskComplete, workspace } from 'dramatis/tools'

export interface DeskOptions {
  /** The folder that the executor works in. */
  root: string
  agentsFile: URL
  models?: MultiAgentPatternOptions['models']
}

export async function codingDesk({ root, agentsFile, models }: DeskOptions): Promise<MultiAgentPatternOptions> {
  const { agents, ...options } = await loadTeam(agentsFile)
  const [orchestrator, executor] = agents
  const tools = [
    ...workspace({ root, allow: ['node', 'python', 'pytest', 'ruff', 'pip'] }),
    decomposeTask,
    markSubtaskComplete,
  ]
  return { ...options, agents: [orchestrator!, { ...executor!, tools }], ...(models && { models }) }
}
