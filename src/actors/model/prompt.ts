/** Writes the prompts of a model agent: about its role, its team and the message. */
import { type AgentMessage, ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import { own } from '../../shared/values.ts'
import type { Capability, RoleInfo } from '../definition/role.ts'
import { CONTEXT } from '../definition/task.ts'
import type { ModelSchema } from '../definition/tool.ts'
import { handedOverIn, handoffText } from './conversation.ts'

/**
 * Metadata of a message whose text says everything that its data says, so a model agent is not shown the same twice.
 */
export const IN_WORDS = Object.freeze({ inWords: true })

/*
 * The answer that a run ends with, if its caller has given a schema for it: a model that gives this answer is asked for
 * it in that schema.
 */

/** Metadata of a request whose answer becomes the run's answer, word for word. */
export const LAST_SPEAKER = Object.freeze({ lastSpeaker: true })

/** Metadata of a request to one of several agents, of whose answers one may become the run's answer. */
export const PERHAPS_LAST = Object.freeze({ lastSpeaker: 'perhaps' })

/** Verb of the host that checks such an answer. The run's schema is a function, so it stays in the caller's thread. */
export const CHECK_OUTPUT = 'run.output'

/** Checks whether the answer to that message may become the run's answer. */
export const isLast = (message: Asked): boolean => lastSpeakerIn(message) !== undefined

/** Returns what the message says of its last speaker; undefined if its answer is no answer of the run. */
export function lastSpeakerIn({ sender, metadata }: Asked): true | 'perhaps' | undefined {
  const { lastSpeaker } = metadata
  if (sender === USER || lastSpeaker === true) return true
  return lastSpeaker === PERHAPS_LAST.lastSpeaker ? 'perhaps' : undefined
}

type Asked = Pick<AgentMessage, 'sender' | 'metadata'>

/**
 * Returns the run's schema for use in a thread. `issuesOf` asks the host for the issues of a value; null: there are
 * none.
 */
export function outputSchema(jsonSchema: object, issuesOf: (value: unknown) => Promise<string | null>): ModelSchema {
  const json = () => jsonSchema as Record<string, unknown>
  return {
    '~standard': {
      version: 1,
      vendor: 'dramatis',
      jsonSchema: { input: json, output: json },
      async validate(value) {
        const message = await issuesOf(value)
        return message === null ? { value } : { issues: [{ message }] }
      },
    },
  }
}

/** Another agent, as a model is told of it. */
export type Colleague = Pick<RoleInfo, 'name' | 'description' | 'capabilities'>

/** `colleagues`: agents that it can turn to; empty if there are none. */
export function systemPromptOf(role: RoleInfo, colleagues: readonly Colleague[]): string {
  const { name, description, systemPrompt } = role
  const own = systemPrompt ?? `You are "${name}"${description ? `: ${description}` : ', an agent of a team'}.`
  if (colleagues.length === 0) return own
  return `${own}\n\nThe other agents of your team, by name:\n${colleagues.map(colleagueAsLine).join('\n')}`
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

type Said = Pick<AgentMessage, 'sender' | 'type' | 'content' | 'structuredData' | 'metadata'>

const VERBS: Readonly<Partial<Record<AgentMessage['type'], string>>> = {
  request: 'Request',
  delegate: 'Task',
  broadcast: 'Message to all',
  report: 'Report',
  publish: 'New on the blackboard,',
}
