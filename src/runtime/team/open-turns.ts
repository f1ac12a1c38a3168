/** The open turns of a team, what they do and how long, and what people should look at. */

import type { Timer } from '../../shared/clock.ts'
import type { Reader } from '../host/journal.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { Wait } from '../views/digest-line.ts'
import {
  isSlow,
  type Judged,
  judged,
  type OpenTurn,
  slowSentence,
  stateOf,
  type TeamJudgement,
  troublesIn,
  worstOf,
} from '../views/slow.ts'
import { doingsOf, grouped, waitsAndWorkOf, waitsOf } from './digest-state.ts'

/** Returns the turns that are under way, the oldest first. */
export function openTurnsOf(host: Supervisor): OpenTurn[] {
  const now = host.clock.now()
  const inTurns = doingsOf(host).filter(({ turnSince }) => turnSince !== undefined)
  const byTurn = grouped(inTurns, ({ agent, turn }) => `${agent} ${turn}`)
  return Array.from(byTurn.values(), (all): OpenTurn => {
    all.sort((one, other) => one.since - other.since)
    const [{ runId, agent, turn, turnSince, since }] = all as [Wait]
    const [{ state, sentence }] = judged(all, now) as [Judged]
    return {
      runId,
      agent: agent ?? '',
      messageId: turn ?? '',
      since: turnSince ?? since,
      doing: all.map((each) => ({ kind: each.kind, name: nameOf(each), since: each.since })),
      state,
      sentence,
    }
  }).sort((one, other) => one.since - other.since)
}

const nameOf = ({ for: names }: Wait): string | null => names.join(', ') || null

/** Returns what is slow or stuck now: turns, and what waits for a limit, one sentence for each limit. */
export function judgementOf(host: Supervisor): TeamJudgement {
  const all = troublesIn(waitsOf(host), host.clock.now())
  return { state: worstOf(all.map(({ state }) => state)), sentences: all.map(({ sentence }) => sentence) }
}

/** Shortest time between two looks. A look that takes long comes less often. */
const LOOK_MS = 100
const LOOK_SHARE = 50
/** The next time something is told, it has taken so many times as long. */
const AGAIN = 10

/**
 * Writes down once what of a turn is slow, and again after ten times as long. What is open is looked at when the first
 * of it may be slow, so a team whose turns are short looks twice a minute.
 */
export function slowWatch(host: Supervisor): Reader {
  const { clock, directory, journal, redactor, runs } = host
  /** By what was told: age in ms at which it is told again. */
  let told = new Map<string, number>()
  let timer: Timer | undefined
  let lookAt = Number.POSITIVE_INFINITY
  let earliest = 0
  let least = { ms: Number.POSITIVE_INFINITY, additions: -1 }

  const leastMs = () => {
    const { additions, byIndex } = directory
    if (least.additions !== additions)
      least = { ms: Math.min(...byIndex.map(({ settings }) => leastOf(settings.supervision.slowMs))), additions }
    return least.ms
  }

  const lookBy = (at: number) => {
    if (at >= lookAt) return
    timer?.cancel()
    lookAt = Math.max(at, earliest)
    timer = clock.timer(Math.max(1, lookAt - clock.monotonic()), look, 'background')
  }

  const look = () => {
    timer = undefined
    lookAt = Number.POSITIVE_INFINITY
    const beganAt = clock.monotonic()
    const now = clock.now()
    const before = told
    told = new Map()
    let nextMs = Number.POSITIVE_INFINITY
    for (const wait of redactor.data(waitsAndWorkOf(host))) {
      const { runId, agent, turn, turnSince, kind, since, slowAfterMs } = wait
      if (turnSince === undefined || slowAfterMs === undefined || agent === null || turn === null) continue
      const began = since === turnSince ? 'its beginning' : since
      const key = [runId, agent, turn, kind, nameOf(wait), began].join(' ')
      let dueMs = before.get(key) ?? slowAfterMs
      const forMs = Math.round(now - since)
      if (isSlow({ since, slowAfterMs: dueMs }, now)) {
        const sentence = slowSentence(wait, now)
        const fields = { agent, messageId: turn, kind, name: nameOf(wait), forMs }
        const title = `a turn is ${stateOf(wait, now)}`
        const run = runs.find(runId)
        if (run) journal.record(run, { kind: 'alarm', name: 'slow', agents: [agent], title, sentence, fields })
        while (dueMs <= now - since) dueMs *= AGAIN
      }
      if (dueMs !== slowAfterMs) told.set(key, dueMs)
      nextMs = Math.min(nextMs, since + dueMs - now)
    }
    earliest = beganAt + Math.max(LOOK_MS, (clock.monotonic() - beganAt) * LOOK_SHARE)
    if (!host.loop.closed && nextMs < Number.POSITIVE_INFINITY) lookBy(clock.monotonic() + nextMs)
  }

  return {
    // What can be slow begins with one of these.
    kinds: ['frames', 'turn.started'],
    next: () => lookBy(clock.monotonic() + leastMs()),
    close: () => timer?.cancel(),
  }
}

const leastOf = (times: Readonly<Record<string, number | false>>): number =>
  Math.min(...Object.values(times).map((ms) => ms || Number.POSITIVE_INFINITY))
