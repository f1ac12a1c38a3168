/** Events of runs and teams, for people and programs that watch. How they come from the log is in log-events.ts. */

import type { ApprovedCall } from '../../actors/definition/approval.ts'
import type { SyncResult } from '../../actors/definition/context.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus, AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { refused } from '../../shared/checks.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import type {
  Agreed,
  AlarmFields,
  GuardrailDecided,
  HandoffStep,
  ModelSwitched,
  OfWatchedCall,
  QuestionVoted,
  Steered,
  SteerRead,
  ToolFinished,
  ToolProgress,
  ToolStarted,
} from '../log/records.ts'
import type { MultiAgentResult } from './result.ts'

/** Place behind the event with that number. `log`: name of the log that numbered it, if it is known. */
export interface EventPosition {
  readonly log: string | undefined
  readonly seq: number
}

const ID = /^([\w-]{1,100})\.(-1|\d{1,16})$/
const ACCEPTED = 'the `seq` of an event, -1 for all events, or an id: the `logName` of the team, a dot and a `seq`'

/** @throws ConfigurationError if it is neither a number nor an id. */
export function readPosition(after: unknown): EventPosition {
  if (typeof after === 'number' && Number.isSafeInteger(after) && after >= -1) return { log: undefined, seq: after }
  const [, log, seq] = (typeof after === 'string' && ID.exec(after)) || []
  if (log === undefined || !Number.isSafeInteger(Number(seq))) throw refused('after', after, ACCEPTED)
  return { log, seq: Number(seq) }
}

type Event<Type extends string, Fields = object> = { type: Type; seq: number; at: number; runId: string } & Fields

/**
 * Event of a team or a run. `seq` ascends; `at` is epoch ms; `runId` is empty for an event that belongs to no run. When
 * a team with a durable log is closed or loses it, `run.events()` gives the events that the log does not have the `seq`
 * of the last entry that it has.
 *
 * @example
 * team.events.subscribe((event) => {
 *   if (event.type === 'agent.crashed') console.error(event.agent, event.error.message, event.restartInMs)
 * })
 */
