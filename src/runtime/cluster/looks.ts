/** Looks at runs wherever their shards are: a process asks the owner, or all processes, and nothing is kept. */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { systemClock } from '../../shared/clock.ts'
import { ClusterUnreachableError, ConfigurationError, describe, UnknownRunError } from '../../shared/errors.ts'
import { anyAborted, unlessAborted } from '../../shared/on-abort.ts'
import { checkRunFilter, type RunFilter, type RunSummary } from '../runs/run.ts'
import { toldMessage } from '../runs/told-events.ts'
import type { OrchestrationTrace } from '../runs/trace.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { ClusterMember } from './cluster-store.ts'
import type { ClusterDoor } from './door.ts'
import { isCurrent, type RunPlace } from './run-events.ts'

/** Parts of a run that stay with its shard, as JSON has them. */
export interface ClusterLooks {
  trace: OrchestrationTrace
  messageHistory: readonly ReturnType<typeof toldMessage>[]
  board: readonly BlackboardEntry[]
}

/** Runs of all shards, the last started first. */
export interface ClusterRuns {
  readonly runs: readonly (RunSummary & { readonly shard: number })[]
  /** Shards of which nobody has told. */
  readonly missing: readonly number[]
}

const LOOK = 'look'
const RUNS = 'runs'
/** Time for which the owner of a shard is waited for, and the time that a process has to tell its runs. */
const OWNER_MS = 20_000
const MEMBER_MS = 2_000
const PAUSE_MS = 100
const ENDED: readonly string[] = ['finished', 'failed', 'aborted']

interface Asked extends RunPlace {
  readonly of: keyof ClusterLooks
}

type Door = Pick<ClusterDoor, 'answers' | 'askMember' | 'held' | 'id' | 'members'>

/** Has a process answer such looks of the others. */
export function answerLooks(door: Door): void {
  door.answers.set(LOOK, async (asked) => lookedAt(door.held.get((asked as Asked).shard), asked as Asked))
  door.answers.set(RUNS, async (filter) => runsHere(door, filter as RunFilter))
}

/** Resolves to `{ value }`, or to nothing where the team has no such run, or not yet. */
async function lookedAt(team: TeamRuntime | undefined, { id, of }: Asked): Promise<{ value: unknown } | undefined> {
  const run = team?.getRun(id)
  if (!run) return undefined
  if (ENDED.includes(run.status)) await run.result // one of long ago is read from the log
  const value =
    of === 'board' ? (run.board()?.query() ?? []) : of === 'trace' ? run.trace : run.messageHistory.map(toldMessage)
  return (await isCurrent(team!)) ? { value } : undefined // the next owner may have come further
}

/**
 * Resolves to what the owner of a run's shard has of it. Waits for an owner, and for the begin of the run, for a while.
 *
 * @throws ConfigurationError where the owner has no address, ClusterUnreachableError, UnknownRunError
 */
export async function lookAnywhere<Of extends keyof ClusterLooks>(
  door: Door,
  asked: RunPlace & { of: Of },
  given: AbortSignal,
): Promise<ClusterLooks[Of]> {
  const { shard, id } = asked
  const { signal, forget } = anyAborted([given, AbortSignal.timeout(OWNER_MS)])
  let [owner, failure]: [string | undefined, unknown] = [undefined, undefined]
  try {
    while (!signal.aborted) {
      try {
        const member = (await door.members()).find(({ shards }) => shards.includes(shard))
        const answer = door.held.has(shard)
          ? await unlessAborted(signal, lookedAt(door.held.get(shard), asked))
          : member && member.id !== door.id && (await door.askMember(member, LOOK, asked, signal))
        if (answer) return (answer as { value: ClusterLooks[Of] }).value
        owner = member?.id
        failure = undefined
      } catch (error) {
        if (error instanceof ConfigurationError) throw error
        failure = error
      }
      await systemClock.sleep(PAUSE_MS, signal).catch(() => {})
    }
  } finally {
    forget()
  }
  given.throwIfAborted()
  if (owner !== undefined && failure === undefined)
    throw new UnknownRunError(`the log of shard ${shard} has no run "${id}", or has given it up.`, { runId: id, shard })
  const why = failure === undefined ? 'no process has it now' : describe(failure)
  throw new ClusterUnreachableError(`shard ${shard}, of run "${id}", cannot be looked at: ${why}.`, {
    shard,
    runId: id,
  })
}

interface Part extends Pick<ClusterRuns, 'runs'> {
  readonly shards: readonly number[]
}

async function runsHere({ held }: Pick<Door, 'held'>, filter: RunFilter): Promise<Part> {
  const parts = await Promise.all(
    Array.from(held, async ([shard, team]) => (await team.listRuns(filter)).map((run) => ({ ...run, shard }))),
  )
  return { runs: parts.flat(), shards: [...held.keys()] }
}

/** @throws ConfigurationError */
export async function runsAnywhere(
  door: Door,
  shards: number,
  filter: Omit<RunFilter, 'before'>,
  signal: AbortSignal,
): Promise<ClusterRuns> {
  checkRunFilter(filter)
  if ('before' in filter)
    throw new ConfigurationError('before: a run of one shard; a page over all begins with startedBefore.', {
      path: 'before',
    })
  const ask = async (member: ClusterMember): Promise<Part> => {
    const late = anyAborted([signal, AbortSignal.timeout(MEMBER_MS)])
    try {
      return (await door.askMember(member, RUNS, filter, late.signal)) as Part
    } catch {
      return { runs: [], shards: [] } // its shards are named
    } finally {
      late.forget()
    }
  }
  const others = (await door.members()).filter(({ id }) => id !== door.id)
  const parts = await unlessAborted(signal, Promise.all([runsHere(door, filter), ...others.map(ask)]))
  const byId = new Map(parts.flatMap(({ runs }) => runs.map((run) => [run.id, run]))) // a shard may move meanwhile
  const runs = [...byId.values()].sort((one, other) => other.startedAt - one.startedAt || one.shard - other.shard)
  const told = new Set(parts.flatMap((part) => part.shards))
  const missing = Array.from({ length: shards }, (_, shard) => shard).filter((shard) => !told.has(shard))
  return { runs: runs.slice(0, filter.limit), missing }
}
