/** Waits in a team at this moment, as data: turns for others or for work, and turns, runs and calls for a limit. */
import { idOf } from '../../mailbox/frame-id.ts'
import { stuckNow } from '../detectors/deadlock/stuck.ts'
import { type GraphNeeds, type OpenWait, WaitEdges } from '../detectors/deadlock/wait-for-graph.ts'
import type { Wait } from '../digest/wait.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'

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
  readonly limits: LimitNotices
}

/** Returns what waits now, the oldest first. Reads the host's own records, and changes nothing. */
export function waitsOf(needs: WaitNeeds): Wait[] {
  const limits = Array.from(needs.limits.waits(), limitWait)
  return [...turnWaits(needs), ...limits].sort((a, b) => a.since - b.since)
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

function turnWaits(needs: GraphNeeds): Wait[] {
  const { held, turns } = new WaitEdges(needs)
  return [...turns, ...held.values()].flatMap((turn) => {
    if (!turn) return []
    const { cell, envelope } = turn
    const kinds = new Map<string, OpenWait[]>()
    for (const wait of turn.waits) {
      const kind = kindOf(wait)
      const known = kinds.get(kind)
      if (known) known.push(wait)
      else kinds.set(kind, [wait])
    }
    return Array.from(
      kinds,
      ([kind, waits]): Wait => ({
        runId: envelope.run.id,
        agent: cell.name,
        turn: idOf(envelope.memory, envelope.at),
        for: [...new Set(waits.flatMap(subjectOf))],
        kind,
        since: Math.min(...waits.map(({ since }) => since)),
      }),
    )
  })
}

/** Calls of verbs are in the graph as waits for somebody outside, unless agents alone can end them. */
const kindOf = ({ call, kind }: OpenWait): string => (call && !call.waitsFor ? call.verb : kind)

const subjectOf = (wait: OpenWait): string | string[] =>
  wait.call && !wait.call.waitsFor ? (wait.call.subject ?? []) : wait.for || []

const limitWait = ({ option, limit, runId, agent, messageId, since, until }: LimitWait): Wait => ({
  runId: runId ?? '',
  agent: agent ?? null,
  turn: messageId ?? null,
  for: [option],
  kind: 'limit',
  since,
  limit,
  ...(until !== undefined && { until }),
})
