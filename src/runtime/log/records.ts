/**
 * Kinds of records in the log. Most of the log is frames, as the agents wrote them; the host writes the other kinds.
 * Trace, history, tasks, events and status are folds over both.
 */

import type { ApprovedCall } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import type { SharedScope, SyncResult } from '../../actors/definition/context.ts'
import type { ModelMessage, TokenUsage, Watched } from '../../actors/definition/model.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { AgentStatus, AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import type { Conversation } from '../../actors/model/conversation.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import type { Memory } from '../../mailbox/frame.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { SwitchReason } from '../providers/failover.ts'
import type { TokenLimit, TraceHeaders } from '../settings/options.ts'
import type { EndingState } from '../settings/team-shape.ts'

/*
 * The alarms of detectors. All have one kind of record, which carries its own words, so that a new detector changes
 * nothing where records are read: events, trace, diagram, log lines, spans and the terminal.
 */

/** A turn that waits, and the agents that it waits for, by name. */
export interface NamedWait {
  agent: string
  for: string[]
  kind: string
}

/** Fields of the events of each detector, by the event's type. A new detector adds its row. */
export interface AlarmFields {
  /** `victim`: the agent whose wait was given up so that the others go on; null: the deadlock stands. */
  deadlock: { cycle: string[]; tail: string[]; waits: NamedWait[]; victim: string | null }
  /** `evidence`: the signs since the last progress: names, counts and ids alone. */
  livelock: { evidence: string[] }
  stall: { evidence: string[] }
  /** Something takes longer than `supervision.slowMs`, or ten times as long as when it was told last. */
  slow: SlowFields
}

/** `kind` and `name` as in `doing` of `team.turns()`; `forMs`: for how long by then. */
export interface SlowFields {
  agent: string
  messageId: string
  kind: string
  name: string | null
  forMs: number
}

/** Finding of a detector. */
export type Alarm = {
  [Name in keyof AlarmFields]: {
    /** Type of the event. */
    readonly name: Name
    /** Agents that it is about. */
    readonly agents: readonly string[]
    /** Text of the log line. No words of agents: names, counts and ids alone, like the sentence. */
    readonly title: string
    /** Description for people who watch: in events, on a terminal and in diagrams, after the name. */
    readonly sentence: string
    readonly fields: Readonly<AlarmFields[Name]>
    /** Further fields of the log line, the trace and the span. */
    readonly details?: Readonly<Record<string, string | number>>
  }
}[keyof AlarmFields]

/* The alarm of a livelock, for the detector of messages and for the threads of models, which watch their own rounds. */

/**
 * Steps of rule 30. A tie-breaker would come before the abort: no protocol of this version has one, and none is made
 * up.
 */
export const LADDER = ['notice', 'replan', 'abort'] as const

export type LivelockStep = (typeof LADDER)[number]

/** `evidence`: all signs since the last progress. */
export const livelockAlarm = (step: LivelockStep, agents: readonly string[], evidence: readonly string[]): Alarm => ({
  name: 'livelock',
  agents,
  title: `agents are busy without progress (${step})`,
  sentence: evidence.join('; '),
  fields: { evidence: [...evidence] },
  details: { step },
})

/** Block of contiguous frames, all of one run. Each frame takes `SEQ_STEP` numbers, from `seq` on. */
export interface FrameBlock {
  readonly kind: 'frames'
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  readonly run: number
  readonly memory: Memory
  readonly from: number
  readonly to: number
  readonly count: number
}

/**
 * Numbers that a frame takes. A frame can become several events: the begin and end of a turn, a message, the status of
 * two agents. Each event needs a number of its own.
 */
export const SEQ_STEP = 8

type OfKind<Kind extends string, Fields> = {
  readonly kind: Kind
  readonly seq: number
  readonly at: number
  readonly run: number
} & Readonly<Fields>

/**
 * Fields that name the agent a record belongs to. `index`: distinguishes agents of one name, which can come again in
 * another run or for another agent. `instance`: thread of the agent, if it has several.
 */
export interface Whose {
  agent: string
  index: number
  instance?: number
}

/**
 * Steps of a handoff: the six, in their order. If the target declines, 'declined' takes the
 * place of the last three.
 */
