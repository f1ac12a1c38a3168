/** An agent of a running team, as users see it. */
import { resolve } from 'node:path'
import type { Content } from '../../actors/definition/content.ts'
import type { ModelMessage, TokenUsage } from '../../actors/definition/model.ts'
import type { AgentRole, ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { AgentProgress, AgentStatus } from '../../actors/definition/task.ts'
import { type Conversation, historyOf, NO_CONVERSATION } from '../../actors/model/conversation.ts'
import { cutShort } from '../../actors/model/shorten.ts'
import { counted, summaryMessage } from '../../actors/model/summary.ts'
import { MAX_ROUNDS } from '../../actors/model/think.ts'
import { countMessages } from '../../actors/model/tokens.ts'
import { BY_DEFAULT, MAX_TOKENS, thresholdOf, withDefaults } from '../../actors/model/window.ts'
import type { AgentMessage, TypedMessage } from '../../mailbox/message.ts'
import type { Agent } from '../host/agent.ts'
import { statusOf, sumOf } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { RunOptions } from '../runs/run.ts'
import type { Supervisor } from '../supervision/host.ts'
import { latestProgress } from '../verbs/progress.ts'

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

/** Configuration of an agent's model, with the defaults. */
export interface AgentConfig extends Readonly<Omit<RoleInfo, 'data'>> {
  readonly maxTokens: number
  readonly maxRounds: number
  readonly contextStrategy: ContextStrategy
}

/** Acts of the team behind the instances of its agents. */
export interface AgentInstanceTeam {
  run(agent: Agent, task: string | Content, options: RunOptions): Promise<string>
  deliver(agent: Agent, message: AgentMessage): Promise<void>
  history(agent: Agent, runId: string | undefined): TypedMessage[]
}

export function agentInstance(
  agent: Agent,
  role: AgentRole,
  { runs, redactor }: Supervisor,
  team: AgentInstanceTeam,
): AgentInstance {
  return {
    name: agent.name,
    role,
    get status() {
      return statusOf(agent)
    },
    workspace: workspaceOf(agent),
    config: configOf(agent),
    run: (task, options = {}) => team.run(agent, task, options),
    receiveMessage: (message) => team.deliver(agent, message),
    getContextSummary() {
      const { mailbox } = agent
      const open = mailbox.underWay > 0 ? `, ${mailbox.underWay} under way` : ''
      const turns = sumOf(agent, (each) => each.turns)
      const restarts = sumOf(agent, (each) => each.restarts)
      return `Agent "${agent.name}" (${statusOf(agent)}): ${turns} turns, ${restarts} restarts, ${mailbox.waiting} messages waiting${open}; ${contextSummary(agent, runs.values())}.`
    },
    getContext: () => redactor.data(contextOf(agent, runs.values())),
    getProgress: () => redactor.data(latestProgress(agent)),
    getTokenUsage: () => ({ ...agent.spent }),
    getMessageHistory: (runId) => team.history(agent, runId),
  }
}

function workspaceOf({ settings }: Agent): string | null {
  const folders = settings.tools.inline.flatMap(({ tool: { workspace } }) => workspace ?? [])
  return folders[0] === undefined ? null : resolve(folders[0])
}

function configOf({ settings }: Agent): AgentConfig {
  const { data: _itsOwn, ...info } = settings.info
  const { maxTokens = MAX_TOKENS, maxRounds = MAX_ROUNDS } = info
  const contextStrategy = withDefaults(settings.contextStrategy ?? BY_DEFAULT)
  return Object.freeze({ ...info, maxTokens, maxRounds, contextStrategy })
}

const SHOWN_SUMMARY = 200 // characters

/** State of a model agent's context: what its model is shown of the conversation. */
export interface ContextInfo {
  /** Number of messages of the conversation that are kept. */
  messages: number
  /** Tokens of these messages, with the system prompt and the summary. */
  tokens: number
  /** Tokens that the window has at most (`maxTokens` of the role). */
  maxTokens: number
  /** Tokens beyond which the conversation is summarized; null if it is not. */
  summarizeAt: number | null
  /** Number of messages that were left out, and the words that stand for them; null if none were. */
  summary: { messages: number; text: string } | null
}

/**
 * Returns the state of the agent's conversation in its most recent run, as its last turn left it; undefined for an
 * agent whose code keeps its own context.
 */
function contextOf({ index, settings }: Agent, runs: Iterable<RunState>): ContextInfo | undefined {
  if (!settings.playedByModel) return undefined
  const [conversation = NO_CONVERSATION] = [...runs]
    .flatMap(({ states }) => states.get(index) ?? [])
    .slice(-1) as Conversation[]
  const { info, contextStrategy: strategy = BY_DEFAULT } = settings
  const { summary } = conversation
  const history = historyOf(conversation)
  const system: ModelMessage[] = info.systemPrompt ? [{ role: 'system', content: info.systemPrompt }] : []
  const { maxTokens = MAX_TOKENS } = info
  return {
    messages: history.length,
    tokens: countMessages([...system, ...(summary ? [summaryMessage(summary)] : []), ...history], info.model),
    maxTokens,
    summarizeAt: strategy.strategy === 'append_until_full' ? Math.floor(thresholdOf(strategy) * maxTokens) : null,
    summary: summary ? { messages: summary.messages, text: summary.text } : null,
  }
}

function contextSummary(agent: Agent, runs: Iterable<RunState>): string {
  const context = contextOf(agent, runs)
  if (!context) return 'its code keeps its own context'
  const { messages, tokens, maxTokens, summarizeAt, summary } = context
  const parts = [
    `its context holds ${messages === 1 ? '1 message' : `${messages} messages`}, ${tokens} of ${maxTokens} tokens (${Math.round((100 * tokens) / maxTokens)} %)`,
    summarizeAt !== null && `it is summarized beyond ${summarizeAt} tokens`,
    summary && `${counted(summary.messages)} left out${lastWords(summary.text)}`,
  ]
  return parts.filter(Boolean).join('; ')
}

const lastWords = (text: string): string =>
  text === '' ? '' : `, and the last summary is: ${JSON.stringify(cutShort(text, SHOWN_SUMMARY))}`
