/** Strategy `handoff`: one conversation, in which one agent speaks, until it hands it to another. */

import type { HandoffFilter } from '../actors/definition/protocol.ts'
import type { FloorHistory } from '../actors/definition/role.ts'
import type { AgentSettings } from '../runtime/settings/agent-settings.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'
import { type Check, oneOf, refused, shape } from '../shared/checks.ts'
import { ConfigurationError } from '../shared/errors.ts'
import { lastWord } from './asking.ts'
import { resultOf } from './positions.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, namesIn, type Strategy } from './strategy.ts'

/**
 * Part of the conversation that the next speaker sees.
 *
 * - 'conversation' (the default): the words of the user and of all who spoke, and the calls of tools that it has
 *   itself; calls of others are told in words.
 * - 'summary': one text, which the model of the agent that hands off writes.
 * - 'task': the task and its summary alone.
 * - A function: what it returns.
 */
export type HandoffHistory = 'conversation' | 'summary' | 'task' | HandoffFilter

/**
 * A conversation in which one agent speaks for the team until it hands off (`canHandoffTo` of its role, or
 * `canDelegateTo`). A thread (`threadId`) remembers who has spoken last: that agent gets the next message.
 *
 * @example
 * createTeam({
 *   agents: [
 *     { name: 'triage', systemPrompt: 'Find out what it is about, then hand off.', canHandoffTo: ['billing'] },
 *     { name: 'billing', systemPrompt: 'You know invoices.', canHandoffTo: ['triage'] },
 *   ],
 *   orchestration: { strategy: 'handoff', start: 'triage' },
 *   models,
 * })
 */
export interface HandoffConfig<N extends AgentName = AnyAgent> {
  strategy: 'handoff'
  /** Agent that speaks in a new thread. */
  start: N
  /** Agents that may speak. Default: `start`, and all to whom a conversation can get from there. */
  agents?: readonly N[]
  /** Part of the conversation that the next speaker sees. Default: 'conversation'. */
  history?: HandoffHistory
}

const KINDS = ['conversation', 'summary', 'task'] as const

const history: Check = (value, path) => {
  if (typeof value !== 'function') oneOf(...KINDS)(value, path)
}

export const handoff: Strategy<HandoffConfig> = {
  strategy: 'handoff',
  protocol(config, team) {
    shape<HandoffConfig>(
      { strategy: oneOf('handoff'), start: agentOf(team), agents: agentsOf(team), history },
      'start',
    )(config, 'orchestration')
    const { start, agents } = config
    if (agents && !agents.includes(start))
      throw refused('orchestration.agents', agents, `a list with "${start}", which speaks first (start)`)
    return {
      name: 'handoff',
      async run(orchestrator, query, wanted = start) {
        const speaker = namesIn(orchestrator).includes(wanted) ? wanted : start
        return resultOf({ agent: speaker, message: await lastWord(orchestrator, speaker, query) })
      },
    }
  },
  prepare: (config, settings) => sharing(settings, config),
}

/** Returns the settings of a team whose agents share the conversation. */
function sharing(
  settings: TeamSettings,
  { start, agents, history: shown = 'conversation' }: HandoffConfig,
): TeamSettings {
  const all = new Map(settings.agents.map((agent) => [agent.name, targetsOf(agent) ?? settings.agents.map(nameOf)]))
  if (all.get(start)?.length === 0)
    throw new ConfigurationError(
      `orchestration.start: "${start}" can hand off to nobody: name agents in canHandoffTo.`,
      {
        path: 'orchestration.start',
        agent: start,
      },
    )
  const speakers = new Set(agents ?? [start])
  if (!agents) for (const name of speakers) for (const other of all.get(name) ?? []) speakers.add(other)
  const filter = typeof shown === 'function' ? shown : undefined
  const floor: FloorHistory = typeof shown === 'function' ? 'filter' : shown
  const placed = (agent: AgentSettings, path: string): AgentSettings => {
    if (!speakers.has(agent.name)) return agent
    if (!agent.playedByModel || agent.instances === 1) return { ...agent, floor }
    throw refused(`${path}.instances`, agent.instances, '1', 'Agents that share a conversation have one thread each.')
  }
  return {
    ...settings,
    agents: settings.agents.map((agent, i) => placed(agent, `agents[${i}]`)),
    newcomer: (role, path, others, expected) => placed(settings.newcomer(role, path, others, expected), path),
    floor: { start, agents: speakers, filter },
  }
}

const nameOf = ({ name }: AgentSettings): string => name

/** Returns the names of the agents to which an agent can hand off, also of those that come later; undefined: to all. */
function targetsOf({ role, playedByModel, verbs }: AgentSettings): readonly string[] | undefined {
  const { canHandoffTo, canDelegateTo, delegationAllowed = true, trust } = role
  if (canHandoffTo) return canHandoffTo
  return trust !== 'untrusted' && delegationAllowed && (!playedByModel || verbs.includes('handoff'))
    ? canDelegateTo
    : []
}
