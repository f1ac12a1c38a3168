/**
 * Finds threads that are stuck: with a turn under way, and silent for `watchdogMs`. Silent means that neither a bell was
 * answered nor anything read or written. It asks by bell, so an idle team has no timer; it pauses while a debugger is
 * attached, and starts anew when the host itself was late.
 */
import { url as inspectorUrl } from 'node:inspector'
import type { Timer } from '../../clock.ts'
import { AgentCrashedError } from '../../errors.ts'
import { BEAT } from '../../mailbox/window.ts'
import type { Cell, Life } from '../cell.ts'
import type { Part } from '../core.ts'

interface Pulse {
  life: Life
  beat: number
  since: number
}

export const watchdog: Part = (core) => {
  const { clock, deaths } = core
  const pulses = new Map<Cell, Pulse>()
  let timer: Timer | undefined
  let checkedAt = 0

  const watched = () =>
    core.cells.filter(
      (cell) =>
        cell.life?.thread.isolated && cell.settings.supervision.watchdogMs !== false && cell.mailbox.handed.size > 0,
    )

  const check = () => {
    timer = undefined
    const now = clock.monotonic()
    const cells = watched()
    const late = now - checkedAt > 2 * interval() + 100
    checkedAt = now
    const attached = inspectorUrl() !== undefined
    for (const cell of pulses.keys()) if (!cells.includes(cell)) pulses.delete(cell)
    for (const cell of cells) look(cell, now, late || attached)
    arm()
  }

  const look = (cell: Cell, now: number, excused: boolean) => {
    const life = cell.life!
    const { window } = life
    const beat =
      Atomics.load(window.words, BEAT) +
      window.outbox.readTo() +
      window.plain.readTo() +
      window.ranked.readTo() +
      window.replies.readTo() +
      cell.turns
    const pulse = pulses.get(cell)
    const limit = cell.settings.supervision.watchdogMs
    if (!pulse || pulse.life !== life || pulse.beat !== beat || excused || limit === false)
      pulses.set(cell, { life, beat, since: now })
    else if (now - pulse.since >= limit) {
      pulses.delete(cell)
      const error = new AgentCrashedError(
        `The thread of agent "${cell.name}" is stuck: with a turn under way it gave no sign of life for ${limit} ms (an endless loop, or blocking code). Raise supervision.watchdogMs if its work may take that long without a pause.`,
        { agent: cell.name, watchdogMs: limit },
      )
      return deaths.kill(cell, error)
    }
    life.thread.ring()
  }

  /** Of all agents, not of those with a turn now: one that begins later may have less time. */
  const interval = () => {
    let least = Number.POSITIVE_INFINITY
    for (const { settings } of core.cells) {
      const { watchdogMs } = settings.supervision
      if (watchdogMs !== false) least = Math.min(least, watchdogMs / 4)
    }
    return least
  }

  const arm = () => {
    if (!timer && watched().length > 0) timer = clock.timer(interval(), check)
  }

  return {
    next() {
      if (timer) return
      checkedAt = clock.monotonic()
      arm()
    },
    close: () => timer?.cancel(),
  }
}
