/** Writes the prompts of a model agent: about its role, its team and the message. */
import { type AgentMessage, ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import { own } from '../../shared/values.ts'
import { asJson, type Content, textOf, withText } from '../definition/content.ts'
import type { Capability, RoleInfo } from '../definition/role.ts'
import { CONTEXT } from '../definition/task.ts'
import { handedOverIn, handoffText } from './conversation.ts'

/** Another agent, as a model is told of it. */
export type Colleague = Pick<RoleInfo, 'name' | 'description' | 'capabilities'>

/** Line before those of the colleagues. */
export const COLLEAGUES = 'The other agents of your team, by name:'

/** `colleagues`: agents that it can turn to; empty if there are none. */
export function systemPromptOf(role: RoleInfo, colleagues: readonly Colleague[]): string {
  const { name, description, systemPrompt } = role
  const own = systemPrompt ?? `You are "${name}"${description ? `: ${description}` : ', an agent of a team'}.`
  if (colleagues.length === 0) return own
  return `${own}\n\n${COLLEAGUES}\n${colleagues.map(colleagueAsLine).join('\n')}`
}

/** Describes an agent in one line, for an agent that may turn to it. */
export function colleagueAsLine({ name, description, capabilities = [] }: Colleague): string {
  const able = capabilities.map(abilityText)
  const about = [description, able.length > 0 ? `can do: ${able.join(', ')}` : undefined].filter(Boolean)
  return about.length === 0 ? `- ${name}` : `- ${name}: ${about.join('; ')}`
}

/** Describes a capability for a model. */
export function abilityText(capability: string | Capability): string {
  if (typeof capability === 'string') return capability
  const { name, description } = capability
  return description ? `${name} (${description})` : name
}

/**
 * Returns a message as the model reads it. The runtime's own fields of a task are left out: they add nothing to its
 * description. `ofScript`: the protocol script has sent it, perhaps in the name of an agent; its texts say all.
 */
export function userContent(message: Said, ofScript = message.sender === ORCHESTRATOR): string {
  const { sender, type, content, structuredData, metadata } = message
  const handoff = handedOverIn(message)
  if (handoff) return handoffText(handoff)
  const author = type === 'publish' ? String(Object(structuredData).author) : sender // the host delivers an entry
  const isQuestion = type !== 'publish' && (ofScript || sender === USER)
  const parts = [
    isQuestion
      ? content
      : `${VERBS[type] ?? 'Message'} from "${author}":
${content}`,
  ]
  if (structuredData !== null && structuredData !== undefined && type !== 'delegate' && metadata.inWords !== true)
    parts.push(JSON.stringify(structuredData, null, 2))
  const context = type === 'delegate' ? own(metadata, CONTEXT) : undefined
  if (context !== undefined)
    parts.push(`Context: ${typeof context === 'string' ? context : JSON.stringify(context, null, 2)}`)
  const escalation = own(metadata, 'escalation')
  if (escalation !== undefined) parts.push(`escalation: ${JSON.stringify(escalation, null, 2)}`)
  return parts.join('\n\n')
}

/** Returns the text with the parts of the message: where they were, if it is their text. */
export function contentWith({ parts }: Pick<AgentMessage, 'parts'>, text: string): Content {
  if (!parts) return text
  return asJson(textOf(parts) === text ? parts : withText(parts, text))
}

type Said = Pick<AgentMessage, 'sender' | 'type' | 'content' | 'structuredData' | 'metadata'>

const VERBS: Readonly<Partial<Record<AgentMessage['type'], string>>> = {
  request: 'Request',
  delegate: 'Task',
  broadcast: 'Message to all',
  report: 'Report',
  publish: 'New on the blackboard,',
}
