/** Decides whether a person has to approve a tool call, builds the question for that person, and reads the answer. */

import { describe, ToolFailedError, ToolInputError } from '../../shared/errors.ts'
import { visible } from '../../shared/text.ts'
import { checkBySchema } from './schema.ts'
import type { Approvers, ToolDefinition } from './tool.ts'

/**
 * Answer of a person to an approval. `input` replaces the input of the call; `reason` says why the call may not begin.
 *
 * @example
 * await run.answer(questionId, { approved: true, input: { to: 'ann', euros: 50 } })
 * await run.answer(questionId, { approved: false, reason: 'It is too much.' })
 */
export type ApprovalAnswer = { approved: true; input?: unknown } | { approved: false; reason?: string }

/** Answer as the log and the caller of the question have it: plain, or an approval with more than yes or no. */
export type GivenAnswer = string | { answer: string; input?: unknown; reason?: string }

/** The call of a tool that an approval is about. */
export interface ApprovedCall {
  readonly tool: string
  readonly callId: string
  readonly input: unknown
  /** JSON schema of the input. */
  readonly inputSchema: object
  readonly by: Approvers
}

/** Arguments of `ask`. */
export interface ApprovalQuestion extends Omit<ApprovedCall, 'by'> {
  readonly question: string
  readonly choices: string[]
  readonly ask: 'approval'
  readonly answerWithinMs?: number
  /** Default: 'others'. */
  readonly by?: Approvers
}

export const YES = 'yes'
export const NO = 'no'
/**
 * Limit of the input that a person is shown, in characters. A longer input is refused: its beginning could hide its
 * end.
 */
const LONGEST_INPUT = 20_000

/** A call of a tool by an agent. */
interface Call {
  readonly agent: string
  readonly callId: string
  readonly input: unknown
}

/**
 * Returns the approval question, or undefined if no approval is needed. An input that misses the schema needs none: the
 * call itself then reports the error. The question contains the whole input, with invisible characters written out.
 * Throws `ToolFailedError` for an input that is too long for a person.
 */
export async function approvalOf(tool: ToolDefinition, call: Call): Promise<ApprovalQuestion | undefined> {
  const { name, inputSchema, answerWithinMs, approvers } = tool
  const { agent, callId, input } = call
  if (!tool.approval || !(await isWanted(tool, input, agent))) return undefined
  const shown = visible(JSON.stringify(input) ?? 'nothing')
  if (shown.length > LONGEST_INPUT) {
    const text = `Agent "${agent}" called the tool "${name}", which a person has to approve, with an input of ${shown.length} characters. A person is shown all of it, and at most ${LONGEST_INPUT}. Give the tool less at once.`
    throw new ToolFailedError(text, { tool: name, agent, characters: shown.length, limit: LONGEST_INPUT })
  }
  const question = `May agent "${agent}" call the tool "${name}" with ${shown}?`
  const limit = answerWithinMs !== undefined && { answerWithinMs }
  const by = approvers !== 'others' && { by: approvers } // arguments as older logs have them
  return { question, choices: [YES, NO], ask: 'approval', tool: name, callId, input, inputSchema, ...limit, ...by }
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

/**
 * Returns the input with which the person lets the call begin, and whether the person has changed it. Throws
 * `ToolFailedError` unless a person has approved the call.
 */
export function approvedInput(
  answer: unknown,
  tool: string,
  { agent, input }: Pick<Call, 'agent' | 'input'>,
): { input: unknown; isEdited: boolean } {
  if (answer === YES) return { input, isEdited: false }
  const given = Object(answer) as { answer?: unknown; input?: unknown; reason?: unknown }
  if (given.answer === YES)
    return 'input' in given ? { input: given.input, isEdited: true } : { input, isEdited: false }
  const reason = typeof given.reason === 'string' && given.reason !== '' ? given.reason : undefined
  const why = reason === undefined ? 'Do something else, or ask for less.' : `The reason: ${reason}`
  const text = `A person did not agree that agent "${agent}" calls the tool "${tool}". ${why}`
  throw new ToolFailedError(text, { tool, agent, approved: false, ...(reason !== undefined && { reason }) })
}