export type RuntimeEvent<T = undefined> =
  | Event<'run.started', { query: string }>
  | Event<'run.finished', { result: MultiAgentResult<T> }>
  | Event<'run.aborted', { reason: string }>
  /**
   * Only from `run.events({ after })`, first: `after` is an id of another log, such as that of an earlier process
   * without a durable log. All events of the run follow.
   */
  | Event<'reset'>
  /**
   * Only from `run.events()`: the log has given up events up to `seq` before they were read. `entries`: number of log
   * entries that these events would have come from; at most, if the reader began behind others.
   */
  | Event<'gap', { entries: number }>
  /**
   * The status of an agent has changed. In the events of a run, the status follows from what the agent does in that
   * run.
   */
  | Event<'agent.status', { agent: string; status: AgentStatus; epoch: number }>
  /**
   * The thread of that epoch has begun to take messages. `warm`: the thread was there before it was needed. `tookMs`:
   * time since its start was asked for.
   */
  | Event<'agent.ready', { agent: string; epoch: number; warm: boolean; tookMs: number }>
  /**
   * The thread of that epoch has ended. `how`: 'ended' is by itself, with exit code 0; the last three are by the host:
   * for the sake of other agents, for new code, or because the agent had nothing to do. `fault`: it counts against the
   * agent. `messageId`: message that is redelivered first.
   */
  | Event<
      'agent.exited',
      {
        agent: string
        epoch: number
        how: 'crashed' | 'ended' | 'recalled' | 'reloaded' | 'passivated'
        error: DramatisError
        fault: boolean
        messageId: string | null
      }
    >
  | Event<'agent.crashed', { agent: string; epoch: number; error: DramatisError; restartInMs: number | null }>
  /** A thread with newly loaded code has taken the place of the agent's earlier one (`reloadAgent`). */
  | Event<'agent.reloaded', { agent: string; epoch: number }>
  | Event<'turn.started' | 'turn.finished', { agent: string; messageId: string; attempt: number }>
  | Event<'message', { message: TypedMessage }>
  /** An agent speaks for the run from now on: its answer is to be the one of the run. `from`: who did so until now. */
  | Event<'speaker', { agent: string; from: string | null }>
  | Event<'message.dead', { letter: DeadLetter }>
  /** `final`: part of finalOutput, show it to the user. */
  | Event<'output.delta', { agent: string; messageId: string; chunk: string; final: boolean }>
  /**
   * Piece of a model's answer, in a run with `stream`. `callId`: the same for all pieces of a call. `round`: the round
   * of model and tools. `answerOf`: whose answer a text may be: that of the run or of the turn; 'choice': one of
   * several of which the run's is made; 'call' if only code knows. `toolCallId` and `tool`: for a piece of a tool's
   * input.
   */
  | Event<
      'model.delta',
      OfWatchedCall & {
        part: 'text' | 'reasoning' | 'tool_input'
        text: string
        toolCallId?: string
        tool?: string
      }
    >
  /**
   * Pieces of a call until here are void: its text, since the round ended in tool calls ('tool_calls'), or all of them,
   * since the call is made again ('retried'), or made anew with words that somebody has said to the run ('steered').
   */
  | Event<'model.superseded', OfWatchedCall & { reason: 'tool_calls' | 'retried' | 'steered' }>
  /** A guardrail has decided. `agent`: null for the query and the answer of the run; `reason`: of a refusal. */
  | Event<'model.switched', ModelSwitched>
  | Event<'guardrail', GuardrailDecided>
  /** `error`: the reason if there was no answer. */
  | Event<
      'model.called',
      {
        agent: string
        /** Message of the turn that has called it; '' if that turn had ended. */
        messageId: string
        model: string
        usage: TokenUsage
        /** Cost in the currency of the team's prices. */
        money?: number
        /** Tenant of the run. */
        tenant?: string
        durationMs: number
        rehearsed: boolean
        error: DramatisError | null
      }
    >
  /**
   * Events of one tool call have the same `callId`, which is its `idempotencyKey`. A call that the exit of its thread
   * cuts off has no end event.
   */
  | Event<'tool.started', ToolStarted>
  | Event<'tool.finished', ToolFinished>
  /** Progress of a tool (`ToolContext.progress`). */
  | Event<'tool.progress', ToolProgress>
  | Event<'task', { task: AgentTask; previous: TaskStatus | null }>
  /**
   * An agent hands off its duty: the steps in their order; 'declined' takes the place of the last three. `from`, `to`:
   * the agents; `messageId`: the message whose duty it is.
   */
  | Event<
      'handoff',
      { agent: string; step: HandoffStep; from: string; to: string; messageId: string; summary?: string }
    >
  /**
   * A manager moves a task from one agent to another. `agent`: the manager; `messageId`: the message that had asked.
   */
  | Event<
      'reassignment',
      { agent: string; step: 'requested' | 'done' | 'failed'; from: string; to: string; messageId: string }
    >
  /** A redelivered turn takes another way than its log says. */
  | Event<'step.mismatch', { agent: string; messageId: string; error: DramatisError }>
  | Event<'blackboard', { entry: BlackboardEntry }>
  | Event<'decision', { question: string; choice: string; reason: string }>
  /**
   * A generation of a sync point has ended: all agents arrived, or (`timedOut`) some were missing, whatever its
   * `onTimeout` says.
   */
  | Event<'sync', { point: string; result: SyncResult }>
  /** An approval has the call of the tool that it is about. */
  | Event<
      'question',
      Partial<ApprovedCall> & {
        questionId: string
        agent: string
        kind: 'ask' | 'approval'
        text: string
        choices?: string[]
        /** JSON schema of the object whose JSON text is the answer, where it is not "no". */
        form?: object
        /** Digest of what an approval shows. */
        digest?: string
        /** Until when it stays open, epoch ms; absent: as long as the run. */
        answerBy?: number
      }
    >
  /**
   * Somebody, `by`, has agreed to the call of a tool, as `digest` names it. With another `input`, which `text` shows,
   * earlier yeses are void.
   */
  | Event<'question.voted', QuestionVoted>
  /** Somebody, `by`, has said words to the run (`run.steer`): to the agent `to`, or to all of them (null). */
  | Event<'steer', Steered>
  /** A model agent has the words in its prompt from now on, or an agent with code has observed them. */
  | Event<'steer.read', SteerRead>
  /** The run ends, and nobody whom the words were for has read them. */
  | Event<'steer.unread', Steered>
  /**
   * A question is not open any more. 'answered': with its `answer`, and with the `input` that replaces the tool's, or
   * the `reason` against the call, and `by`, the people: none if the program has answered; `digest` names what they
   * have agreed to. 'withdrawn': nobody waits for the answer any more; 'late': its time was up.
   */
  | Event<
      'question.closed',
      {
        questionId: string
        agent: string
        how: 'answered' | 'withdrawn' | 'late'
        answer?: string
        input?: unknown
        reason?: string
        by?: readonly Agreed[]
        digest?: string
      }
    >
  | AlarmEvent
  /** A limit is nearly reached, or reached: in tokens, or in money if it has a `unit`. `tenant`: whose limit it is. */
  | Event<'budget', { agent: string | null; used: number; limit: number; unit?: string; tenant?: string }>
  /**
   * Something of the run waits for a limit: `option` names it, and `limit` is its value, null where only a provider
   * knows it. At most once a minute for each limit; `team.waits()` has what waits now.
   */
  | Event<'limit.reached', { option: string; limit: number | null; agent: string | null }>

