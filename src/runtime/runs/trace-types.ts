/** Shape of a run's trace: the messages with senders, recipients and times, and what happened to the agents. */
import type { MessageType } from '../../mailbox/message.ts'

/** Trace of one run, in the order of the log. All times are epoch ms. */
export interface OrchestrationTrace {
  /**
   * Events: messages (`message`, once each, with its sender as `agent`), turns, steps, crashes, restarts, dead
   * letters. `agent` is null if an event belongs to no agent.
   */
  events: { timestamp: number; eventType: string; agent: string | null; details: object }[]
  /** Decisions of the protocol script, with the reasons. */
  decisions: { timestamp: number; question: string; choice: string; reason: string }[]
  /** Turns: the times at which an agent had a message. */
  agentActivations: { agent: string; startedAt: number; endedAt: number; messageId: string }[]
  /** All messages, once for each recipient. */
  messageFlow: { from: string; to: string; messageId: string; type: MessageType; at: number }[]
  /** Names of the sync points at which all agents arrived, each once; `events` has every generation (`sync`). */
  syncPointsReached: string[]
}
