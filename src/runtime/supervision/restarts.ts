/**
 * Restarts agents that died, with their group, as the restart policy says. Stops agents that die too often, and retries
 * them after their cool-down. A group ends in the reverse order of its start, each agent once the one before is gone. A
 * group starts in order, each agent once the one before is ready.
 */

import { AgentTerminatedError, type DramatisError } from '../../shared/errors.ts'
import type { Cell, RestartTime } from '../host/agent.ts'
import type { Reader } from '../host/journal.ts'
import type { HostRecord } from '../log/records.ts'
import type { RestartType, Strategy } from '../settings/options.ts'
import type { Supervisor } from './host.ts'

/*
 * Decides whether a dead agent restarts, which agents restart with it, and when: rules 1 to 3, after OTP's supervisor
 * (strategies, child types, add_restart/3) and capped exponential backoff.
 */

/** Checks whether an agent restarts. `ended`: its thread ended by itself and as it should, not by a crash. */
export const livesAgain = (type: RestartType, ended: boolean): boolean =>
  type === 'permanent' || (type === 'transient' && !ended)

/**
 * Returns the agents that end and start together when one has died: the dead one and others of `all`, in their order.
 */
export function groupOf<T>(strategy: Strategy, all: readonly T[], dead: T): readonly T[] {
  const at = all.indexOf(dead)
  if (strategy === 'one_for_one' || at < 0) return [dead]
  return strategy === 'one_for_all' ? all : all.slice(at)
}

export interface RestartPolicy {
  maxRestarts: number
  withinMs: number
  backoff: { baseMs: number; capMs: number }
}

export interface Restart {
  /** True: the agent restarts after `delayMs`. False: it has died too often, so it is stopped. */
  restart: boolean
  delayMs: number
  history: readonly RestartTime[]
}

/**
 * Decides on the next restart and its delay. The first restart is immediate; then base * 2^n up to the cap, times a
 * uniform 0.5 to 1. More than `maxRestarts` within `withinMs` is too many. After (base + cap) / 2 ms without a crash
 * the count for the delay starts anew.
 */
export function nextRestart(
  policy: RestartPolicy,
  history: readonly RestartTime[],
  now: number,
  epoch: number,
  random: () => number,
): Restart {
  const { maxRestarts, withinMs, backoff } = policy
  const recent = history.filter(({ at }) => now - at < withinMs)
  const n = consecutive(history, now, (backoff.baseMs + backoff.capMs) / 2)
  const delay = n === 0 ? 0 : Math.min(backoff.capMs, backoff.baseMs * 2 ** (n - 1))
  const delayMs = delay * (0.5 + random() / 2)
  return { restart: recent.length < maxRestarts, delayMs, history: [...recent, { at: now, epoch, delayMs }] }
}

/** Counts the restarts in a row, without a healthy time of `healthMs` between them. */
function consecutive(history: readonly RestartTime[], now: number, healthMs: number): number {
  let count = 0
  let later = now
  for (let i = history.length - 1; i >= 0; i--) {
    const { at, delayMs } = history[i]!
    if (later - at - delayMs > healthMs) break
    count += 1
    later = at
  }
  return count
}

const UNCOUNTED: ReadonlySet<Exit['how']> = new Set(['recalled', 'reloaded', 'passivated'])

type Exit = Extract<HostRecord, { kind: 'agent.exited' }>

/** Action on a group of agents. A later exit takes over the agents that it concerns. */
interface Round {
  readonly group: readonly Cell[]
  /** Delay before the start, in ms; null: the agents are being stopped. */
  readonly delayMs: number | null
}

