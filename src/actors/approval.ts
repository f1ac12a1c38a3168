/** Whether a person has to agree before a tool is called, and what they are asked. */
import { describe, ToolFailedError, ToolInputError } from '../errors.ts'
import { checkBySchema } from './schema.ts'
import type { ToolDefinition } from './tool.ts'

/** What `ask` is given. */
interface ApprovalQuestion {
  readonly question: string
  readonly choices: string[]
  readonly ask: 'approval'
}

const YES = 'yes'
/** A person reads it. */
const LONGEST_INPUT = 5_000

/** undefined: nobody has to be asked. Of an input that misses the schema the call itself says what is wrong. */
export async function approvalOf(
  tool: ToolDefinition,
  input: unknown,
  agent: string,
): Promise<ApprovalQuestion | undefined> {
  const { name } = tool
  if (!tool.approval || !(await isWanted(tool, input, agent))) return undefined
  const text = JSON.stringify(input) ?? 'nothing'
  const shown = text.length > LONGEST_INPUT ? `${text.slice(0, LONGEST_INPUT)}...` : text
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

/** Throws unless a person has agreed. */
export function assertApproved(answer: unknown, tool: string, agent: string): void {
  if (answer === YES) return
  const text = `A person did not agree that agent "${agent}" calls the tool "${tool}". Do something else, or ask for less.`
  throw new ToolFailedError(text, { tool, agent, approved: false })
}
