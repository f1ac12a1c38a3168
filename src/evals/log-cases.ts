/** Cases of suites out of the runs of a durable log: what was asked, what people have answered, and the answer. */
import { YES } from '../actors/definition/approval.ts'
import { jsonIn } from '../actors/model/structured-output.ts'
import { ORCHESTRATOR, USER } from '../mailbox/message.ts'
import { historyOf } from '../runtime/runs/trace.ts'
import type { RecordedRun, RecordedStatus } from '../runtime/views/recorded-runs.ts'
import { own } from '../shared/values.ts'
import type { EvalAnswer, EvalCase } from './suite.ts'

/** Runs that are wanted. */
export interface WantedRuns {
  readonly status: RecordedStatus
  readonly tenant?: string | undefined
  /** Any of these, in `metadata.tags` of the run. */
  readonly tags?: readonly string[] | undefined
}

/** Cases, and the ids of runs that are no cases: they ask an agent alone, or with more than a text. */
export interface LogCases {
  readonly cases: readonly EvalCase[]
  readonly left: readonly string[]
}

/** Returns a case for each run, or for each conversation in a thread if all of its runs are wanted. */
export function casesOf(runs: readonly RecordedRun[], wanted: WantedRuns): LogCases {
  const conversations = new Map<string, RecordedRun[]>()
  for (const run of runs) {
    const { own: isOwn, asked, threadId, tenant = '' } = run.launched
    if (isOwn || asked) continue
    const key = JSON.stringify(threadId === undefined ? [run.id] : [tenant, threadId, 'thread'])
    conversations.set(key, [...(conversations.get(key) ?? []), run])
  }
  const found = [...conversations.values()].filter((all) => all.every((run) => isWanted(run, wanted)))
  const left = found.filter((all) => !all.every(isCase))
  return {
    cases: found.filter((all) => all.every(isCase)).map(caseOf),
    left: left.flatMap((all) => all.map(({ id }) => id)),
  }
}

function isWanted(run: RecordedRun, { status, tenant, tags }: WantedRuns): boolean {
  if (run.status !== status || (tenant !== undefined && run.launched.tenant !== tenant)) return false
  return !tags || tagsOf(run).some((tag) => tags.includes(tag))
}

/** Checks for a run of the team that begins with a text. */
function isCase({ launched: { target, parts, messages, query }, directory }: RecordedRun): boolean {
  return directory.name(target) === ORCHESTRATOR && !parts && !messages?.length && query !== ''
}

const tagsOf = ({ launched: { metadata } }: RecordedRun): string[] =>
  (own(metadata, 'tags') ?? '').split(',').flatMap((tag) => (tag.trim() === '' ? [] : [tag.trim()]))

function caseOf(runs: readonly RecordedRun[]): EvalCase {
  const last = runs.at(-1)!
  const expected = expectedOf(last)
  const answers = runs.flatMap(answersIn)
  const tags = [...new Set(runs.flatMap(tagsOf))]
  return {
    id: last.launched.threadId ?? last.id,
    input: runs.length === 1 ? last.launched.query : runs.map(({ launched }) => launched.query),
    ...(expected !== undefined && { expected }),
    ...(answers.length > 0 && { answers }),
    ...(tags.length > 0 && { tags }),
  }
}

/** Returns the data of the answer, or else its text, which may be JSON. */
function expectedOf(run: RecordedRun): unknown {
  const { finished, status } = run
  if (status !== 'finished' || !finished) return undefined
  if (finished.data?.value !== undefined) return finished.data.value
  const answer = historyOf(run.log, run.directory).find(
    ({ type, sender, recipient }) => type === 'response' && sender === ORCHESTRATOR && recipient === USER,
  )
  const text = finished.output ?? answer?.content ?? ''
  const value = /^\s*[[{]/.test(text) ? jsonIn(text)?.value : undefined
  return value ?? text
}

function answersIn({ entries }: RecordedRun): EvalAnswer[] {
  const asked = new Map<string, { agent: string; tool?: string; isApproval: boolean; agreed: Set<string> }>()
  const answers: EvalAnswer[] = []
  for (const entry of entries) {
    if (entry.kind === 'question') {
      const { questionId, agent, tool, ask } = entry
      asked.set(questionId, {
        agent,
        ...(tool !== undefined && { tool }),
        isApproval: ask === 'approval',
        agreed: new Set(),
      })
    } else if (entry.kind === 'question.voted' || entry.kind === 'answer') {
      const { isApproval = false, agreed, ...of } = asked.get(entry.questionId) ?? {}
      const { by, input } = entry
      const [answer, reason] = entry.kind === 'answer' ? [entry.answer, entry.reason] : [YES, undefined]
      if (entry.kind === 'question.voted') agreed?.add(entry.by)
      else if (answer === YES && by !== undefined && agreed?.has(by)) continue // the last one that was needed
      const approval = {
        approved: answer === YES,
        ...(input !== undefined && { input }),
        ...(reason !== undefined && { reason }),
      }
      answers.push({ ...of, answer: isApproval ? approval : answer, ...(by !== undefined && { by }) })
    }
  }
  return answers
}

/** Removes what stands at a JSON pointer (RFC 6901); '*' stands for each entry of a list. Changes the value itself. */
export function drop(value: unknown, pointer: string): void {
  const [step = '', ...rest] = pointer.split('/').slice(1)
  const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
  if (typeof value !== 'object' || value === null) return
  const names = name === '*' && Array.isArray(value) ? [...value.keys()].reverse().map(String) : [name]
  for (const each of names) {
    if (!Object.hasOwn(value, each)) continue
    if (rest.length > 0) drop(Reflect.get(value, each), `/${rest.join('/')}`)
    else if (Array.isArray(value)) value.splice(Number(each), 1)
    else Reflect.deleteProperty(value, each)
  }
}
