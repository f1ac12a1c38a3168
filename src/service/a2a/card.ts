/** Cards by which clients of A2A find a team. Strangers read its name alone, and callers who its agents are. */
import type { A2aSettings, Caller } from '../http/options.ts'
import type { ServedTeam } from '../http/task-view.ts'

export const VERSION = '1.0'

const ONCE = {
  uri: 'urn:dramatis:once',
  description: 'A message sent again with its messageId joins the task that it began.',
  required: false,
}

interface Place {
  /** URL of the team, below which its methods are. */
  readonly url: string
  readonly settings: A2aSettings
  readonly caller: Caller
}

export function cardOf({ name, team }: ServedTeam, { url, settings, caller }: Place): object {
  const isKnown = caller.may.includes('run')
  const agents = isKnown
    ? team.listAgents().map((agent) => ({ name: agent.name, description: agent.role.description }))
    : []
  const words = agents.map((agent) => [agent.name, agent.description].filter(Boolean).join(': ')).join('; ')
  const description = `The team "${name}" of AI agents${words && ` (${words})`}.`
  const { securitySchemes } = settings
  const names = Object.keys(securitySchemes)
  return {
    name,
    description,
    version: '1',
    supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({
      ...{ url, protocolBinding, protocolVersion: VERSION },
    })),
    capabilities: {
      streaming: true,
      pushNotifications: settings.push !== false,
      extendedAgentCard: true,
      // Without a durable log a task is forgotten with its process, and its message would begin it again.
      ...(team.logPath !== undefined && { extensions: [ONCE] }),
    },
    ...(names.length > 0 && {
      securitySchemes,
      securityRequirements: names.map((scheme) => ({ schemes: { [scheme]: { list: [] } } })),
    }),
    defaultInputModes: ['text/plain', 'application/json', 'image/*', 'audio/*', 'application/pdf'],
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: [
      { id: name, name, description, tags: ['team'] },
      ...agents.map((agent) => ({
        id: `${name}.${agent.name}`,
        name: agent.name,
        description: agent.description ?? `An agent of the team "${name}".`,
        tags: ['agent'],
      })),
    ],
  }
}
