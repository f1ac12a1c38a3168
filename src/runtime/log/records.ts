/**
 * The kinds of records in the log. Most of the log is frames, as the agents wrote them; what the host itself has to
 * say is one of these. Trace, history, tasks, events and status are folds over both.
 */
import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus, AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DramatisError } from '../../errors.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Alarm } from './alarms.ts'
import type { ToolFinished, ToolProgress, ToolStarted } from './tool-event.ts'

/** Frames that stand one after the other, all of one run. Each takes `SEQ_STEP` numbers from `seq` on. */
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

/** A frame can become several events (a turn begins and ends, a message, the status of two agents): each needs a number of its own. */
export const SEQ_STEP = 8

type Record<Kind extends string, Fields> = {
  readonly kind: Kind
  readonly seq: number
  readonly at: number
  readonly run: number
} & Readonly<Fields>

/**
 * `index`: names come again, in another run or for another agent. `instance`: which thread of the agent, where it has
 * several.
 */
export interface Whose {
  agent: string
  index: number
  instance?: number
}

/** The six of document 002, 2.6.1, in their order; in the place of the last three 'declined', when the target will not do it. */
export type HandoffStep =
  | 'summarized'
  | 'identified'
  | 'requested'
  | 'acknowledged'
  | 'handed_off'
  | 'proceeding'
  | 'declined'

export type HostRecord =
  | Record<'run.started', { query: string }>
  | Record<'run.finished', { error: DramatisError | null }>
  | Record<'run.aborted', { reason: string }>
  | Record<'agent.status', Whose & { status: AgentStatus; epoch: number }>
  | Record<'agent.ready', Whose & { epoch: number; warm: boolean; tookMs: number }>
  /** `fault`: the death counts against the agent. 'ended': by itself, with exit code 0; 'recalled': by the host, for the sake of others. */
  | Record<
      'agent.exited',
      Whose & {
        epoch: number
        how: 'crashed' | 'ended' | 'recalled'
        error: DramatisError
        fault: boolean
        /** What is tried again first. */
        messageId: string | null
      }
    >
  | Record<
      'agent.crashed',
      Whose & { epoch: number; error: DramatisError; restartInMs: number | null; messageId: string | null }
    >
  /** `turn`: its number. `beside`: others of the agent may be open and go on. */
  | Record<'turn.started', Whose & { messageId: string; attempt: number; turn: number; beside: boolean }>
  | Record<'message.dead', { letter: DeadLetter }>
  | Record<'task', { task: AgentTask; previous: TaskStatus | null }>
  | Record<'blackboard', { entry: BlackboardEntry }>
  | Record<'decision', { question: string; choice: string; reason: string }>
  /** `agent` asks a person. */
  | Record<
      'question',
      { agent: string; questionId: string; ask: 'ask' | 'approval' | 'escalation'; text: string; choices?: string[] }
    >
  /** What the person said to `agent`. */
  | Record<'answer', { agent: string; questionId: string; answer: string }>
  | Record<'alarm', Alarm>
  /** A generation has ended. */
  | Record<'sync', { point: string; result: SyncResult }>
  /** `agent`: who took that step. `turn`: the one that hands its duty off. `messageId`: of its message. */
  | Record<
      'handoff',
      { agent: string; step: HandoffStep; from: string; to: string; turn: number; messageId: string; summary?: string }
    >
  /** `agent`: the manager who has decided it. `turn` and `messageId`: of the one that had asked. */
  | Record<
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
  /** Of tools that the host runs; of others it is their frames that say so. */
  | Record<'tool.started', ToolStarted>
  | Record<'tool.finished', ToolFinished>
  | Record<'tool.progress', ToolProgress>
  /** A model was called. `turn`: for whom. Tokens count also where `error` says that there was no answer. */
  | Record<
      'model.called',
      {
        agent: string
        index: number
        turn: number
        model: string
        usage: TokenUsage
        durationMs: number
        rehearsed: boolean
        error: DramatisError | null
      }
    >
  /** A limit of tokens is nearly reached, or reached. `agent`: null if it is of all together. */
  | Record<'budget', { agent: string | null; used: number; limit: number }>
  | Record<'step.mismatch', { agent: string; messageId: string; error: DramatisError }>

export type LogEntry = FrameBlock | HostRecord

/** What a part has to say, before the log has given it its place. */
export type Unrecorded = HostRecord extends infer R
  ? R extends HostRecord
    ? Omit<R, 'seq' | 'at' | 'run'>
    : never
  : never

/** What one turn of the supervisor has logged: the unit in which the parts see records. */
export type Batch = readonly LogEntry[]
