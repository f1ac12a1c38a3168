/** Agents: look, restart, send messages. */

import { posix } from 'node:path'
import type { z } from 'zod'
import type { AgentInstance, Health, ToolReference } from '../../index.ts'
import { own } from '../../own.ts'
import { type Handlers, json } from './call.ts'
import { shownMessage } from './message-view.ts'
import { HttpError } from './problem.ts'
import type { agent, agentDetail } from './schemas.ts'
import type { ServedTeams } from './served-teams.ts'
import type { ServedTeam } from './task-view.ts'

type Shown = z.infer<typeof agent>
type Own = 'listAgents' | 'getAgent' | 'restartAgent' | 'sendMessage'

export function agentHandlers(teams: ServedTeams): Pick<Handlers, Own> {
  return {
    listAgents({ query: { team, context, progress } }) {
      const served = teams.named(team)
      const health = served.team.health()
      const agents = served.team.listAgents().map((instance) => ({
        ...agentIn(served, instance, health),
        ...(context === '1' && { context: contextOf(instance) }),
        ...(progress === '1' && { progress: instance.getProgress() ?? null }),
      }))
      return json({ agents })
    },

    getAgent({ params, query: { team } }) {
      const served = teams.named(team)
      return json(detailOf(served, agentOf(served, params.name!)))
    },

    async restartAgent({ params, query: { team } }) {
      const served = teams.named(team)
      const { name } = agentOf(served, params.name!)
      await served.team.restartAgent(name)
      return json(shownAgent(served, agentOf(served, name)), 202)
    },

    async sendMessage({ params, query: { team }, body }) {
      const served = teams.named(team)
      const { name } = agentOf(served, params.name!)
      const { metadata, ...message } = body
      const reply = await served.team.sendMessage({ ...message, ...(metadata && { metadata }), recipient: name })
      return reply ? json(shownMessage(reply, Number.POSITIVE_INFINITY)) : new Response(null, { status: 202 })
    },
  }
}

/** @throws HttpError if the team has no such agent. */
function agentOf({ team, name: of }: ServedTeam, name: string): AgentInstance {
  const found = team.getAgent(name)
  if (found) return found
  const known = team.listAgents().map((each) => each.name)
  const shown = known.slice(0, 50).join(', ')
  throw new HttpError('UNKNOWN_AGENT', `Team "${of}" has no agent "${name.slice(0, 255)}"; it has ${shown}.`)
}

function shownAgent(served: ServedTeam, instance: AgentInstance): Shown {
  return agentIn(served, instance, served.team.health())
}

function agentIn({ name: team }: ServedTeam, instance: AgentInstance, { agents }: Health): Shown {
  const { name, role } = instance
  const { status, queued, inFlight, restarts, lastBeatMs } = own(agents, name)!
  const description = role.description ?? null
  const usage = instance.getTokenUsage()
  return { name, team, description, status, queued, inFlight, restarts, lastBeatMs, usage }
}

function detailOf(served: ServedTeam, instance: AgentInstance): z.infer<typeof agentDetail> {
  const { model = null, tools = [], capabilities = [] } = instance.role
  return {
    ...shownAgent(served, instance),
    summary: instance.getContextSummary(),
    context: contextOf(instance),
    model,
    tools: tools.map(toolName),
    capabilities: capabilities.map((each) => (typeof each === 'string' ? each : each.name)),
  }
}

function contextOf(instance: AgentInstance): z.infer<typeof agentDetail>['context'] {
  const context = instance.getContext()
  return context ? { ...context } : null
}

/** The name under which a role has a tool; of one in a module, the name of its file. */
function toolName(tool: ToolReference): string {
  if (typeof tool === 'string') return tool
  return 'name' in tool ? tool.name : posix.basename(String(tool.module))
}