export type HandoffStep =
  | 'summarized'
  | 'identified'
  | 'requested'
  | 'acknowledged'
  | 'handed_off'
  | 'proceeding'
  | 'declined'

/**
 * Another model of a list is asked for an answer, and stays with the run. `entry`: name of the list; `from`, `to`:
 * names of entries. `heard`: number of words that were said already, and do not count.
 */
export interface ModelSwitched {
  agent: string
  messageId: string
  entry: string
  from: string
  to: string
  reason: SwitchReason
  heard: number
}

/** Decision of a guardrail. `tool`: the tool whose call was checked. */
export interface GuardrailDecided {
  agent: string | null
  guardrail: string
  on: 'input' | 'output' | 'tool'
  outcome: 'passed' | 'changed' | 'refused'
  durationMs: number
  tool?: string
  reason?: string
}

/** Fields that name a call of a model whose pieces are read along. `callId`: the same for all of its pieces. */
export type OfWatchedCall = Watched & { agent: string; callId: string }

/** Schema of a run as `run.launched` has it: a part has the JSON schema, once for all runs that use it. */
export interface LoggedOutput {
  /** The same for the same JSON schema, however its keys are ordered. */
  readonly digest: string
  /** Hash of the part; its size in bytes. */
  readonly part?: string
  readonly size?: number
  /** Older logs have the schema itself, and another digest of it. */
  readonly jsonSchema?: object
}

/** Somebody who has agreed to an approval; `at`: epoch ms. */
export interface Agreed {
  readonly id: string
  readonly at: number
}

/**
 * Yes of a person to a call that needs approval. `digest`: of what the person agrees to. With another `input`, `text`
 * is the question about that one: whoever has agreed before has not agreed to it.
 */
export interface QuestionVoted {
  questionId: string
  agent: string
  by: string
  digest: string
  input?: unknown
  text?: string
}

/** Words that somebody has said to a run. `to`: null: to all of its agents; `by`: null: nobody is known. */
export interface Steered {
  readonly steerId: string
  readonly text: string
  readonly to: string | null
  readonly by: string | null
}

/** Words that an agent has read: a model in a prompt, code in `observe`. `messageId`: message of its turn. */
export interface SteerRead {
  readonly steerId: string
  readonly agent: string
  readonly messageId: string
}

/** Call of a model whose outcome is not known yet. `runId`, `index`: its run, in whose budget it counts too. */
export interface HeldCall {
  by: string
  runId: string
  index: number
  agent: string
  tenant?: string
  /** Epoch ms. */
  reservedAt: number
  most?: { tokens: number; money?: number }
}

/** Options of a run that a later process needs to go on with it. Keys of models are never among them. */
export interface Launched {
  id: string
  query: string
  startedAt: number
  metadata: { readonly [key: string]: string }
  /** Id of who has begun it, and the group that it is for. Older logs have the caller in the metadata alone. */
  caller?: string
  tenant?: string
  threadId?: string
  models: { readonly [key: string]: string }
  budget?: TokenLimit
  timeoutMs: number
  priority: number
  /** Index of the agent that is asked: the protocol script, or an agent alone. */
  target: number
  /** True for the work that a message from outside has caused: it has no result. */
  own: boolean
  /** Hash of the text of the protocol script, for errors about changed code. */
  script?: string
  /** Models answer in pieces for those who watch. */
  streams?: boolean
  /** Place of the run in the caller's trace. */
  traceHeaders?: TraceHeaders
  /** Parts of the query, if it is more than a text. */
  parts?: readonly MessagePart[]
  /** Schema that the answer has to fit. */
  output?: LoggedOutput
  /** Conversation that the caller has given. */
  messages?: readonly ModelMessage[]
  /** Set for a request with a key. */
  asked?: AskedWith
  /** Agent that is to speak first. */
  speaker?: string
  /** Names of the agents that share the conversation of the thread. */
  floor?: readonly string[]
}

/** Fields of the message of a request with a key, as JSON. */
export interface AskedWith {
  readonly data?: string | undefined
  readonly metadata?: string | undefined
}

