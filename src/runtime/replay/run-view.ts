/** Types of the past of a run: `team.replay(runId)`. */
import type { AgentStatus, AgentTask } from '../../actors/definition/task.ts'
import type { MessageType } from '../../mailbox/message.ts'
import type { NamedWait } from '../log/alarms.ts'

/** An agent at a moment of a run. */
export interface AgentView {
  agent: string
  /** Status that follows from what the agent did in this run, and from the life of its thread. */
  status: AgentStatus
}

/** A message that an agent had at a moment of a run, and had not handled. */
export interface MessageView {
  id: string
  type: MessageType
  from: string
  content: string
  priority: number
  /** Epoch ms. */
  sentAt: number
  /** 1 for the first attempt. */
  attempt: number
  /**
   * True if the log says that a turn of the agent has the message. In a team without a durable log only turns that take
   * longer are announced, so it may be false for a turn that has just begun.
   */
  inTurn: boolean
}

/** The messages of one agent, in the order in which they were sent: in its mailbox, in a turn, or waiting for room. */
export interface MailboxView {
  agent: string
  messages: MessageView[]
}

/** State of a run at a moment. */
export interface RunView {
  /** Agents that the log had mentioned by then. */
  agents: AgentView[]
  /** Mailboxes that had messages of this run. */
  mailboxes: MailboxView[]
  /**
   * Waits of the turns of this run, one entry for each. `kind` is `request` or `delegate`, with the agent that
   * is asked in `for`; or the verb that the runtime had not answered yet (`model`, `tool`, `ask`, `sync`,
   * `blackboard.waitFor`, ...), with the name of the tool, sync point or key in `for`.
   */
  waits: NamedWait[]
  /** Value of each key of the blackboard, without those that were superseded. */
  board: Record<string, unknown>
  /** Tasks that had been given, in that order. */
  tasks: AgentTask[]
}

/** A moment of a run that has something to tell. */
export interface RunMoment {
  seq: number
  /** Epoch ms. */
  at: number
  /** Description for people. Words of agents, models and people are cut after 120 characters. */
  sentence: string
}

/**
 * The past of a run, as its log has it: what was logged until `team.replay` was called.
 *
 * @example
 * const past = await team.replay('report-7')
 * for (const { seq, sentence } of past.moments) console.log(sentence, past.at(seq).waits)
 */
export interface RunReplay {
  /** Number of moments: entries of the log that concern the run. */
  readonly length: number
  /** Number of each moment, ascending. An event's `seq` lies at or behind that of the entry that it comes from. */
  readonly seqs: readonly number[]
  /** Moments that have something to tell to a person, in order. The others are housekeeping of the runtime. */
  readonly moments: readonly RunMoment[]
  /**
   * Returns the state after everything up to that number; any number is accepted. Steps forward cost what is logged
   * between; a step back begins at the start of the run.
   *
   * @throws {ConfigurationError} if it is no number.
   */
  at(seq: number): RunView
}
