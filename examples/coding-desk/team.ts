/**
 * A desk that writes programs, after the third source document: an orchestrator that talks with the user, and an executor with
 * files and commands in one folder. Who they are is in agents.yaml; what they can do is here.
 */
import { type AgentRole, defineTool, loadTeam, type MultiAgentPatternOptions } from 'dramatis'
import { decomposeTask, markSubtaskComplete, workspace } from 'dramatis/tools'
import { z } from 'zod'

export interface DeskOptions {
  /** The folder that the executor works in. */
  root: string
  agentsFile: URL
  models?: MultiAgentPatternOptions['models']
}

const createTaskPlan = defineTool({
  name: 'create_task_plan',
  description: 'Writes down the tasks of a request before they are delegated, in order.',
  input: z.strictObject({ tasks: z.array(z.string().min(1)).min(1).max(20) }),
  idempotent: true,
  run: ({ tasks }) => tasks.map((task, i) => `${i + 1}. ${task}`).join('\n'),
})

const OrchestratorAgent: AgentRole = {
  name: 'OrchestratorAgent',
  description: 'talks with the user, plans, and delegates',
  systemPrompt:
    'You help users to plan and make software. Understand what is wanted; ask the user with ask_user when it is unclear. Break it up with create_task_plan, delegate each task to the task_executor, and report what came of it.',
  tools: ['delegate', 'ask_user', 'agent_status', createTaskPlan],
  contextStrategy: { strategy: 'append_until_full', threshold: 0.8, keepRecent: 20 },
  communication: { responseTimeoutMs: 600_000 }, // users take their time
}

const executor = (root: string): AgentRole => ({
  name: 'TaskExecutorAgent',
  description: 'writes files and runs commands in the workspace',
  systemPrompt:
    'You do one coding task in your workspace. Take it apart with decompose_task, work on one subtask at a time, run what you wrote, and say mark_subtask_complete when one is done.',
  tools: [
    ...workspace({ root, allow: ['node', 'python', 'pytest', 'ruff', 'pip'] }),
    decomposeTask,
    markSubtaskComplete,
  ],
  contextStrategy: { strategy: 'hierarchical', historyKeep: 12 },
  escalateTo: 'orchestrator',
  communication: { responseTimeoutMs: 600_000 },
})

export async function codingDesk({ root, agentsFile, models }: DeskOptions): Promise<MultiAgentPatternOptions> {
  const agents = { OrchestratorAgent, TaskExecutorAgent: executor(root) }
  const options = await loadTeam(agentsFile, { agents })
  return models === undefined ? options : { ...options, models }
}