export interface JoinedAgent {
  index: number
  name: string
  /** Role of the agent; null if it is in the registry of the team. */
  role: AgentRole | null
  /** Id of the call that made it. */
  by: string
}

/** Fact about a thread: to whom it belongs, and who has spoken in it last. */
export interface ThreadFact {
  threadId: string
  owner: string | null
  speaker?: string
}

/** A turn that a message was given: its agent, its number, its attempt, and the id of the message. */
export type GivenTurn = [index: number, turn: number, attempt: number, messageId: string]

/**
 * Records for the durable log alone: no reader gets them. `log.opened` is the first of each process, `log.closed` the
 * last of one that closes its team. `name`: of the log, the same in all processes. `ended`: the process before has
 * ended by itself (process.exit, or an uncaught error).
 */
export type KeptRecord =
  | OfKind<'log.opened', { incarnation: number; name?: string; ended?: true }>
  /** `ends`: states that end with the session, if it leaves no open run. */
  | OfKind<'log.closed', { ends?: readonly EndingState[] }>
  | OfKind<'name', { index: number; name: string }>
  /** A message from outside has subscribed an agent to entries of the blackboard. */
  | OfKind<'subscribed', { index: number; pattern: string }>
  /** An agent was made by an agent, in the run that it ends with; in no run if it stays. */
  | OfKind<'agent.joined', JoinedAgent>
  /** An agent has left the team, or its run: what it had is not for the next one in its place. */
  | OfKind<'agent.left', { index: number }>
  /**
   * Bytes of a large part, under their SHA-256. Records with them are written as they are; who reads the log gets their
   * number alone.
   */
  | OfKind<'part', { hash: string; size: number; bytes?: Uint8Array }>
  /** The run refers to these bytes. */
  | OfKind<'part.used', { hash: string; size: number }>
  /** State that an agent has left in its start hook. */
  | OfKind<'state', { index: number; value: unknown }>
  | OfKind<'run.launched', Launched>
  /** Value of shared state (`context.shared`). `owner`: index of the agent whose own it is. */
  | OfKind<'shared', { scope: SharedScope; owner?: number; key: string; version: number; value: unknown }>
  /** A debt of the service to a receiver outside; without `value` there is none any more. */
  | OfKind<'outbox', { key: string; value?: unknown }>
  /** A dead letter that is in the list when older records are dropped. */
  | OfKind<'letter', { letter: DeadLetter; bytes: number }>
  /**
   * Model calls that budgets over several runs count: number and time of the record of each call, and its cost.
   * `currency`: the one of all amounts of the log.
   */
  | OfKind<
      'budget.window',
      {
        currency?: string
        paid: [
          seq: number,
          at: number,
          agent: string,
          tokens: number,
          more?: { money?: number; tenant?: string; reservedAt?: number },
        ][]
      }
    >
  /**
   * Highest cost of a call of a model that begins now. It counts until the call has an outcome, here or in a later
   * process. Without `most` the call was not made.
   */
  | OfKind<'budget.held', HeldCall>
  /** Conversation of an agent with its model in a thread, across runs. */
  | OfKind<'conversation', { index: number; threadId: string; conversation: Conversation }>
  /** A thread has begun, or somebody else speaks in it. `owner`: its caller; null: nobody is known. */
  | OfKind<'thread', ThreadFact>
  /** Highest numbers that were used: by each agent, by the host for its messages (they descend), and for runs. */
  | OfKind<
      'numbers',
      {
        agents: { index: number; turn: number; correlation: number; epoch: number }[]
        lastHostNumber: number
        lastRun: number
      }
    >
  /**
   * The log has forgotten these runs. Some of their entries may still stand there, and without the others they would be
   * runs that go on.
   */
  | OfKind<'runs.gone', { runs: number[] }>
  /** Ids of runs that the log has forgotten and that idempotency keys have begun, with the ends of these runs. */
  | OfKind<'keys', { keys: [runId: string, endedAt: number][] }>
  /** Turns that messages were given. `again`: a compaction says it again, also of turns that have not begun here. */
  | OfKind<'turns', { turns: GivenTurn[]; again?: true }>
  /**
   * These turns begin, after the death of an earlier process. The log has it before they do. `alone`: nothing else is
   * under way in the team, so the death of this process would be their fault.
   */
  | OfKind<'turn.begins', { turns: GivenTurn[]; alone: boolean }>

