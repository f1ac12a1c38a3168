/** An agent of a running team, as users see it (document 002, 3.4). */
import { resolve } from 'node:path'
import type { Content } from '../../actors/definition/content.ts'
import type { AgentProgress } from '../../actors/definition/executor.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentRole, ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import { withDefaults } from '../../actors/model/context/strategies.ts'
import { BY_DEFAULT, MAX_TOKENS } from '../../actors/model/context/window.ts'
import { MAX_ROUNDS } from '../../actors/model/think.ts'
import type { AgentMessage, TypedMessage } from '../../mailbox/message.ts'
import type { RunOptions } from '../runs/run.ts'
import { statusOf, sumOf } from '../state/busiest.ts'
import type { Cell } from '../state/cell.ts'
import type { ContextInfo } from './context-summary.ts'

/**
 * An agent of a running team.
 *
 * @example
 * console.log(await team.getAgent('critic')?.run('Read this.'))
 */
export interface AgentInstance {
  readonly name: string
  /** Role as the user gave it. */
  readonly role: AgentRole
  readonly status: AgentStatus
  /** Folder that its tools work in (`workspace` of a tool), as an absolute path; null if none of them has one. */
  readonly workspace: string | null
  /** Configuration of its model: what its role and agent_config.yaml say, else the defaults. */
  readonly config: AgentConfig
  /** Gives the agent a task, text or parts, as a run of its own; rejects with the error of a failed run. */
  run(task: string | Content, options?: RunOptions): Promise<string>
  /** Puts a message into the agent's mailbox; a `response` settles the request that it answers. */
  receiveMessage(message: AgentMessage): Promise<void>
  /**
   * Returns the state of the agent in one line. For a model agent the line also describes its context: messages, their
   * tokens in the window, the threshold for a summary, and the last summary. A conversation belongs to a run; the line
   * describes that of the agent's most recent run.
   */
  getContextSummary(): string
  /**
   * Returns the figures of that context; undefined for an agent with code, which keeps its own. Counting the tokens of
   * a long conversation takes some milliseconds.
   */
  getContext(): ContextInfo | undefined
  /**
   * Returns how far a model is with the message that it handles: its sub-tasks, its round, and what was said last, cut
   * short; undefined while it handles none, and for an agent with code. It is read from the log of the run each time.
   */
  getProgress(): AgentProgress | undefined
  /** Returns the tokens that the agent's models have used since it joined, over all runs. */
  getTokenUsage(): TokenUsage
  /**
   * Returns the messages that it has sent or got, in order, as far as the log still has them: of a run, or without a
   * `runId` of those that the team's `getMessageHistory` has. Throws `UnknownRunError`.
   */
  getMessageHistory(runId?: string): TypedMessage[]
}

/** Configuration of an agent's model, with the defaults. Source: document 003, agent_config.yaml. */
export interface AgentConfig extends Readonly<Omit<RoleInfo, 'data'>> {
  readonly maxTokens: number
  readonly maxRounds: number
  readonly contextStrategy: ContextStrategy
}

export interface AgentInstanceHost {
  run(cell: Cell, task: string | Content, options: RunOptions): Promise<string>
  deliver(cell: Cell, message: AgentMessage): Promise<void>
  /** Returns a summary of the agent's context. */
  contextSummary(cell: Cell): string
  context(cell: Cell): ContextInfo | undefined
  history(cell: Cell, runId: string | undefined): TypedMessage[]
  progress(cell: Cell): AgentProgress | undefined
}

export function agentInstance(cell: Cell, role: AgentRole, host: AgentInstanceHost): AgentInstance {
  return {
    name: cell.name,
    role,
    get status() {
      return statusOf(cell)
    },
    workspace: workspaceOf(cell),
    config: configOf(cell),
    run: (task, options = {}) => host.run(cell, task, options),
    receiveMessage: (message) => host.deliver(cell, message),
    getContextSummary() {
      const { mailbox } = cell
      const open = mailbox.underWay > 0 ? `, ${mailbox.underWay} under way` : ''
      const turns = sumOf(cell, (each) => each.turns)
      const restarts = sumOf(cell, (each) => each.restarts)
      return `Agent "${cell.name}" (${statusOf(cell)}): ${turns} turns, ${restarts} restarts, ${mailbox.waiting} messages waiting${open}; ${host.contextSummary(cell)}.`
    },
    getContext: () => host.context(cell),
    getProgress: () => host.progress(cell),
    getTokenUsage: () => ({ ...cell.spent }),
    getMessageHistory: (runId) => host.history(cell, runId),
  }
}

function workspaceOf({ settings }: Cell): string | null {
  const folders = settings.tools.inline.flatMap(({ tool: { workspace } }) => workspace ?? [])
  return folders[0] === undefined ? null : resolve(folders[0])
}

function configOf({ settings }: Cell): AgentConfig {
  const { data: _itsOwn, ...info } = settings.info
  const { maxTokens = MAX_TOKENS, maxRounds = MAX_ROUNDS } = info
  const contextStrategy = withDefaults(settings.contextStrategy ?? BY_DEFAULT)
  return Object.freeze({ ...info, maxTokens, maxRounds, contextStrategy })
}
