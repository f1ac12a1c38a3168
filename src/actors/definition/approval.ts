/** Decides whether a person has to approve a tool call, builds the question for that person, and reads the answer. */

import { describe, ToolFailedError, ToolInputError } from '../../shared/errors.ts'
import { visible } from '../../shared/text.ts'
import { checkBySchema } from './schema.ts'
import { ANY_OTHER, type ApprovalRule, type ToolDefinition } from './tool.ts'

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
export interface ApprovedCall extends ApprovalRule {
  readonly tool: string
  readonly callId: string
  readonly input: unknown
  /** JSON schema of the input. */
  readonly inputSchema: object
}

/** Arguments of `ask`. Of who may approve they have only what differs from the default, as older logs do. */
export interface ApprovalQuestion extends Omit<ApprovedCall, keyof ApprovalRule>, Partial<ApprovalRule> {
  readonly question: string
  readonly choices: string[]
  readonly ask: 'approval'
  readonly answerWithinMs?: number
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
  const characters = shownInput(input).length
  if (characters > LONGEST_INPUT) {
    const text = `Agent "${agent}" called the tool "${name}", which a person has to approve, with an input of ${characters} characters. A person is shown all of it, and at most ${LONGEST_INPUT}. Give the tool less at once.`
    throw new ToolFailedError(text, { tool: name, agent, characters, limit: LONGEST_INPUT })
  }
  const { by, groups, quorum } = approvers
  return {
    question: questionAbout(agent, name, input),
    choices: [YES, NO],
    ask: 'approval',
    tool: name,
    callId,
    input,
    inputSchema,
    ...(answerWithinMs !== undefined && { answerWithinMs }),
    ...(by !== ANY_OTHER.by && { by }),
    ...(groups.length > 0 && { groups }),
    ...(quorum !== ANY_OTHER.quorum && { quorum }),
  }
}

const shownInput = (input: unknown): string => visible(JSON.stringify(input) ?? 'nothing')

/** Returns the question in words, with the whole input. */
export const questionAbout = (agent: string, tool: string, input: unknown): string =>
  `May agent "${agent}" call the tool "${tool}" with ${shownInput(input)}?`

/** Checks whether a person can be shown all of an input. */
export const isShowable = (input: unknown): boolean => shownInput(input).length <= LONGEST_INPUT

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