export type HostRecord =
  | KeptRecord
  | OfKind<'run.started', { query: string }>
  /**
   * `boardRevision`: number of entries that the blackboard had then, if it is that of the team. `output`: the answer,
   * if a guardrail has changed it. `data`: the data of the result, as JSON has them; without a value if there are none.
   * Older logs do not have it.
   */
  | OfKind<
      'run.finished',
      { error: DramatisError | null; boardRevision?: number; output?: string; data?: { value?: unknown } }
    >
  | OfKind<'run.aborted', { reason: string }>
  /** `woken`: a message brings back an agent that was passivated. */
  | OfKind<'agent.status', Whose & { status: AgentStatus; epoch: number; woken?: boolean }>
  | OfKind<'agent.ready', Whose & { epoch: number; warm: boolean; tookMs: number; woken?: boolean }>
  /** The life of that epoch has the code that was loaded by `reloadAgent`. */
  | OfKind<'agent.reloaded', Whose & { epoch: number }>
  /**
   * `fault`: true if the exit counts against the agent. 'ended': by itself, with exit code 0; 'recalled': by the host,
   * for the sake of other agents; 'reloaded': by the host, when a life with new code had started; 'passivated': by the
   * host, because it had nothing to do.
   */
  | OfKind<
      'agent.exited',
      Whose & {
        epoch: number
        how: 'crashed' | 'ended' | 'recalled' | 'reloaded' | 'passivated'
        error: DramatisError
        fault: boolean
        /** Message that is redelivered first. */
        messageId: string | null
      }
    >
  | OfKind<
      'agent.crashed',
      Whose & { epoch: number; error: DramatisError; restartInMs: number | null; messageId: string | null }
    >
  /** `turn`: its number. `beside`: true if other turns of the agent may be open and go on. */
  | OfKind<'turn.started', Whose & { messageId: string; attempt: number; turn: number; beside: boolean }>
  /**
   * A turn that threw or was late begins again. `tried`: number of the try that begins, 2 for the second. `error`: why
   * the one before ended.
   */
  | OfKind<'turn.retried', Whose & { messageId: string; tried: number; error: DramatisError }>
  /** A request without an answer in time is asked again. `agent`: who is asked. `tried`: how often, with this time. */
  | OfKind<'request.retried', Pick<Whose, 'agent' | 'index'> & { caller: string; messageId: string; tried: number }>
  /** A failure is reported to a manager. `agent`: who failed, or did not answer. `tried`: number of tries. */
  | OfKind<'escalated', { agent: string; to: string; messageId: string; tried: number; error: DramatisError }>
  | OfKind<'message.dead', { letter: DeadLetter; bytes: number }>
  /** A dead letter has left the list: it was sent again, or discarded. */
  | OfKind<'letter.gone', { id: string }>
  /** A dead letter that was sent again was refused: it is in the list already. */
  | OfKind<'message.refused', Pick<Whose, 'agent' | 'index'> & { messageId: string }>
  /** `error`: what its agent has answered, if it ends with that. */
  | OfKind<'task', { task: AgentTask; previous: TaskStatus | null; error?: DramatisError }>
  /** `nth`: on the blackboard of the team, number of the entries that were written before. */
  | OfKind<'blackboard', { entry: BlackboardEntry; nth?: number }>
  | OfKind<'decision', { question: string; choice: string; reason: string }>
  /** `agent`: the agent that asks a person. */
  | OfKind<
      'question',
      Partial<ApprovedCall> & {
        agent: string
        questionId: string
        ask: 'ask' | 'approval'
        text: string
        choices?: string[]
        form?: object
        /** Index of the agent, and id of its call, where a tool asks. */
        ofTool?: { index: number; callId: string }
        /** Digest of what an approval shows. Older logs do not have it. */
        digest?: string
        /** Until when it stays open, epoch ms; absent: as long as the run, or in an older log. */
        answerBy?: number
      }
    >
  /** Somebody has agreed to a call of a tool: the fields are those of the event. */
  | OfKind<'question.voted', QuestionVoted>
  /**
   * `agent`: the agent that gets the person's answer. `input`: what the person has made of a tool's input. `by`: id of
   * the person; without it the program has answered. `agreed`: all who have agreed, to what that digest is of.
   */
  | OfKind<
      'answer',
      {
        agent: string
        questionId: string
        answer: string
        input?: unknown
        reason?: string
        by?: string
        agreed?: readonly Agreed[]
        digest?: string
      }
    >
  /**
   * Somebody has said words to the run. `content`: its parts, if they are more than a text. `to`: the agent that they
   * are for; null: all. `interrupts`: calls of models under way were cut for them.
   */
  | OfKind<'steer', Steered & { content?: Content; interrupts?: true }>
  /**
   * Words stand in the prompt of a model agent from that call on; without `callId` an agent with code has observed
   * them. `superseded`: number of answers of the run that words have superseded by then.
   */
  | OfKind<'steer.read', SteerRead & { callId?: string; superseded?: number }>
  /** That call has no answer: its agent reads the words of its prompt once more. */
  | OfKind<'steer.again', { agent: string; callId: string }>
  /** The run ends, and nobody whom the words were for has read them. */
  | OfKind<'steer.unread', Steered>
  /** A question was closed without an answer. */
  | OfKind<'question.closed', { agent: string; questionId: string; how: 'withdrawn' | 'late' }>
  | OfKind<'alarm', Alarm>
  /** A generation of a sync point has ended. `error`: what all who waited were rejected with. */
  | OfKind<'sync', { point: string; result: SyncResult; error?: DramatisError }>
  /** `agent`: the agent that took the step. `turn`: the turn that hands off its duty. `messageId`: its message. */
  | OfKind<
      'handoff',
      {
        agent: string
        step: HandoffStep
        from: string
        to: string
        turn: number
        messageId: string
        summary?: string
        /** Id of the message that has the duty from 'handed_off' on. */
        offer?: string
      }
    >
  /** `agent`: the manager that decided. `turn` and `messageId`: the turn that had asked, and its message. */
  | OfKind<
      'reassignment',
      {
        agent: string
        step: 'requested' | 'done' | 'failed'
        from: string
        to: string
        turn: number
        messageId: string
      }
    >
  /** Calls of tools that the host runs. For tools in a thread, its frames hold the same. */
  | OfKind<'tool.started', Recorded<ToolStarted>>
  | OfKind<'tool.finished', Recorded<ToolFinished>>
  | OfKind<'tool.progress', Recorded<ToolProgress>>
  /**
   * A call has noted how far it is. A later process goes on from there, unless it `mayHaveRun` and may not run twice.
   */
  | OfKind<'tool.held', { agent: string; callId: string; tool: string; state: unknown; mayHaveRun?: true }>
  /**
   * A model was called. `turn`: the turn that called it; `messageId`: its message, if it was still open then. Tokens
   * count also if `error` says that there was no answer.
   * `said`: the words that had come when the call was cut off, 2,000 characters at most.
   * `cost`: only in older logs: tokens that budgets counted where the provider had reported none.
   * `money`: what it has cost by the prices of the team. `by`, `reservedAt`: of its record `budget.held`.
   */
  | OfKind<
      'model.called',
      {
        agent: string
        index: number
        turn: number
        messageId?: string
        model: string
        usage: TokenUsage
        cost?: number
        money?: number
        tenant?: string
        by?: string
        reservedAt?: number
        durationMs: number
        rehearsed: boolean
        said?: string
        error: DramatisError | null
      }
    >
  /** Piece of a model's answer, in a run with `stream`. `toolCallId`, `tool`: for a piece of a tool's input. */
  | OfKind<
      'model.piece',
      OfWatchedCall & { part: 'text' | 'reasoning' | 'tool_input'; text: string; toolCallId?: string; tool?: string }
    >
  /** The pieces of a call are void until here; for 'tool_calls' only its text, which is not the answer. */
  | OfKind<'model.superseded', OfWatchedCall & { reason: 'tool_calls' | 'retried' | 'steered' }>
  /** Another model of a list is asked. `heard`: words of the first that do not count. */
  | OfKind<'model.switched', ModelSwitched>
  /** A guardrail has decided. `agent`: null for the query and the answer of the run. */
  | OfKind<'guardrail', GuardrailDecided>
  /**
   * A limit on tokens is nearly reached, or reached; with `unit`, a limit in that currency. `agent`: null for the limit
   * of all agents together. `tenant`: whose limit it is.
   */
  | OfKind<'budget', { agent: string | null; used: number; limit: number; unit?: string; tenant?: string }>
  /** Something of the run waits for a limit; at most once a minute for each limit. `limit`: null for a provider's. */
  | OfKind<'limit.reached', { option: string; limit: number | null; agent: string | null }>
  | OfKind<'step.mismatch', { agent: string; messageId: string; error: DramatisError }>

