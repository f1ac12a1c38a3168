/**
 * Waits in a team at this moment, as data: what each open turn waits for or does by itself, and turns, runs and calls
 * that wait for a limit.
 */
import type { Clock } from '../../clock.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { NOT_YET } from '../../mailbox/mailbox.ts'
import { stuckNow } from '../detectors/deadlock/stuck.ts'
import { type GraphNeeds, type OpenWait, type TurnNode, WaitEdges } from '../detectors/deadlock/wait-for-graph.ts'
import type { Wait } from '../digest/wait.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'
import type { SlowTimes } from '../settings/slow-times.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Life } from '../state/life.ts'
import { LimitCauses } from './limit-causes.ts'

/** Turns that wait for each other in a circle: nothing but the detector, a deadline or a cancellation ends it. */
export interface WaitCycle {
  /** Each waits for the next one, and the last for the first. */
  agents: string[]
  /** Ids of the messages whose turns these are. */
  turns: string[]
  runIds: string[]
  /** Agents that wait for one of these, directly or through others. */
  tail: string[]
}

export interface WaitNeeds extends GraphNeeds {
  readonly clock: Clock
  readonly limits: LimitNotices
}

/** Time after which a turn is told that does nothing but its own work: most end sooner. */
const OWN_TOLD_MS = 1_000

/** Returns what waits now, the oldest first. Reads the host's own records, and changes nothing. */
export function waitsOf(needs: WaitNeeds): Wait[] {
  const now = needs.clock.now()
  const doings = doingsOf(needs)
  const told = doings.filter(
    ({ kind, since, slowAfterMs = OWN_TOLD_MS }) =>
      !(kind === 'own' || kind === 'sleep') || now - since >= Math.min(OWN_TOLD_MS, slowAfterMs),
  )
  const causes = new LimitCauses(doings)
  const script = needs.directory.cells[ORCHESTRATOR_INDEX]
  const limits = Array.from(needs.limits.waits(), (wait) => {
    const cell = wait.agent === undefined ? script : needs.directory.cell(wait.agent)
    return limitWait(wait, causes.of(wait), cell?.settings.supervision.slowMs.queued ?? false)
  })
  return [...told, ...limits].sort((a, b) => a.since - b.since)
}

/** Returns the circles that stand now, the shortest first. Reads the host's own records, and changes nothing. */
export function waitCyclesOf(needs: GraphNeeds): WaitCycle[] {
  return stuckNow(needs).flatMap(({ cycle, tail, runs }) =>
    cycle.length === 0
      ? []
      : {
          agents: cycle.map(({ cell }) => cell.name),
          turns: cycle.map(({ envelope }) => idOf(envelope.memory, envelope.at)),
          runIds: Array.from(runs, ({ id }) => id),
          tail: tail.map(({ cell }) => cell.name),
        },
  )
}

/** Returns what each open turn does or waits for, and tasks that wait for others. Each turn has an entry. */
export function doingsOf(needs: GraphNeeds & { readonly clock: Clock }): Wait[] {
  const { clock } = needs
  const begin = clock.now() - clock.monotonic()
  const { held, turns } = new WaitEdges(needs)
  return [
    ...turns.flatMap((turn) => (turn ? doingsOfTurn(turn, begin) : [])),
    ...Array.from(held.values(), knownWaits).flat(),
  ]
}

/** `begin`: epoch ms at which the monotonic clock stood at 0. */
function doingsOfTurn(turn: TurnNode, begin: number): Wait[] {
  const { life, settings } = turn.cell
  const { startedAt, turn: number } = turn.envelope
  if (!life?.begun(turn.envelope) || startedAt === NOT_YET) return knownWaits(turn)
  const turnSince = begin + startedAt
  const all = [...knownWaits(turn), ...ownWaits(turn, life)]
  if (all.length === 0)
    all.push({ ...whose(turn), for: [], kind: 'own', since: Math.max(turnSince, life.doings.stirredAt(number)) })
  return all.map((wait) => {
    const slowAfterMs = wait.slowAfterMs ?? slowTimeOf(wait.kind, settings.supervision.slowMs)
    return { ...wait, turnSince, ...(slowAfterMs !== false && { slowAfterMs }) }
  })
}

function knownWaits(turn: TurnNode): Wait[] {
  return Array.from(grouped(turn.waits, kindOf), ([kind, waits]) => ({
    ...whose(turn),
    for: [...new Set(waits.flatMap(subjectOf))],
    kind,
    since: Math.min(...waits.map(({ since }) => since)),
    // An agent that does not come to the message says nothing of itself that could be slow.
    ...slowIf(
      waits.some(({ request }) => request?.envelope.begunAt === NOT_YET),
      turn.cell.settings.supervision.slowMs.queued,
    ),
  }))
}

const slowIf = (isSlow: boolean, ms: number | false) => (isSlow && ms !== false ? { slowAfterMs: ms } : {})

/** Returns what the turn does in its own thread. */
function ownWaits(turn: TurnNode, { doings }: Life): Wait[] {
  return Array.from(
    grouped(doings.openIn(turn.envelope.turn), ({ kind }) => kind),
    ([kind, all]) => ({
      ...whose(turn),
      for: [...new Set(all.flatMap(({ name }) => name || []))],
      kind,
      since: Math.min(...all.map(({ since }) => since)),
    }),
  )
}

function grouped<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const known = groups.get(key)
    if (known) known.push(item)
    else groups.set(key, [item])
  }
  return groups
}

const whose = ({ cell, envelope }: TurnNode) => ({
  runId: envelope.run.id,
  agent: cell.name,
  turn: idOf(envelope.memory, envelope.at),
})

/** Kinds that are never slow by themselves: other turns, or people, are what takes long. */
const NEVER_SLOW: ReadonlySet<string> = new Set(['ask', 'approve', 'sleep', 'request', 'delegate', 'dependency'])

function slowTimeOf(kind: string, times: SlowTimes): number | false {
  if (NEVER_SLOW.has(kind)) return false
  return kind === 'step' || kind === 'tool' || kind === 'model' ? times[kind] : times.turn
}

/** Calls of verbs are in the graph as waits for somebody outside, unless agents alone can end them. */
const kindOf = ({ call, kind }: OpenWait): string => (call && !call.waitsFor ? call.verb : kind)

const subjectOf = (wait: OpenWait): string | string[] =>
  wait.call && !wait.call.waitsFor ? (wait.call.subject ?? []) : wait.for || []

const limitWait = (
  { option, limit, runId, agent, messageId, since, until }: LimitWait,
  cause: string | undefined,
  slowAfterMs: number | false,
): Wait => ({
  runId: runId ?? '',
  agent: agent ?? null,
  turn: messageId ?? null,
  for: [option],
  kind: 'limit',
  since,
  limit,
  ...(cause !== undefined && { cause }),
  ...(slowAfterMs !== false && { slowAfterMs }),
  ...(until !== undefined && { until }),
})
