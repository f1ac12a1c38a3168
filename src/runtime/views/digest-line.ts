/**
 * Lines of the digest: what happens in a team, small enough to be watched always. Of what agents say to each other it
 * has names and sizes alone. Readers fold the lines (`DigestFold`); this file is all that both sides share.
 */
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'

/** Bit of `message.type`: the message to several agents itself. Its copies, which come behind it, are what they get. */
export const TO_SEVERAL = 8
/** Bit of `message.type`: one agent's copy of a message to several. */
export const COPY = 16

export const STATUSES: readonly AgentStatus[] = [
  'starting',
  'idle',
  'running',
  'waiting',
  'restarting',
  'passivated',
  'stopped',
  'failed',
]

/** Value of `turn.failed` for a turn whose message is tried again. */
export const AGAIN = 2

/** Place in a column that has nothing: no agent, or a message that the digest does not have. */
export const NONE = -1

/** Columns of the tables of a line, with what they mean in `Digest`. */
export const MESSAGE_COLUMNS = ['n', 'run', 'from', 'to', 'type', 'at', 'bytes', 'turn'] as const
export const TURN_COLUMNS = ['message', 'run', 'agent', 'turn', 'start', 'end', 'attempt', 'failed'] as const
export const CALL_COLUMNS = ['message', 'run', 'agent', 'kind', 'name', 'start', 'end', 'in', 'out', 'failed'] as const

/**
 * Line of the digest. A table has `rows` rows, and whole numbers alone. `run`, `from`, `to`, `agent`,
 * `name` are places in the table of names, of which each line has the new ones. Times are ms after `at`, and negative
 * for what began earlier. `n` is the number of a message: 1/8 of the `seq` of its entry, counted from `n` of the line.
 */
export interface Digest {
  /** Number of the last entry that the line is made of. */
  seq: number
  /** Epoch ms. */
  at: number
  /** Base of the numbers of messages. */
  n: number
  /** Names that are new: they come behind those of earlier lines. */
  names?: string[]
  /** `turn`: number of the sender's turn that has sent it, 0 if none has. */
  message?: Columns<(typeof MESSAGE_COLUMNS)[number]>
  /**
   * Turns that have ended. `message`: the message that it had, below 0 with `n` added if it is not known. `failed`: 1
   * if it ended with an error, 2 if its message is tried again.
   */
  turn?: Columns<(typeof TURN_COLUMNS)[number]>
  /** Calls of models (`kind` 0) and tools (1) that have ended. `in`, `out`: tokens. */
  call?: Columns<(typeof CALL_COLUMNS)[number]>
  /** Agents whose figures have changed: several times a second at most. -1 for one that has left. */
  agent?: Record<'agent' | 'status' | 'queued' | 'inFlight' | 'restarts', number[]>
  /** All waits in the team, if they have changed: several times a second at most. */
  waits?: Wait[]
  /**
   * Number of dead letters, where it is not the one before and the `message.dead` of the facts: letters were sent again
   * or discarded. Counts those of this line's facts too.
   */
  deadLetters?: number
  /** Rare events in short: texts and lists in them are cut. */
  facts?: DigestFact[]
  /** State of the team: the first line has it, and the line behind a reader's gap. All earlier names are void. */
  snapshot?: DigestSnapshot
  /** Members of the cluster of a team over several, if something about them has changed. */
  processes?: DigestProcess[]
}

/** Member of a cluster, with its part of the digest. */
export interface DigestProcess {
  /** Host and pid; '' for shards that nobody has. */
  name: string
  /** Shards that it has. */
  shards: number[]
  /** Shards of it that the digest lacks now. */
  missing: number[]
  /** Why it lacks them, where that is known. */
  why?: string
}

export type Columns<Names extends string> = { rows: number } & Record<Names, Column>

/**
 * Whole numbers, one for each row: the one that all rows have, or a list, or runs of numbers with equal steps. A run is
 * three numbers in `runs`: its first number, the step to each next one, and its length.
 */
export type Column = number | number[] | { runs: number[] }

/** Event as JSON, cut short. The fields are those of the event of that type. */
export interface DigestFact {
  type: string
  seq: number
  at: number
  runId: string
  [field: string]: unknown
}

