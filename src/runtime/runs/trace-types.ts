/** The shape of a run's trace: who said what to whom and when, and what happened to the agents meanwhile. */
import type { MessageType } from '../../mailbox/message.ts'

/** What happened in one run, in the order in which the log has it. All times are epoch ms. */
export interface OrchestrationTrace {
  /** Everything that is no message: turns, steps, crashes, restarts, dead letters. `agent` is null if it is no agent's. */
  events: { timestamp: number; eventType: string; agent: string | null; details: object }[]
  /** What the protocol script has decided, and why. */
  decisions: { timestamp: number; question: string; choice: string; reason: string }[]
  /** The turns: from when to when an agent had which message. */
  agentActivations: { agent: string; startedAt: number; endedAt: number; messageId: string }[]
  /** Every message, once for each of its recipients. */
  messageFlow: { from: string; to: string; messageId: string; type: MessageType; at: number }[]
  /** Names of the sync points at which everybody arrived, each once; `events` has every generation (`sync`). */
  syncPointsReached: string[]
}
