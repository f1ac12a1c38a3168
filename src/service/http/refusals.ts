/** Who may answer a question over HTTP. A question is for its task's caller, an approval is not. */
import type { OpenQuestionInfo } from '../../index.ts'
import { callerIn } from '../../runtime/state/caller.ts'
import { refusalOf } from '../../runtime/verbs/open-question.ts'
import type { Caller, Right } from './options.ts'
import type { ServedTeam } from './task-view.ts'

/** Returns why a caller may not answer a question of a run; undefined if nothing is against it. */
export function refusalFor(
  { id, may }: Caller,
  question: Pick<OpenQuestionInfo, 'kind' | 'by'>,
  metadata: Readonly<Record<string, string>> | undefined,
  { approveOwn }: Pick<ServedTeam, 'approveOwn'>,
): string | undefined {
  const owner = callerIn(metadata)
  const needs = (right: Right) =>
    may.includes(right) ? undefined : `"${id}" may not do that: it takes the right ${right}.`
  const isOwn = owner === id
  if (question.kind === 'ask') return isOwn ? undefined : needs('operate')
  const refusal = refusalOf(owner, question, { by: { id }, approveOwn })
  if (refusal !== undefined) return refusal
  return isOwn && question.by !== 'others' ? undefined : needs('approve')
}