export type LogEntry = FrameBlock | HostRecord

/** Record of a part of the supervisor, before the log has numbered it. */
export type Unrecorded = HostRecord extends infer R
  ? R extends HostRecord
    ? Omit<R, 'seq' | 'at' | 'run'>
    : never
  : never

export type Batch = readonly LogEntry[]

export type RecordOf<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

/** Returns the fields of a record that it has, in that order. */
export const picked = (record: object, fields: readonly string[]): object =>
  Object.fromEntries(
    fields.flatMap((field) => {
      const value: unknown = Reflect.get(record, field)
      return value === undefined ? [] : [[field, value]]
    }),
  )

/** Use of the records of a kind. */
interface OfRecords<Field> {
  /** Only the durable log has them: no reader of a run gets them. */
  readonly isKept?: true
  /** Fields of their event, in their order; absent: they have none, or one that log-events.ts makes. */
  readonly event?: readonly Field[]
  /** Fields of their details in a trace, in their order; absent: all. */
  readonly details?: readonly Field[]
}

const kept = { isKept: true } as const
const MOVE = ['agent', 'step', 'from', 'to', 'messageId'] as const
const HANDOFF = [...MOVE, 'summary'] as const
const TURN = ['agent', 'messageId', 'attempt'] as const
const STEERED = ['steerId', 'text', 'to', 'by'] as const

