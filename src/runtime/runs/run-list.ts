/** List of the runs that a team knows, for people and programs that look for one. */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { type ErrorCode, shown, UnknownRunError } from '../../errors.ts'
import { integer, oneOf, shape, text } from '../checks/checks.ts'

/**
 * State of a run. 'interrupted': it has no end, and this process does not go on with it; `team.resume`, or a later
 * process, does.
 */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'finished' | 'failed' | 'aborted' | 'interrupted'

/** Entry of `team.listRuns`: a run. Times are epoch ms. */
export interface RunSummary {
  id: string
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
}

/** Selects runs of `team.listRuns`. */
export interface RunFilter {
  /** Status of the runs. Default: any. */
  status?: RunStatus
  /** Thread of the runs. Default: any, and none. */
  threadId?: string
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
  limit: integer(1),
  before: text,
})

/**
 * Returns one page of runs, those that started last first. `all`: the runs in the order in which the team got them.
 *
 * @throws UnknownRunError if the run that the page comes after is not among them.
 */
export function pageOf<R extends Pick<RunSummary, 'id' | 'status' | 'startedAt' | 'threadId'>>(
  all: readonly R[],
  { status, threadId, limit, before }: RunFilter,
): R[] {
  const newest = [...all].reverse().sort((one, other) => other.startedAt - one.startedAt)
  const last = before === undefined ? -1 : newest.findIndex(({ id }) => id === before)
  if (before !== undefined && last < 0)
    throw new UnknownRunError(`before: no run ${shown(before)} is known; begin the list again without it.`, {
      path: 'before',
      runId: before,
    })
  return newest
    .slice(last + 1)
    .filter((run) => status === undefined || run.status === status)
    .filter((run) => threadId === undefined || run.threadId === threadId)
    .slice(0, limit)
}
