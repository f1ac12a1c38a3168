/** Answers over HTTP, and who may give them: a question is for the caller of its task, an approval is not. */
import type { OpenQuestionInfo } from '../../index.ts'
import { callerIn } from '../../runtime/state/caller.ts'
import { refusalOf } from '../../runtime/verbs/open-question.ts'
import type { Caller, Right } from './options.ts'

/** Returns why a caller may not answer a question of a run; undefined if nothing is against it. */
export function refusalFor(
  { id, may }: Caller,
  { kind, by = 'others' }: Pick<OpenQuestionInfo, 'kind' | 'by'>,
  metadata: Readonly<Record<string, string>> | undefined,
  approveOwn: boolean,
): string | undefined {
  const owner = callerIn(metadata)
  const needs = (right: Right) =>
    may.includes(right) ? undefined : `"${id}" may not do that: it takes the right ${right}.`
  const isOwn = owner === id
  if (kind === 'ask') return isOwn ? undefined : needs('operate')
  const refusal = refusalOf(owner, { kind, by }, { by: { id }, approveOwn })
  if (refusal !== undefined) return refusal
  return isOwn && by !== 'others' ? undefined : needs('approve')
}