type Kept = KeptRecord['kind']

const KINDS: { readonly [Kind in Kept]: typeof kept } & {
  readonly [Kind in Exclude<HostRecord['kind'], Kept>]?: OfRecords<keyof RecordOf<Kind>>
} = {
  'agent.crashed': { event: ['agent', 'epoch', 'error', 'restartInMs'] },
  'agent.exited': { event: ['agent', 'epoch', 'how', 'error', 'fault', 'messageId'] },
  'agent.joined': kept,
  'agent.left': kept,
  'agent.ready': { event: ['agent', 'epoch', 'warm', 'tookMs'] },
  'agent.reloaded': { event: ['agent', 'epoch'] },
  blackboard: { event: ['entry'] },
  budget: { event: ['agent', 'used', 'limit', 'unit', 'tenant'] },
  'budget.held': kept,
  'budget.window': kept,
  conversation: kept,
  decision: { event: ['question', 'choice', 'reason'] },
  guardrail: { event: ['agent', 'guardrail', 'on', 'outcome', 'durationMs', 'tool', 'reason'] },
  handoff: { event: HANDOFF, details: HANDOFF },
  keys: kept,
  letter: kept,
  'limit.reached': { event: ['option', 'limit', 'agent'] },
  'log.closed': kept,
  'log.opened': kept,
  'message.dead': { event: ['letter'] },
  'model.superseded': { event: ['agent', 'messageId', 'callId', 'round', 'answerOf', 'reason'] },
  'model.switched': { event: ['agent', 'messageId', 'entry', 'from', 'to', 'reason', 'heard'] },
  name: kept,
  numbers: kept,
  outbox: kept,
  part: kept,
  'part.used': kept,
  'question.closed': { event: ['agent', 'questionId', 'how'] },
  'question.voted': { event: ['questionId', 'agent', 'by', 'digest', 'input', 'text'] },
  reassignment: { event: MOVE, details: MOVE },
  'run.aborted': { event: ['reason'] },
  'run.launched': kept,
  'run.started': { event: ['query'] },
  'runs.gone': kept,
  shared: kept,
  state: kept,
  steer: { event: STEERED },
  'steer.again': {},
  'steer.read': { event: ['steerId', 'agent', 'messageId'] },
  'steer.unread': { event: STEERED },
  'step.mismatch': { event: ['agent', 'messageId', 'error'] },
  subscribed: kept,
  sync: { event: ['point', 'result'] },
  task: { event: ['task', 'previous'] },
  thread: kept,
  'turn.begins': kept,
  'turn.started': { event: TURN, details: ['agent', 'instance', 'messageId', 'attempt'] },
  'tool.held': {},
  turns: kept,
}