/** The types of events: the compiler holds the list to be whole. */
const EVENT_TYPES = Object.keys({
  'run.started': 0,
  'run.finished': 0,
  'run.aborted': 0,
  reset: 0,
  gap: 0,
  'agent.status': 0,
  'agent.ready': 0,
  'agent.exited': 0,
  'agent.crashed': 0,
  'agent.reloaded': 0,
  'turn.started': 0,
  'turn.finished': 0,
  message: 0,
  speaker: 0,
  'message.dead': 0,
  'output.delta': 0,
  'model.delta': 0,
  'model.superseded': 0,
  'model.switched': 0,
  guardrail: 0,
  'model.called': 0,
  'tool.started': 0,
  'tool.finished': 0,
  'tool.progress': 0,
  task: 0,
  handoff: 0,
  reassignment: 0,
  'step.mismatch': 0,
  blackboard: 0,
  decision: 0,
  sync: 0,
  question: 0,
  'question.closed': 0,
  'question.voted': 0,
  steer: 0,
  'steer.read': 0,
  'steer.unread': 0,
  deadlock: 0,
  livelock: 0,
  stall: 0,
  slow: 0,
  budget: 0,
  'limit.reached': 0,
} satisfies Record<RuntimeEvent['type'], 0>) as readonly RuntimeEvent['type'][]

/**
 * Event of a detector: 'deadlock', 'livelock' or 'stall'; or 'slow'. `sentence`: what was found, in words. A livelock:
 * agents are busy without progress.
 */
export type AlarmEvent = {
  [Name in keyof AlarmFields]: Event<Name, AlarmFields[Name] & { sentence: string }>
}[keyof AlarmFields]

/**
 * Returns the types that are wanted; undefined for all.
 *
 * @throws ConfigurationError for what is no list of types of events.
 */
export function readTypes(types: unknown): ReadonlySet<RuntimeEvent['type']> | undefined {
  if (types === undefined) return undefined
  if (!Array.isArray(types)) throw refused('types', types, `a list of types of events: ${EVENT_TYPES.join(', ')}`)
  return new Set(types.map(typeOf))
}

function typeOf(name: unknown): RuntimeEvent['type'] {
  const type = EVENT_TYPES.find((known) => known === name)
  if (type) return type
  const meant = typeof name === 'string' ? nearest(name, EVENT_TYPES) : undefined
  throw refused('types', name, EVENT_TYPES.join(', '), meant && `Did you mean "${meant}"?`)
}
