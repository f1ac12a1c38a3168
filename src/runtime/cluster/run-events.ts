/** Events of a run for any process: from one owner of its shard to the next, by the numbers of the log. */
import { systemClock } from '../../shared/clock.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { anyAborted } from '../../shared/on-abort.ts'
import { type ToldEvent, toldBy, type Wanted, wantedEvents } from '../runs/told-events.ts'
import type { TeamRuntime } from '../team/team.ts'
import { PEER_HEADER } from './address.ts'
import type { TaskOutcome } from './cluster-store.ts'
import type { ClusterDoor } from './door.ts'

/** Run of a shard. */
export interface RunPlace {
  readonly shard: number
  readonly id: string
}

const PAUSE_MS = 100
/** Time for which a run is waited for that its owner has no room for yet. */
const ROOM_MS = 2_000

/** Waits for the begin of a run in a team, for a while. */
export const beginOf =
  (team: TeamRuntime, id: string) =>
  async (signal: AbortSignal): Promise<void> => {
    const late = systemClock.monotonic() + ROOM_MS
    while (!signal.aborted && !team.getRun(id) && systemClock.monotonic() < late)
      await systemClock.sleep(PAUSE_MS, signal).catch(() => {})
  }

/** Resolves to the outcome of a run; to nothing once something else has come before. Nothing is left of the other. */
export async function outcomeOr<Outcome>(
  other: (signal: AbortSignal) => Promise<void>,
  outcome: (signal: AbortSignal) => Promise<Outcome | undefined>,
  left: AbortSignal,
): Promise<Outcome | undefined> {
  const enough = new AbortController()
  const { signal, forget } = anyAborted([left, enough.signal])
  try {
    return await Promise.race([outcome(signal), other(signal).then(() => undefined)])
  } finally {
    enough.abort()
    forget()
  }
}

/** Marks the end of a run behind its last event. */
const OVER: ToldEvent = { id: undefined, type: 'over', event: { type: 'over' } }
const isOver = ({ type }: ToldEvent): boolean => type === OVER.type

/** Checks whether a team still has its log, and what it has said stands there. */
export const isCurrent = (team: TeamRuntime): Promise<boolean> =>
  team.flush().then(
    () => true,
    () => false,
  )

/** Yields events that the log has for certain, and `over` behind the last: of others the next owner has its own. */
export async function* toldHere(team: TeamRuntime, id: string, wanted: Wanted): AsyncGenerator<ToldEvent> {
  const run = team.getRun(id)
  if (!run) return
  for await (const event of wantedEvents(run, wanted)) {
    if (!(await isCurrent(team))) return
    yield toldBy(team.logName, event)
  }
  const hasEnded = ['finished', 'failed', 'aborted'].includes(run.status)
  if (!wanted.signal.aborted && hasEnded && (await isCurrent(team))) yield OVER
}

type Door = Pick<ClusterDoor, 'held' | 'outcome' | 'toOwner'>

/**
 * Yields events of a run, whoever has it: none is missing or double. `caller`: in whose name its owner is asked.
 *
 * @throws ConfigurationError where its owner cannot be asked, or refuses.
 */
export async function* toldAnywhere(
  door: Door,
  place: RunPlace,
  caller: object,
  { after, ...wanted }: Wanted,
): AsyncGenerator<ToldEvent> {
  const { signal } = wanted
  let last = after
  while (!signal.aborted) {
    try {
      for await (const told of toldByOwner(door, place, caller, { ...wanted, after: last })) {
        if (isOver(told)) return
        last = told.id ?? last
        yield told
      }
    } catch (error) {
      if (error instanceof ConfigurationError) throw error // else: the next owner goes on
    }
    await systemClock.sleep(PAUSE_MS, signal).catch(() => {})
  }
}

async function* toldByOwner(
  door: Door,
  { shard, id }: RunPlace,
  caller: object,
  wanted: Wanted,
): AsyncGenerator<ToldEvent> {
  const team = door.held.get(shard)
  if (team?.getRun(id)) return yield* toldHere(team, id, wanted)
  if (team)
    return yield* endOfNone(
      id,
      wanted,
      await outcomeOr(beginOf(team, id), (signal) => door.outcome(id, signal), wanted.signal),
    )
  const { types, after, deltas, signal } = wanted
  const search = new URLSearchParams({
    ...(types && { types: types.join(',') }),
    ...(after !== undefined && { after }),
    ...(deltas && { deltas: '1' }),
  })
  const path = `/api/tasks/${encodeURIComponent(id)}/events${search.size > 0 ? '?' : ''}${search}`
  const headers = new Headers({ accept: 'application/x-ndjson' })
  const response = await door.toOwner(shard, { method: 'GET', path, body: Buffer.of(), headers }, caller, signal)
  if (response?.status === 404) return yield* endOfNone(id, wanted, await door.outcome(id, signal))
  if (response && response.status >= 400 && response.status < 500) {
    const { detail = response.status } = Object(await response.json()) as { detail?: string }
    const at = response.headers.get(PEER_HEADER) === 'refused' ? 'cluster.secretEnv' : 'runId'
    throw new ConfigurationError(`The events of run "${id}" were refused by its owner: ${detail}`, { path: at })
  }
  if (!response?.ok || !response.body) return
  for await (const line of linesOf(response.body)) {
    const { id: at, ...event } = JSON.parse(line) as { id?: string; type: string }
    yield { id: at, type: event.type, event }
  }
}

/** Yields the end of a run that its owner does not know: it was refused, or is not in the log any more. */
async function* endOfNone(id: string, { types }: Wanted, outcome: TaskOutcome | undefined): AsyncGenerator<ToldEvent> {
  if (!outcome) return
  const type = 'run.finished'
  const result: unknown = JSON.parse(Buffer.from(outcome.body).toString())
  const event = { type, at: systemClock.now(), runId: id, result }
  if (!types || types.includes(type)) yield { id: undefined, type, event }
  yield OVER
}

/** Yields the lines of a body that are not empty. */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = ''
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop()!
    for (const line of lines) if (line !== '') yield line
  }
}
