/** Which calls of tools a person has approved. A call is made with the input that the person has seen, or has given. */
import { type ApprovedCall, type GivenAnswer, YES } from '../../actors/definition/approval.ts'
import type { RunState } from '../state/run-state.ts'

/** Notes the answer of a person: the call may begin, with that input alone. */
export function noteApproval(
  { approved }: RunState,
  { callId, input }: Pick<ApprovedCall, 'callId' | 'input'>,
  given: GivenAnswer,
): void {
  const { answer, ...edited } = typeof given === 'string' ? { answer: given } : given
  if (answer === YES) approved.set(callId, jsonOf('input' in edited ? edited.input : input))
}

/** Checks whether a person has approved the call with that input, in this process or in an earlier one. */
export function isApprovedIn(run: RunState, callId: string, input: unknown): boolean {
  if (!run.approved.has(callId)) recallApproval(run, callId)
  return run.approved.get(callId) === jsonOf(input)
}

/** Reads an approval of an earlier process from the log. */
function recallApproval(run: RunState, callId: string): void {
  const asked = new Map<string, ApprovedCall>()
  for (const entry of run.log.entries(-1, run.log.adopted)) {
    if (entry.kind === 'question' && entry.ask === 'approval' && entry.callId === callId)
      asked.set(entry.questionId, entry as ApprovedCall)
    const call = entry.kind === 'answer' && asked.get(entry.questionId)
    if (call) noteApproval(run, call, entry)
  }
}

const jsonOf = (input: unknown): string => JSON.stringify(input) ?? ''
