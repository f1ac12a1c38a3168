/** Sums of a digest for one agent, one run and one task. They use nothing of Node or of a browser. */
import type { DigestRun } from '../../runtime/digest/digest-line.ts'
import { Column } from './columns.ts'

/** An agent as it is now, and what of it can be counted. */
export interface FoldedAgent {
  readonly name: string
  status: string
  queued: number
  inFlight: number
  restarts: number
  /** Turns that have ended, and of these the failed ones; of a team's digest since the team was started. */
  turns: number
  failedTurns: number
  crashes: number
  /** Tokens of its models. */
  inputTokens: number
  outputTokens: number
  modelCalls: number
  toolCalls: number
  /** Calls of models since its last turn ended. */
  rounds: number
  /** Tokens of the last call: those of its conversation, as its model counts them. */
  lastTokens: number
  lastError: string | null
  /** Times at which messages came for it, and at which turns of it ended. */
  readonly arrivals: Column
  readonly ends: Column
  /** Rows of its turns. */
  readonly turnRows: number[]
  /** Rows of the requests that it has sent. */
  readonly requestRows: number[]
}

export interface FoldedRun extends DigestRun {
  endedAt: number | null
  error: string | null
  messages: number
  tokens: number
}

/** A task as the last fact about it says. */
export interface FoldedTask {
  readonly id: string
  readonly runId: string
  readonly agent: string | null
  readonly description: string
  /** Id of the task that it was given for, if it was. */
  readonly parent: string | null
  readonly status: string
  /** Epoch ms of its last change. */
  readonly at: number
}

export function newAgent(name: string): FoldedAgent {
  return {
    name,
    status: 'idle',
    queued: 0,
    inFlight: 0,
    restarts: 0,
    turns: 0,
    failedTurns: 0,
    crashes: 0,
    inputTokens: 0,
    outputTokens: 0,
    modelCalls: 0,
    toolCalls: 0,
    rounds: 0,
    lastTokens: 0,
    lastError: null,
    arrivals: new Column(),
    ends: new Column(),
    turnRows: [],
    requestRows: [],
  }
}

export const newRun = (id: string): FoldedRun => ({
  id,
  query: '',
  status: 'running',
  startedAt: 0,
  threadId: null,
  endedAt: null,
  error: null,
  messages: 0,
  tokens: 0,
})