/** State of a team at one moment. */
export interface DigestSnapshot {
  /** Name of the log whose `seq` the lines have. */
  log: string | null
  agents: {
    name: string
    status: AgentStatus
    queued: number
    inFlight: number
    restarts: number
    /** Tokens of its models, its turns and its calls of tools that have ended, since the team was started. */
    usage: TokenUsage
    turns: number
    /** Turns, of all, that have ended with an error, or whose message is tried again. */
    failedTurns: number
    toolCalls: number
  }[]
  /** Runs that have no end yet. */
  runs: DigestRun[]
  questions: DigestQuestion[]
  waits: Wait[]
  deadLetters: number
}

export interface DigestRun {
  id: string
  query: string
  status: string
  startedAt: number
  threadId: string | null
}

/** Characters of a question that a digest has. */
const LONGEST_QUESTION = 2_000

/** Returns the words of a question, cut where they are too long for a digest. */
export const questionInShort = (text: string): string =>
  text.length > LONGEST_QUESTION ? `${text.slice(0, LONGEST_QUESTION)}…` : text

/** Checks for words that were cut: nobody can agree to what he has not read. */
export const isQuestionCut = ({ text }: Pick<DigestQuestion, 'text'>): boolean => text.length > LONGEST_QUESTION

export interface DigestQuestion {
  runId: string
  questionId: string
  agent: string
  text: string
  choices?: string[]
  askedAt: number
  /** Until when it stays open, epoch ms; absent: as long as the run. */
  answerBy?: number
  /** Set for an approval. */
  approval?: DigestApproval
}

/** Digest of what an approval shows, the rule of its tool, and the ids of those who have agreed by now. */
export interface DigestApproval {
  digest: string
  by: string
  groups: string[]
  quorum: number
  agreed: string[]
}

/**
 * Something that waits in a team, or that a turn does by itself: one entry for each turn and kind.
 *
 * `kind` is one of:
 *
 * - `request`, `delegate`: for the answer of the agents in `for`
 * - `dependency`: a task that has not begun waits for tasks of the agents in `for`
 * - `mailbox`: for room in the mailbox of an agent
 * - `reader`: for the agent that reads its stream
 * - `place`: a turn that has the answer of a person waits for another turn of its own agent, which has its place
 * - `sync`: for agents that have not come to a sync point
 * - `blackboard`: for an entry that somebody has to write; `for` has its key
 * - the name of another verb that the runtime serves: `model`, `tool` and `ask` (a person) among them; `for` has the
 *   name of the model or tool, if there is one
 * - `step`: its code is in the steps of that name; a tool that runs in the thread of its agent is a `tool`
 * - `sleep`: for the end of `context.sleep`
 * - `own`: for nothing that the runtime knows: its code computes, or awaits a promise of its own. It is told after a
 *   second, or after `slowMs` if that is less. `since`: when the turn last did something that is known
 * - `limit`: for a limit on how much runs at once, or the rate limit of a provider; `for` has the option that sets it
 * - `budget`: nobody waits: the budget in `for` is used up. `until`: when the next part of it is free again
 * - `switched`: nobody waits: another model of the list in `for` answers. `until`: when the first is tried again
 * - `log`: nobody waits: the durable log has not taken what it was given
 */
export interface Wait {
  runId: string
  /** Agent that waits, or whose turn is to begin; null for a run that waits for its start. */
  agent: string | null
  /** Id of the message whose turn waits, as `messageId` of events; null if no turn has begun, or it is not known. */
  turn: string | null
  for: string[]
  kind: string
  /** Epoch ms. */
  since: number
  /** Epoch ms at which the turn began, if it has begun. */
  turnSince?: number
  /** Time in ms after which it is slow (`supervision.slowMs`); left out for what never is. */
  slowAfterMs?: number
  /** For `kind: 'limit'`: the value of the limit; null where only a provider knows it. */
  limit?: number | null
  /** For `kind: 'limit'`: what those do that have the places, in words. */
  cause?: string
  /** Epoch ms at which a provider takes calls again. */
  until?: number
  /**
   * 'now': it waits in a circle. 'once_slow': it is stuck once it is slow, because a turn of another agent waits for
   * it, nothing in its run brings what it waits for, or its thread does not answer.
   */
  stuck?: 'now' | 'once_slow'
  /**
   * State of the loop of its thread, for work of its own that has taken a second. 'idle': it waits for something.
   * 'busy': it computes. 'silent': it has not answered for a second. Left out where an agent has no thread of its own.
   */
  loop?: 'idle' | 'busy' | 'silent'
}
