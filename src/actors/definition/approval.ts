/** Decides whether a person has to approve a tool call, and builds the question for that person. */
import { describe, ToolFailedError, ToolInputError } from '../../errors.ts'
import { visible } from '../../visible.ts'
import { checkBySchema } from './schema.ts'
import type { ToolDefinition } from './tool.ts'

/** Arguments of `ask`. */
interface ApprovalQuestion {
  readonly question: string
  readonly choices: string[]
  readonly ask: 'approval'
}

const YES = 'yes'
/**
 * Limit of the input that a person is shown, in characters. A longer input is refused: its beginning could hide its
 * end.
 */
const LONGEST_INPUT = 20_000

/**
 * Returns the approval question, or undefined if no approval is needed. An input that misses the schema needs none: the
 * call itself then reports the error. The question contains the whole input, with invisible characters written out.
 * Throws `ToolFailedError` for an input that is too long for a person.
 */
export async function approvalOf(
  tool: ToolDefinition,
  input: unknown,
  agent: string,
): Promise<ApprovalQuestion | undefined> {
  const { name } = tool
  if (!tool.approval || !(await isWanted(tool, input, agent))) return undefined
  const shown = visible(JSON.stringify(input) ?? 'nothing')
  if (shown.length > LONGEST_INPUT) {
    const text = `Agent "${agent}" called the tool "${name}", which a person has to approve, with an input of ${shown.length} characters. A person is shown all of it, and at most ${LONGEST_INPUT}. Give the tool less at once.`
    throw new ToolFailedError(text, { tool: name, agent, characters: shown.length, limit: LONGEST_INPUT })
  }
  const question = `May agent "${agent}" call the tool "${name}" with ${shown}?`
  return { question, choices: [YES, 'no'], ask: 'approval' }
}

async function isWanted(tool: ToolDefinition, input: unknown, agent: string): Promise<boolean> {
  const misses = new ToolInputError('it misses the schema')
  try {
    const value = await checkBySchema(tool.input, input, () => misses)
    return tool.needsApproval(value)
  } catch (error) {
    if (error === misses) return false
    const text = `Tool "${tool.name}", called by agent "${agent}", failed to say whether it needs approval: ${describe(error)}`
    throw new ToolFailedError(text, { tool: tool.name, agent }, error)
  }
}

/** Throws `ToolFailedError` unless a person has approved the call. */
export function assertApproved(answer: unknown, tool: string, agent: string): void {
  if (answer === YES) return
  const text = `A person did not agree that agent "${agent}" calls the tool "${tool}". Do something else, or ask for less.`
  throw new ToolFailedError(text, { tool, agent, approved: false })
}
