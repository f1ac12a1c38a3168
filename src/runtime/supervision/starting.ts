/** Turns a thread into an agent: its assignment, the time limit of its start, and its output from then on. */

import type {
  AgentCode,
  AssignedTools,
  Assignment,
  CodeAssignment,
  Started,
} from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import { jsonSchemaOf } from '../../actors/model/structured-output.ts'
import type { Clock, Scheduler } from '../../clock.ts'
import { environment } from '../../environment.ts'
import { AgentCrashedError, errorData, StartFailedError } from '../../errors.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import { picked } from '../../own.ts'
import type { Redactor } from '../logging/redactor.ts'
import { guardedBy } from '../settings/guardrail-shape.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'

/** Limit on the posts of one thread: nobody reads them, but they keep the host busy. */
const MOST_POSTS = 2_000

/** Returns what the thread has to know to load its code. */
export function codeAssignmentOf(
  { settings }: Cell,
  code: AgentCode,
  tools: AssignedTools,
  redactor: Redactor,
): CodeAssignment {
  const { info: role, option, instances } = settings
  const env = picked(environment(), settings.env)
  const keys = Object.entries(env).flatMap(([name, value]) => (redactor.knows(value) ? [name] : []))
  return { role, option, instances, env, keys, code, tools }
}

interface AssignmentNeeds {
  readonly clock: Clock
  readonly directory: AgentDirectory
  readonly journal: Journal
  readonly redactor: Redactor
  readonly team: TeamMemory
}

/** Returns what the thread has to know before its first message. */
export function assignmentOf(
  { clock, directory, journal, redactor, team }: AssignmentNeeds,
  cell: Cell,
  life: Life,
  code: AgentCode,
  tools: AssignedTools,
): Assignment {
  return {
    ...codeAssignmentOf(cell, code, tools, redactor),
    index: cell.index,
    epoch: life.epoch,
    names: directory.names,
    window: life.window.buffer,
    team: team.buffer,
    state: cell.state === undefined ? undefined : JSON.stringify(cell.state),
    correlation: cell.correlation,
    seed: Math.floor(clock.random() * 2 ** 30),
    maxMessageBytes: cell.settings.mailbox.maxMessageBytes,
    maxExternalMb: cell.settings.maxExternalMb,
    isDurable: journal.isKept,
    concurrency: cell.settings.concurrency,
    verbs: cell.settings.verbs,
    loops: cell.settings.loops,
    messagesPerTurn: cell.settings.messagesPerTurn,
    output: cell.settings.output && jsonSchemaOf(cell.settings.output),
    guardedBy: guardedBy(cell.settings.guards),
    contextStrategy: cell.settings.contextStrategy,
  }
}

/** Limits the time of a start. A start that does not settle within the turn timeout has failed. */
export function inTime(clock: Scheduler, cell: Cell, starting: Promise<Started>): Promise<Started> {
  const { turnTimeoutMs } = cell.settings
  if (turnTimeoutMs === false) return starting
  return new Promise((resolve, reject) => {
    const timer = clock.timer(turnTimeoutMs, () => {
      const text = `The start of agent "${cell.name}" (its module, then its start hook) did not end within ${turnTimeoutMs} ms. Raise limits.turnTimeoutMs, or look at what it waits for.`
      resolve({ ok: false, error: errorData(new StartFailedError(text, { agent: cell.name, turnTimeoutMs })) })
    })
    starting.finally(() => timer.cancel()).then(resolve, reject)
  })
}

/** Logs what the thread prints, and what it posts past the runtime. */
export function listen(logger: Logger, { name: agent }: Cell, life: Life): void {
  life.thread.onPrint({
    line: (text) => logger.info({ agent }, text),
    flooded: () =>
      logger.warn(
        { agent },
        'the agent prints more than 10,000 lines or 1 MiB in a second; the rest of that is left out',
      ),
    leftOut: (lines) => logger.warn({ agent, lines }, `${lines} lines that the agent printed were left out`),
  })
  let posts = 0
  life.thread.onForeignPost(() => {
    posts += 1
    if (posts > MOST_POSTS + 1) return // it was ended; what it had posted by then still comes, and may be a lot
    if (posts > MOST_POSTS) {
      const text = `Agent "${agent}" posted more than ${MOST_POSTS} messages to its parent port, so its thread was ended: the host has to take each of them in. Use context.send.`
      return life.kill(new AgentCrashedError(text, { agent, posts: MOST_POSTS }))
    }
    if ((posts & (posts - 1)) !== 0) return // in a flood it logs ever more rarely
    logger.warn(
      { agent, posts },
      'the agent posted to its parent port; that is not how agents talk, and nobody reads it: use context.send',
    )
  })
}