export const isKept = ({ kind }: LogEntry): boolean => kind !== 'frames' && KINDS[kind] === kept

/** Returns the fields of a record that its event, or its details in a trace, has; undefined if the table has none. */
export function fieldsOf(record: HostRecord, of: 'event' | 'details'): object | undefined {
  const { [of]: fields }: OfRecords<string> = KINDS[record.kind] ?? {}
  return fields && picked(record, fields)
}

/**
 * Checks for a record of an agent's life that every run under way keeps. It keeps not that an idle agent lost its
 * thread, or that a message gave it one.
 */
export function concernsRuns(record: HostRecord): boolean {
  if (record.kind === 'agent.exited') return record.how !== 'passivated'
  if (record.kind === 'agent.status') return record.woken !== true && record.status !== 'passivated'
  if (record.kind === 'agent.ready') return record.woken !== true
  return record.kind === 'agent.crashed' || record.kind === 'agent.reloaded'
}

/**
 * RxJS classes that the runtime uses, each from its own file of the package. They are the same classes as those of
 * `rxjs`, but the index of `rxjs` loads 200 files, an eighth of a second of every start. Types come from `rxjs`.
 */
export { Observable } from 'rxjs/internal/Observable'
export { Subject } from 'rxjs/internal/Subject'
export { Subscriber } from 'rxjs/internal/Subscriber'

/**
 * Fields of all tool events. `callId` is the same for all events of a call, and is its `idempotencyKey`. `messageId`:
 * message of the turn that has made the call; '' in a log that has it not.
 */
interface OfCall {
  agent: string
  messageId: string
  callId: string
  tool: string
}

/** `simulated`: the tool does not run, because the rehearsal model answers; the output is made up. */
export type ToolStarted = OfCall & { input: unknown; simulated?: true }
/**
 * `output`: what the tool has returned, without granted keys; absent where it returned nothing or failed. One of more
 * than 65,536 characters of JSON is a text: the beginning of that, and '…'.
 */
export type ToolFinished = OfCall & { durationMs: number; output?: unknown; error: DramatisError | null }
export type ToolProgress = OfCall & { note: string }

export type ToolEvent =
  | ({ type: 'tool.started' } & ToolStarted)
  | ({ type: 'tool.finished' } & ToolFinished)
  | ({ type: 'tool.progress' } & ToolProgress)

/** Fields of a record of the log, for a tool that the host runs: older ones have no message. */
export type Recorded<Fields extends OfCall> = Omit<Fields, 'messageId'> & { messageId?: string }

type ToolRecord =
  | ({ kind: 'tool.started' } & Recorded<ToolStarted>)
  | ({ kind: 'tool.finished' } & Recorded<ToolFinished>)
  | ({ kind: 'tool.progress' } & Recorded<ToolProgress>)

const OF_TOOLS = {
  'tool.started': ['input', 'simulated'],
  'tool.finished': ['durationMs', 'output', 'error'],
  'tool.progress': ['note'],
} as const

export function toolEventFrom(record: ToolRecord): ToolEvent {
  const { kind: type, agent, messageId = '', callId, tool } = record
  return { type, agent, messageId, callId, tool, ...picked(record, OF_TOOLS[type]) } as ToolEvent
}

/** Returns the fields for the trace. They leave out the input and the output, which can be prompts. */
export function toolDetails(event: ToolEvent): object {
  const { agent, callId, tool } = event
  const error = event.type === 'tool.finished' && { error: event.error?.toJSON() ?? null }
  return { agent, callId, tool, ...picked(event, ['simulated', 'durationMs', 'note']), ...error }
}
