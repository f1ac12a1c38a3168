/**
 * Logs what an operator needs to know about threads, crashes and dead letters: names, ids, counts and reasons, never
 * the content of messages. (docs/how-to/look-into-an-old-run.md has the whole table, with what other parts log.)
 *
 * A line for something that is also an event has the event's type as `event`. So a program that shows events can skip
 * it.
 */
import type { AgentStatus } from '../../actors/definition/task.ts'
import type { DeadLetter, DeadLetterReason } from '../../mailbox/dead-letters.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import { isReady, statusOf, sumOf } from '../host/directory.ts'
import type { Reader } from '../host/journal.ts'
import type { HostRecord } from '../log/records.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { OpenTurn } from './slow.ts'

/** State of a team for a service's probes. Durations are in ms. */
export interface Health {
  /** True until the team is closed. */
  live: boolean
  /**
   * True if all agents are ready for messages; of several instances one is enough. A passivated agent is ready: it
   * takes messages. False for good when the durable log is lost: no runs are taken then.
   */
  ready: boolean
  /** True after `close` was called. */
  draining: boolean
  /**
   * State of each agent by name. `queued`: messages that wait. `inFlight`: messages under way. `lastBeatMs`: time since
   * a turn ended. `staleFrames`: dropped frames that threads of the agent wrote after they had been given up; they are
   * counted when such a thread is gone.
   */
  agents: Record<
    string,
    {
      status: AgentStatus
      queued: number
      inFlight: number
      restarts: number
      lastBeatMs: number
      staleFrames: number
      /** Turns under way, as in `team.turns()`. */
      turns: OpenTurn[]
    }
  >
  runs: { running: number; queued: number }
  /**
   * Number of repairs of words in the memory that all threads share, because they differed from the host's records.
   * Above 0: code in some thread writes where only the runtime does.
   */
  sharedMemoryRepairs: number
  /** Number of dead letters in the list now. */
  deadLetters: number
  /** Number of dead letters that the full list has discarded: the oldest beyond 10,000, or beyond 64 MiB. */
  deadLettersForgotten: number
  /**
   * State of the durable log. `ok`: false if it is lost, if its disk is full, or if it has not taken something within
   * 10 s. `lagMs`: time that it has been at work on the oldest thing that it has not done.
   */
  log: { ok: boolean; lagMs: number }
}

export function healthOf(supervisor: Supervisor, runs: RunBook, turns: readonly OpenTurn[]): Health {
  const { clock, journal } = supervisor
  const agents = supervisor.directory.agents()
  const now = clock.monotonic()
  const byAgent = new Map<string, OpenTurn[]>()
  for (const turn of turns) byAgent.set(turn.agent, [...(byAgent.get(turn.agent) ?? []), turn])
  return {
    live: !supervisor.loop.closed,
    ready: !runs.closing && !runs.endings.lost && agents.every(({ instances }) => instances.some(isReady)),
    draining: runs.closing,
    agents: Object.fromEntries(
      agents.map((agent) => [
        agent.name,
        {
          status: statusOf(agent),
          queued: agent.mailbox.waiting + agent.mailbox.pending.length,
          inFlight: agent.mailbox.underWay,
          restarts: sumOf(agent, ({ restarts }) => restarts),
          lastBeatMs: sinceTurn(agent, now),
          staleFrames: sumOf(agent, ({ staleFrames }) => staleFrames),
          turns: byAgent.get(agent.name) ?? [],
        },
      ]),
    ),
    runs: runs.line.counts,
    sharedMemoryRepairs: supervisor.repairs.count,
    deadLetters: journal.deadLetters.length,
    deadLettersForgotten: journal.deadLetters.forgotten,
    log: journal.health,
  }
}

/** Returns the ms since a turn of the agent has ended, or since its thread has started. */
function sinceTurn({ instances }: Agent, now: number): number {
  const ends = instances.flatMap(({ epoch, lastEndAt }) => (epoch === 0 ? [] : [lastEndAt]))
  return ends.length === 0 ? 0 : Math.max(0, now - Math.max(...ends))
}

interface Needs extends Pick<Supervisor, 'directory' | 'logger' | 'runs'> {
  /** Agents that have crashed and are not ready again, with their runs. */
  readonly crashed: Set<string>
}

/** Reasons that somebody intended: they are no problem. */
const EXPECTED_REASONS: ReadonlySet<DeadLetterReason> = new Set(['cancelled', 'late'])

export function operatorLog({ directory, logger, runs }: Supervisor): Reader {
  const needs = { directory, logger, runs, crashed: new Set<string>() }
  return {
    kinds: [
      'run.started',
      'run.finished',
      'agent.ready',
      'agent.crashed',
      'agent.reloaded',
      'agent.status',
      'message.dead',
      'alarm',
      'sync',
      'budget',
      'step.mismatch',
      'turn.retried',
    ],
    next(batch) {
      let letters: DeadLetter[] | undefined
      for (const record of batch) {
        if (record.kind === 'frames') continue
        if (record.kind !== 'message.dead') logRecord(needs, record)
        else if (letters) letters.push(record.letter)
        else letters = [record.letter]
      }
      if (letters) logDeadLetters(needs, letters)
    },
  }
}

