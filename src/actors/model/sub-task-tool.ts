/**
 * The tool that a sub-task names: its worker uses it with the input of the sub-task. An input that fits is given to the
 * tool at once. Otherwise the model has to call that tool first. Source: document 001, 4.6.
 */
import { DramatisError, describe, ToolInputError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { headIn } from '../../mailbox/sub-task.ts'
import type { Content } from '../definition/content.ts'
import type { RoleTools } from './role-tools.ts'

/** What a model is told of a tool that was used for it, or the name of the tool that it has to call first. */
export type SubTaskTool = { told: Content } | { demanded: string } | undefined

/** Uses the tool that the message names, if it is a sub-task for one of those tools. `refusal`: why a turn must stop. */
export async function useSubTaskTool(
  { content, structuredData }: Pick<AgentMessage, 'content' | 'structuredData'>,
  tools: RoleTools,
  refusal: () => DramatisError | undefined,
  signal: AbortSignal | undefined,
): Promise<SubTaskTool> {
  const { toolName, subTaskInput } = Object(structuredData) as { toolName?: unknown; subTaskInput?: unknown }
  if (headIn(structuredData) === undefined || typeof toolName !== 'string') return undefined
  if (!tools.specs.some(({ name }) => name === toolName)) return undefined
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
