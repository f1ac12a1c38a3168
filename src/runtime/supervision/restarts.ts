/**
 * Restarts agents that died, with their group, as the restart policy says. Stops agents that die too often, and retries
 * them after their cool-down. A group ends in the reverse order of its start, each agent once the one before is gone. A
 * group starts in order, each agent once the one before is ready.
 */

import { AgentTerminatedError, type DramatisError } from '../../shared/errors.ts'
import type { Agent, RestartTime } from '../host/agent.ts'
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
  readonly group: readonly Agent[]
  /** Delay before the start, in ms; null: the agents are being stopped. */
  readonly delayMs: number | null
}

export const restarts = ({ clock, directory, exits, journal, lifecycle }: Supervisor): Reader => {
  const rounds = new Map<Agent, Round>()
  /** Transient agents that ended as they should, with the reason of their stop: they restart only with their group. */
  const resting = new Map<Agent, DramatisError>()

  /** Returns the agents that a group strategy concerns: those of the team. An agent of one run stands alone. */
  const peersOf = (agent: Agent) =>
    agent.run ? [agent] : directory.actors.filter(({ settings, run }) => settings.isAgent && !run)
  const rests = (agent: Agent) => agent.stopped !== undefined && resting.get(agent) === agent.stopped

  /**
   * Returns the group of a dead agent. Agents that are stopped permanently do not come back because another has died.
   * Those that have no thread begin anew with their next message anyway.
   */
  const groupWith = (dead: Agent) =>
    groupOf(dead.settings.supervision.strategy, peersOf(dead), dead).filter(
      (agent) => agent.passivated !== 'asleep' && (!agent.stopped || rests(agent)),
    )

  const exited = (exit: Exit) => {
    const agent = directory.byIndex[exit.index]!.instances[exit.instance ?? 0]!
    if (agent.stopped || UNCOUNTED.has(exit.how)) return
    const { restart } = agent.settings.supervision
    if (!livesAgain(restart, exit.how === 'ended')) return endForGood(agent, exit)
    const round = rounds.get(agent)
    if (round) return tell(agent, exit, round.delayMs) // it died while it was ended or kept down with others
    const group = groupWith(agent)
    const next = countRestart(agent, exit)
    if (next.restart) {
      tell(agent, exit, next.delayMs)
      void startAgain({ group, delayMs: next.delayMs }, agent)
    } else {
      tell(agent, exit, null)
      void stopTooOften(group, agent, next.deaths, exit.error.message)
    }
  }

  /**
   * Decides on the restart, and adds it to the agent's restarts within the limit. Under a group strategy the restarts
   * of all agents count together, as in OTP.
   */
  const countRestart = (agent: Agent, { epoch, fault }: Exit) => {
    const { supervision } = agent.settings
    const together = supervision.strategy === 'one_for_one' || !agent.settings.isAgent ? [agent] : peersOf(agent)
    const history = together.flatMap(({ restartTimes }) => restartTimes).sort((a, b) => a.at - b.at)
    const others = new Set<RestartTime>(together.flatMap((other) => (other === agent ? [] : [...other.restartTimes])))
    const next = nextRestart(supervision, history, clock.monotonic(), epoch, () => clock.random())
    if (fault) agent.restartTimes = next.history.filter((time) => !others.has(time))
    // Exits that a poison message caused do not count.
    return { restart: next.restart || !fault, delayMs: next.delayMs, deaths: next.history.length }
  }

  const tell = (agent: Agent, { epoch, error, messageId }: Exit, restartInMs: number | null) =>
    journal.record(agent.run, { kind: 'agent.crashed', ...agent.whose, epoch, error, restartInMs, messageId })

  const startAgain = async (round: Round, dead: Agent) => {
    for (const agent of round.group) rounds.set(agent, round)
    keepDown(dead)
    for await (const agent of endOthers(round, dead)) keepDown(agent)
    if (round.delayMs) await new Promise<void>((resolve) => clock.timer(round.delayMs!, resolve))
    await begin(round)
  }

  const keepDown = (agent: Agent) => {
    agent.restarts += 1
    if (!rests(agent) && !agent.incarnation) lifecycle.become(agent, 'restarting')
  }

  /**
   * Ends the other agents of the group, last first. Yields each agent that may restart when its thread is gone, unless
   * a later round has taken it over by then.
   */
  async function* endOthers(round: Round, dead: Agent) {
    const isOurs = (agent: Agent) => rounds.get(agent) === round && (!agent.stopped || rests(agent))
    for (const agent of [...round.group].reverse()) {
      if (agent === dead || !isOurs(agent)) continue
      await exits.recall(agent)
      if (!isOurs(agent)) continue
      if (agent.settings.supervision.restart !== 'temporary') yield agent
      else stopWithOthers(agent)
    }
  }

  const stopWithOthers = (agent: Agent) => {
    const text = "It was ended with others (supervision.strategy), and a 'temporary' agent is not started again."
    lifecycle.stopForGood(agent, new AgentTerminatedError(text, { agent: agent.name }), 'stopped')
  }

  const begin = async (round: Round) => {
    for (const agent of round.group) {
      if (rounds.get(agent) !== round) continue
      rounds.delete(agent)
      if (agent.incarnation || (agent.stopped && !rests(agent))) continue
      await (agent.stopped ? lifecycle.revive(agent) : lifecycle.begin(agent))
      await lifecycle.ready(agent).catch(() => {}) // if it rejects, the agent is stopped, and the next one still starts
    }
  }

  const endForGood = (agent: Agent, exit: Exit) => {
    const { restart } = agent.settings.supervision
    const normal = exit.how === 'ended'
    if (!normal) tell(agent, exit, null)
    const why = normal ? 'It ended by itself, with exit code 0' : `It died: ${exit.error.message}`
    const error = new AgentTerminatedError(
      `${why}; a '${restart}' agent (supervision.restart) is not started again after that.`,
      { agent: agent.name, restart },
      normal ? undefined : exit.error,
    )
    if (restart === 'transient') resting.set(agent, error)
    else rounds.delete(agent)
    lifecycle.stopForGood(agent, error, normal ? 'stopped' : 'failed')
  }

  const stopTooOften = async (group: readonly Agent[], dead: Agent, times: number, last: string) => {
    const { maxRestarts, withinMs, coolDownMs } = dead.settings.supervision
    const who = group.length > 1 ? 'It and the agents that are restarted with it' : 'It'
    const error = new AgentTerminatedError(
      `${who} died ${times} times within ${withinMs} ms (allowed: ${maxRestarts}) and is tried again after ${coolDownMs} ms. The last time: ${last}`,
      { agent: dead.name, deaths: times, withinMs, coolDownMs },
    )
    const round: Round = { group, delayMs: null }
    for (const agent of group) rounds.set(agent, round)
    rounds.delete(dead)
    lifecycle.stopForGood(dead, error)
    for await (const agent of endOthers(round, dead)) {
      rounds.delete(agent)
      if (!agent.stopped) lifecycle.stopForGood(agent, error)
    }
    clock.timer(coolDownMs, () => void tryAgain(group, error))
  }

  /**
   * Retries a group after its cool-down. Skips an agent that was removed or started in another way meanwhile, also
   * while the one before it starts.
   */
  const tryAgain = async (group: readonly Agent[], error: DramatisError) => {
    for (const agent of group) {
      if (agent.stopped !== error && !rests(agent)) continue
      await lifecycle.revive(agent)
      await lifecycle.ready(agent).catch(() => {})
    }
  }

  return {
    kinds: ['agent.exited'],
    next(batch) {
      for (const record of batch) if (record.kind === 'agent.exited') exited(record)
    },
  }
}
