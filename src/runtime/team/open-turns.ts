/** The open turns of a team, what they do and how long, and what people should look at. */

import type { Timer } from '../../shared/clock.ts'
import { groupedBy } from '../../shared/values.ts'
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
import { doingsOf, waitsAndWorkOf, waitsOf } from './digest-state.ts'

/** Returns the turns that are under way, the oldest first. */
export function openTurnsOf(host: Supervisor): OpenTurn[] {
  const now = host.clock.now()
  const inTurns = doingsOf(host).filter(({ turnSince }) => turnSince !== undefined)
  const byTurn = groupedBy(inTurns, ({ agent, turn }) => `${agent} ${turn}`)
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
 * Writes down once what of a turn is slow, and again after ten times as long. It looks when the first that is open may
 * be slow. What begins until then is slow later, so it is no reader of what comes meanwhile.
 */
class SlowWatch implements Reader {
  // Nothing that can be slow begins without one of these.
  readonly kinds = ['frames', 'turn.started'] as const
  /** True while a look is due. */
  isIdle = false
  readonly #host: Supervisor
  #timer: Timer | undefined
  /** By what was told: age in ms at which it is told again. */
  #told = new Map<string, number>()
  /** Additions to the team by which nothing is ever slow in it. */
  #never: number | undefined

  constructor(host: Supervisor) {
    this.#host = host
  }

  next(): void {
    if (this.#never !== this.#host.directory.additions) this.#lookIn(Number.POSITIVE_INFINITY, 0)
  }

  close(): void {
    this.#timer?.cancel()
    this.isIdle = true
  }

  /** Looks after that time, and not later than what begins now can be slow. */
  #lookIn(ms: number, pauseMs: number): void {
    const { clock, directory } = this.#host
    const least = directory.byIndex.map(({ settings }) => leastOf(settings.supervision.slowMs))
    const lookMs = Math.max(pauseMs, Math.min(ms, ...least))
    this.isIdle = lookMs < Number.POSITIVE_INFINITY
    this.#never = this.isIdle ? undefined : directory.additions
    if (!this.isIdle) return
    this.#timer = clock.timer(lookMs, () => this.#look(), 'background')
  }

  #look(): void {
    const { clock } = this.#host
    this.isIdle = false
    if (!this.#host.directory.living.some(({ mailbox }) => !mailbox.handed.isEmpty)) return
    const beganAt = clock.monotonic()
    const nextMs = this.#tell()
    if (nextMs === Number.POSITIVE_INFINITY) return
    this.#lookIn(nextMs, Math.max(LOOK_MS, (clock.monotonic() - beganAt) * LOOK_SHARE))
  }

  /** Returns the ms until something that is open now is to be told; Infinity if nothing is. */
  #tell(): number {
    const { clock, journal, redactor, runs } = this.#host
    const now = clock.now()
    const before = this.#told
    this.#told = new Map()
    let nextMs = Number.POSITIVE_INFINITY
    for (const wait of redactor.data(waitsAndWorkOf(this.#host))) {
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
      if (dueMs !== slowAfterMs) this.#told.set(key, dueMs)
      nextMs = Math.min(nextMs, since + dueMs - now)
    }
    return nextMs
  }
}

export const slowWatch = (host: Supervisor): Reader => new SlowWatch(host)

const leastOf = (times: Readonly<Record<string, number | false>>): number =>
  Math.min(...Object.values(times).map((ms) => ms || Number.POSITIVE_INFINITY))