export const restarts = ({ clock, directory, exits, journal, lifecycle }: Supervisor): Reader => {
  const rounds = new Map<Cell, Round>()
  /** Transient agents that ended as they should, with the reason of their stop: they restart only with their group. */
  const resting = new Map<Cell, DramatisError>()

  /** Returns the agents that a group strategy concerns: those of the team. An agent of one run stands alone. */
  const peersOf = (cell: Cell) =>
    cell.run ? [cell] : directory.actors.filter(({ settings, run }) => settings.isAgent && !run)
  const rests = (cell: Cell) => cell.stopped !== undefined && resting.get(cell) === cell.stopped

  /**
   * Returns the group of a dead agent. Agents that are stopped permanently do not come back because another has died.
   * Those that have no thread begin anew with their next message anyway.
   */
  const groupWith = (dead: Cell) =>
    groupOf(dead.settings.supervision.strategy, peersOf(dead), dead).filter(
      (cell) => cell.dormant !== 'asleep' && (!cell.stopped || rests(cell)),
    )

  const exited = (exit: Exit) => {
    const cell = directory.cells[exit.index]!.instances[exit.instance ?? 0]!
    if (cell.stopped || UNCOUNTED.has(exit.how)) return
    const { restart } = cell.settings.supervision
    if (!livesAgain(restart, exit.how === 'ended')) return endForGood(cell, exit)
    const round = rounds.get(cell)
    if (round) return tell(cell, exit, round.delayMs) // it died while it was ended or kept down with others
    const group = groupWith(cell)
    const next = countRestart(cell, exit)
    if (next.restart) {
      tell(cell, exit, next.delayMs)
      void startAgain({ group, delayMs: next.delayMs }, cell)
    } else {
      tell(cell, exit, null)
      void stopTooOften(group, cell, next.deaths, exit.error.message)
    }
  }

  /**
   * Decides on the restart, and adds it to the agent's restarts within the limit. Under a group strategy the restarts
   * of all agents count together, as in OTP.
   */
  const countRestart = (cell: Cell, { epoch, fault }: Exit) => {
    const { supervision } = cell.settings
    const together = supervision.strategy === 'one_for_one' || !cell.settings.isAgent ? [cell] : peersOf(cell)
    const history = together.flatMap(({ restartTimes }) => restartTimes).sort((a, b) => a.at - b.at)
    const others = new Set<RestartTime>(together.flatMap((other) => (other === cell ? [] : [...other.restartTimes])))
    const next = nextRestart(supervision, history, clock.monotonic(), epoch, () => clock.random())
    if (fault) cell.restartTimes = next.history.filter((time) => !others.has(time))
    // Exits that a poison message caused do not count.
    return { restart: next.restart || !fault, delayMs: next.delayMs, deaths: next.history.length }
  }

  const tell = (cell: Cell, { epoch, error, messageId }: Exit, restartInMs: number | null) =>
    journal.record(cell.run, { kind: 'agent.crashed', ...cell.whose, epoch, error, restartInMs, messageId })

  const startAgain = async (round: Round, dead: Cell) => {
    for (const cell of round.group) rounds.set(cell, round)
    keepDown(dead)
    for await (const cell of endOthers(round, dead)) keepDown(cell)
    if (round.delayMs) await new Promise<void>((resolve) => clock.timer(round.delayMs!, resolve))
    await begin(round)
  }

  const keepDown = (cell: Cell) => {
    cell.restarts += 1
    if (!rests(cell) && !cell.life) lifecycle.become(cell, 'restarting')
  }

  /**
   * Ends the other agents of the group, last first. Yields each agent that may restart when its thread is gone, unless
   * a later round has taken it over by then.
   */
  async function* endOthers(round: Round, dead: Cell) {
    const isOurs = (cell: Cell) => rounds.get(cell) === round && (!cell.stopped || rests(cell))
    for (const cell of [...round.group].reverse()) {
      if (cell === dead || !isOurs(cell)) continue
      await exits.recall(cell)
      if (!isOurs(cell)) continue
      if (cell.settings.supervision.restart !== 'temporary') yield cell
      else stopWithOthers(cell)
    }
  }

  const stopWithOthers = (cell: Cell) => {
    const text = "It was ended with others (supervision.strategy), and a 'temporary' agent is not started again."
    lifecycle.stopForGood(cell, new AgentTerminatedError(text, { agent: cell.name }), 'stopped')
  }

  const begin = async (round: Round) => {
    for (const cell of round.group) {
      if (rounds.get(cell) !== round) continue
      rounds.delete(cell)
      if (cell.life || (cell.stopped && !rests(cell))) continue
      await (cell.stopped ? lifecycle.revive(cell) : lifecycle.begin(cell))
      await lifecycle.ready(cell).catch(() => {}) // if it rejects, the agent is stopped, and the next one still starts
    }
  }

  const endForGood = (cell: Cell, exit: Exit) => {
    const { restart } = cell.settings.supervision
    const normal = exit.how === 'ended'
    if (!normal) tell(cell, exit, null)
    const why = normal ? 'It ended by itself, with exit code 0' : `It died: ${exit.error.message}`
    const error = new AgentTerminatedError(
      `${why}; a '${restart}' agent (supervision.restart) is not started again after that.`,
      { agent: cell.name, restart },
      normal ? undefined : exit.error,
    )
    if (restart === 'transient') resting.set(cell, error)
    else rounds.delete(cell)
    lifecycle.stopForGood(cell, error, normal ? 'stopped' : 'failed')
  }

  const stopTooOften = async (group: readonly Cell[], dead: Cell, times: number, last: string) => {
    const { maxRestarts, withinMs, coolDownMs } = dead.settings.supervision
    const who = group.length > 1 ? 'It and the agents that are restarted with it' : 'It'
    const error = new AgentTerminatedError(
      `${who} died ${times} times within ${withinMs} ms (allowed: ${maxRestarts}) and is tried again after ${coolDownMs} ms. The last time: ${last}`,
      { agent: dead.name, deaths: times, withinMs, coolDownMs },
    )
    const round: Round = { group, delayMs: null }
    for (const cell of group) rounds.set(cell, round)
    rounds.delete(dead)
    lifecycle.stopForGood(dead, error)
    for await (const cell of endOthers(round, dead)) {
      rounds.delete(cell)
      if (!cell.stopped) lifecycle.stopForGood(cell, error)
    }
    clock.timer(coolDownMs, () => void tryAgain(group, error))
  }

  /**
   * Retries a group after its cool-down. Skips an agent that was removed or started in another way meanwhile, also
   * while the one before it starts.
   */
  const tryAgain = async (group: readonly Cell[], error: DramatisError) => {
    for (const cell of group) {
      if (cell.stopped !== error && !rests(cell)) continue
      await lifecycle.revive(cell)
      await lifecycle.ready(cell).catch(() => {})
    }
  }

  return {
    kinds: ['agent.exited'],
    next(batch) {
      for (const record of batch) if (record.kind === 'agent.exited') exited(record)
    },
  }
}
