/** The open turns of a team, what they do and how long, and what people should look at. */

import type { Supervisor } from '../supervision/host.ts'
import type { Wait } from '../views/digest-line.ts'
import { isSlow, slowSentence } from '../views/slow.ts'
import { doingsOf, grouped, waitCyclesOf, waitsOf } from './digest-state.ts'

/** Turn that is under way. */
export interface OpenTurn {
  runId: string
  agent: string
  messageId: string
  /** Epoch ms at which it began. */
  since: number
  /** Work and waits of the turn now, the oldest first: `kind` and names as in `Wait`; null for what has no name. */
  doing: { kind: string; name: string | null; since: number }[]
  /**
   * 'slow': something takes longer than `supervision.slowMs`. 'stuck': the turn waits in a circle, or it is slow and a
   * turn of another agent waits for it.
   */
  state: 'fine' | 'slow' | 'stuck'
  /** In words: `writer: step "fetch prices" for 4 min (slow after 30 s)`. */
  sentence: string
}

/** Says what people should look at in a team: all that is slow or stuck, in words. */
export interface TeamJudgement {
  state: OpenTurn['state']
  sentences: string[]
}

/** Returns the turns that are under way, the oldest first. */
export function openTurnsOf(host: Supervisor): OpenTurn[] {
  const now = host.clock.now()
  const doings = doingsOf(host)
  const inCircle = new Set(waitCyclesOf(host).flatMap(({ turns }) => turns))
  const waitedFor = new Set(
    doings.flatMap(({ kind, agent, runId, for: names }) =>
      (kind === 'request' || kind === 'delegate') && !agent?.startsWith('$')
        ? names.map((name) => `${runId} ${name}`)
        : [],
    ),
  )
  const inTurns = doings.filter(({ turnSince }) => turnSince !== undefined)
  const byTurn = grouped(inTurns, ({ agent, turn }) => `${agent} ${turn}`)
  return Array.from(byTurn.values(), (all): OpenTurn => {
    all.sort((one, other) => one.since - other.since)
    const told = all.find((doing) => isSlow(doing, now)) ?? all[0]!
    const isSlowNow = isSlow(told, now)
    const agent = told.agent ?? ''
    const messageId = told.turn ?? ''
    const isStuck = inCircle.has(messageId) || (isSlowNow && waitedFor.has(`${told.runId} ${agent}`))
    return {
      runId: told.runId,
      agent,
      messageId,
      since: told.turnSince ?? told.since,
      doing: all.map(({ kind, for: names, since }) => ({ kind, name: names.join(', ') || null, since })),
      state: isStuck ? 'stuck' : isSlowNow ? 'slow' : 'fine',
      sentence: slowSentence(told, now),
    }
  }).sort((one, other) => one.since - other.since)
}

/** Returns what is slow or stuck now: turns, and what waits for a limit, one sentence for each limit. */
export function judgementOf(host: Supervisor): TeamJudgement {
  const now = host.clock.now()
  const turns = openTurnsOf(host).filter(({ state }) => state !== 'fine')
  const limits = waitsOf(host).filter(({ kind }) => kind === 'limit')
  const queues = grouped(limits, ({ for: [option = ''] }) => option)
  const slowQueues = [...queues.values()].filter(([oldest]) => oldest && isSlow(oldest, now))
  return {
    state: turns.some(({ state }) => state === 'stuck')
      ? 'stuck'
      : turns.length + slowQueues.length > 0
        ? 'slow'
        : 'fine',
    sentences: [...turns.map(({ sentence }) => sentence), ...slowQueues.map((waits) => queueSentence(waits, now))],
  }
}

function queueSentence([oldest, ...others]: readonly Wait[], now: number): string {
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return oldest ? slowSentence(oldest, now) + more : ''
}
