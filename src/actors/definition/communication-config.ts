/** Options of mailboxes and messages, of a team or of one role. */
import type { OVERFLOW_POLICIES } from '../../mailbox/overflow.ts'

/** Sizes of mailboxes, their overflow policy, and time limits of messages. Sizes in bytes, durations in ms. */
export interface CommunicationConfig {
  /** Number of messages that a mailbox holds. Default: 1,024. */
  mailboxCapacity?: number
  /**
   * Bytes of waiting frames that a mailbox holds. Default: 1 MiB. A larger message is accepted when nothing else waits.
   */
  mailboxBytes?: number
  /** Bytes of one encoded message. Default: 16 MiB. */
  maxMessageBytes?: number
  /**
   * Policy for a message to a full mailbox.
   *
   * - 'block' (the default): the sender's verb waits, and no other agent does.
   * - 'reject': the sender gets `MailboxFullError`.
   * - 'drop_newest': the new message is dropped.
   * - 'drop_oldest': the new message replaces a waiting one with no higher priority: the oldest of the lowest priority.
   *   If that does not free enough space, the new message is dropped itself.
   *
   * A dropped message is a dead letter with reason `overflow`. The sender of a dropped request gets `MailboxFullError`
   * at once; the sender of a dropped send is not notified. A message whose turn has begun is never dropped.
   */
  overflow?: keyof typeof OVERFLOW_POLICIES
  /**
   * Limit for an answer, from the start of the callee's turn. Default: 60,000. The time does not count while that turn,
   * or a turn that it waits for by its requests, has a model call or a question to a person open: these have their own
   * limits.
   */
  responseTimeoutMs?: number
  /**
   * Limit of one model call of this agent, with its retries, its wait for the provider and for tokens. Default:
   * 300,000.
   */
  modelTimeoutMs?: number
  /**
   * Limit for a person's answer to a question of this agent (`ask`, approval of a tool). Default: false, which is until
   * the run ends. `answerWithinMs` of a question, or of a tool, takes precedence.
   */
  answerWithinMs?: number | false
  /**
   * Limit for the wait of a message in a mailbox, and for space in it. Default: false, which is until the run's
   * deadline.
   */
  queueTimeoutMs?: number | false
  /**
   * Number of retries of a request of this agent that has no answer by its deadline (`responseTimeoutMs`,
   * `queueTimeoutMs`). Default: 0. After the last retry its `escalateTo` gets a report, and the request fails.
   */
  retries?: number
  /**
   * Number of times that a turn of this agent is tried again after it threw or was late (`responseTimeoutMs`,
   * `limits.turnTimeoutMs`). Default: 1 for a role that a model plays, 0 for code, since what code did outside of steps
   * would be done twice. The next try begins when the one before has ended, at another of the role's `instances` where
   * one is free, with the steps that had finished.
   *
   * After the last try whoever asked gets the error, and the role's `escalateTo` gets a report. An error that no other
   * try can change is final at once: wrong options and schemas, budgets, refusals, cancellations, and an error of your
   * own with `final: true`. A late turn with a step under way that may not repeat ends with `OutcomeUnknownError`. With
   * `supervision.onHandlerError` set, that says how often a turn that threw is tried.
   */
  turnRetries?: number
}
