/** List of the runs that a team knows, for people and programs that look for one. */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { type ErrorCode, shown, UnknownRunError } from '../../errors.ts'
import { integer, oneOf, shape, text } from '../checks/checks.ts'
import type { Redactor } from '../logging/redactor.ts'

/**
 * State of a run. 'interrupted': it has no end, and this process does not go on with it; `team.resume`, or a later
 * process, does.
 */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'finished' | 'failed' | 'aborted' | 'interrupted'

/** Entry of `team.listRuns`: a run. Times are epoch ms. */
export interface RunSummary {
  id: string
  /** First 512 characters of the query: `team.getRun` has all of it. */
  query: string
  status: RunStatus
  startedAt: number
  /** End of the run; null as long as it has none. */
  endedAt: number | null
  /** Code of the error with which the run has failed, was aborted or is interrupted; null otherwise. */
  errorCode: ErrorCode | null
  /** Tokens that models have used so far. */
  usage: TokenUsage
  /** Thread of the run; null if it has none. */
  threadId: string | null
  /** Caller that began the run, as its metadata name it (`caller`); null if they name none. */
  caller: string | null
}

/** Selects runs of `team.listRuns`. */
export interface RunFilter {
  /** Status of the runs. Default: any. */
  status?: RunStatus
  /** Thread of the runs. Default: any, and none. */
  threadId?: string
  /** Caller that began the runs, as their metadata name it (`caller`). Default: any, and none. */
  caller?: string
  /** Largest number of runs. Default: all. */
  limit?: number
  /** Id of a run, after which the list begins: for the next page, that of the last run of this one. */
  before?: string
}

const STATUSES: readonly RunStatus[] = ['queued', 'running', 'waiting', 'finished', 'failed', 'aborted', 'interrupted']

/** @throws ConfigurationError that names the option, what came and what is accepted. */
export const checkRunFilter = (filter: unknown): void => filterShape(filter, '')

const filterShape = shape<RunFilter>({
  status: oneOf(...STATUSES),
  threadId: text,
  caller: text,
  limit: integer(1),
  before: text,
})

/** Run of the list, with its number: the later one of two that started in the same millisecond has the higher. */
export interface ListedRun extends Readonly<RunSummary> {
  readonly index: number
  /** True if the query is only its begin. */
  readonly isCut: boolean
}

/**
 * Returns one page of runs. `known`: runs that are in memory, in any order. `past`: other runs, the one that started
 * last is first; no more of them are looked at than it takes.
 *
 * @throws UnknownRunError if the run that the page comes after is not among those of the caller.
 */
export function pageOf(known: readonly ListedRun[], past: Iterable<ListedRun>, filter: RunFilter): ListedRun[] {
  const { status, threadId, caller, limit = Number.POSITIVE_INFINITY, before } = filter
  const page: ListedRun[] = []
  let isBehind = before === undefined
  for (const run of merged(known, past)) {
    if (caller !== undefined && run.caller !== caller) continue
    if (!isBehind) isBehind = run.id === before
    else if (status !== undefined && run.status !== status) continue
    else if (threadId !== undefined && run.threadId !== threadId) continue
    else if (page.push(run) === limit) break
  }
  if (isBehind) return page
  throw new UnknownRunError(`before: no run ${shown(before)} is known; begin the list again without it.`, {
    path: 'before',
    runId: before,
  })
}

function* merged(known: readonly ListedRun[], past: Iterable<ListedRun>): Iterable<ListedRun> {
  const sorted = [...known].sort((one, other) => (isNewer(one, other) ? -1 : 1))
  let next = 0
  for (const run of past) {
    while (next < sorted.length && isNewer(sorted[next]!, run)) yield sorted[next++]!
    yield run
  }
  yield* sorted.slice(next)
}

type Started = Pick<ListedRun, 'index' | 'startedAt'>

/** Checks whether a run started after another one. */
export const isNewer = (one: Started, other: Started): boolean =>
  one.startedAt === other.startedAt ? one.index > other.index : one.startedAt > other.startedAt

const CUT = '…'
/** Characters of a query that the list has, with the mark that it was cut. */
const LISTED_QUERY = 512

export const isLong = (query: string): boolean => query.length > LISTED_QUERY

/** Cuts a query to what the list has of it. The result is a text of its own: a slice would keep all of the query. */
export function listedQuery(query: string): string {
  if (!isLong(query)) return query
  const begin = query.slice(0, LISTED_QUERY - CUT.length).replace(/[\uD800-\uDBFF]$/, '')
  return Buffer.from(begin).toString()
}

/** Returns the summary of a run as anybody may read it. */
export function toldSummary(run: ListedRun, redactor: Redactor): RunSummary {
  const { id, status, startedAt, endedAt, errorCode, threadId, caller } = run
  const query = run.isCut ? `${redactor.begin(run.query)}${CUT}` : run.query
  return redactor.data({ id, query, status, startedAt, endedAt, errorCode, usage: { ...run.usage }, threadId, caller })
}