function logRecord(needs: Needs, record: HostRecord): void {
  const { logger } = needs
  switch (record.kind) {
    case 'run.started':
      return logger.debug({ runId: needs.runs.idOf(record.run) }, 'a run begins')
    case 'run.finished':
      return logRunEnd(needs, record.run, record.error)
    case 'agent.ready': {
      const { agent, epoch, warm, woken } = record
      const tookMs = Math.round(record.tookMs)
      if (woken) return logger.debug({ event: 'agent.status', agent, epoch, warm, tookMs }, 'has a thread again')
      if (!needs.crashed.delete(keyOf(record))) return logger.debug({ agent, epoch, warm, tookMs }, 'is ready')
      return logger.info({ event: 'agent.status', agent, epoch, warm, tookMs }, 'is ready again')
    }
    case 'agent.crashed': {
      const { kind, agent, epoch, error, restartInMs } = record
      needs.crashed.add(keyOf(record))
      const next = restartInMs === null ? 'does not restart' : `restarts in ${Math.round(restartInMs)} ms`
      return logger.warn({ event: kind, agent, epoch, restartInMs, error }, `crashed and ${next}`)
    }
    case 'agent.reloaded': {
      const { kind, agent, epoch } = record
      return logger.info({ event: kind, agent, epoch }, 'runs newly loaded code')
    }
    case 'agent.status': {
      const { agent, instance, epoch, status } = record
      if (status !== 'failed') return // it left in order
      const error = needs.directory.agent(agent, needs.runs.get(record.run))?.instances[instance ?? 0]?.stopped
      if (instance === undefined) return logger.error({ agent, epoch, error }, 'is stopped for good')
      return logger.error({ agent, instance, epoch, error }, 'one of its instances is stopped for good')
    }
    case 'alarm': {
      const { name: event, agents, title, fields, details } = record
      return logger.warn({ event, runId: needs.runs.idOf(record.run), agents, ...fields, ...details }, title)
    }
    case 'sync': {
      const { kind, point, result, run } = record
      const { generation, missing } = result
      if (missing.length === 0) return
      const fields = { event: kind, runId: needs.runs.idOf(run), point, generation, missing }
      return logger.warn(fields, 'a generation of a sync point ended without some')
    }
    case 'budget': {
      const { kind: event, agent, used, limit, unit, tenant } = record
      const text = `a limit of ${unit === undefined ? 'tokens' : 'money'} is nearly reached, or reached`
      const of = { ...(unit !== undefined && { unit }), ...(tenant !== undefined && { tenant }) }
      return logger.warn({ event, runId: needs.runs.idOf(record.run), agent, used, limit, ...of }, text)
    }
    case 'turn.retried': {
      const { agent, run, messageId, tried, error } = record
      const fields = { agent, runId: needs.runs.idOf(run), messageId, tried, code: error.code }
      return logger.warn(fields, 'a turn that threw or was late is tried again')
    }
    case 'step.mismatch': {
      const { agent, messageId, error } = record
      return logger.warn({ agent, messageId, error }, 'a repeated turn did not repeat the steps of its earlier attempt')
    }
  }
}

const keyOf = ({ run, agent }: { readonly run: number; readonly agent: string }) => `${run} ${agent}`

const LONGEST_REASON = 1_000 // characters

/**
 * Logs the end of a run. The reason for a failure is the message of its error only: the details may hold what agents
 * have said.
 */
function logRunEnd(needs: Needs, run: number, error: DramatisError | null): void {
  const { logger } = needs
  const runId = needs.runs.idOf(run)
  if (!error) return logger.debug({ runId }, 'a run has ended')
  const { code, details, message, modelFailure } = error
  if (code === 'RUN_ABORTED') return logger.debug({ runId, code }, 'a run was aborted')
  const agent = typeof details.agent === 'string' ? details.agent : modelFailure?.agent
  const reason = modelFailure?.reason
  const told = message.length > LONGEST_REASON ? `${message.slice(0, LONGEST_REASON)}...` : message
  const fields = {
    event: 'run.finished',
    ...(agent !== undefined && { agent }),
    runId,
    code,
    ...(reason && { reason }),
    error: told,
  }
  logger.error(fields, 'a run failed')
}

/** Logs one line for each agent and reason, however many messages died together. */
function logDeadLetters({ logger }: Needs, letters: readonly DeadLetter[]): void {
  const groups = new Map<string, DeadLetter[]>()
  for (const letter of letters) {
    const key = `${letter.reason} ${letter.message.recipient}`
    const group = groups.get(key)
    if (group) group.push(letter)
    else groups.set(key, [letter])
  }
  for (const group of groups.values()) {
    const { message, reason, errors } = group.at(-1)!
    const { id, sender, recipient, runId } = message
    const fields = {
      event: 'message.dead',
      agent: recipient,
      reason,
      count: group.length,
      messageId: id,
      sender,
      runId,
    }
    const text = `${group.length === 1 ? 'a message' : `${group.length} messages`} to it will not be handled (${reason})`
    logger[EXPECTED_REASONS.has(reason) ? 'debug' : 'warn']({ ...fields, code: errors.at(-1)?.code ?? null }, text)
  }
}
