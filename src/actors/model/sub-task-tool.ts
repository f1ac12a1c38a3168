/**
 * The tool that a sub-task names: its worker uses it with the input of the sub-task. An input that fits is given to the
 * tool at once. Otherwise the model has to call that tool first. Source: document 001, 4.6.
 */
import { DramatisError, describe, ToolInputError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { headIn } from '../../mailbox/sub-task.ts'
import type { Content } from '../definition/content.ts'
import type { RoleTools } from './role-tools.ts'

/** Words about a tool that was used for the model, or the name of the tool that it has to call first. */
export type SubTaskTool = { told: Content } | { demanded: string }

/** Returns the name of the tool that the message demands: it is a sub-task that names one of those tools. */
export function demandedTool(
  { structuredData }: Pick<AgentMessage, 'structuredData'>,
  tools: RoleTools,
): string | undefined {
  const { toolName } = Object(structuredData) as { toolName?: unknown }
  if (typeof toolName !== 'string' || headIn(structuredData) === undefined) return undefined
  return tools.specs.find(({ name }) => name === toolName)?.name
}

/** Uses that tool with the input of the sub-task, if it fits. `refusal` says why the turn must stop. */
export async function useSubTaskTool(
  { content, structuredData }: Pick<AgentMessage, 'content' | 'structuredData'>,
  toolName: string,
  tools: RoleTools,
  refusal: () => DramatisError | undefined,
  signal: AbortSignal | undefined,
): Promise<SubTaskTool> {
  const { subTaskInput } = Object(structuredData) as { subTaskInput?: unknown }
  if (isDescription(subTaskInput, content)) return { demanded: toolName }
  try {
    const output = await tools.call(toolName, JSON.stringify(subTaskInput), signal)
    return { told: after(`The tool "${toolName}" was called with the input of this sub-task. Its result:`, output) }
  } catch (error) {
    if (refusal() || signal?.aborted) throw error
    if (error instanceof ToolInputError) return { demanded: toolName }
    const why = error instanceof DramatisError ? error.message : describe(error)
    return { told: `The tool "${toolName}" was called with the input of this sub-task. Error: ${why}` }
  }
}

/** Checks whether the planner has named no input: then the description of the sub-task stands in its place. */
function isDescription(input: unknown, description: string): boolean {
  const fields = Object.entries(Object(input))
  return fields.length === 1 && fields[0]![0] === 'task' && fields[0]![1] === description
}

const after = (text: string, output: Content): Content =>
  typeof output === 'string' ? `${text}\n\n${output}` : [{ type: 'text', text }, ...output]
