/** Messages: what the runtime gives out is told apart by its type; what a program builds needs no such care. */
import {
  type AgentInstance,
  type AgentMessage,
  createTeam,
  defineAgent,
  type MessageOf,
  type MessageType,
  type MultiAgentPattern,
  type TypedMessage,
} from 'dramatis'

/** The type alone says whether there is a correlation. */
export function correlationsOf(team: MultiAgentPattern): string[] {
  return team.getMessageHistory().flatMap((message) => {
    if (message.type !== 'response') {
      const none: null = message.correlationId
      return none ?? []
    }
    const response: MessageOf<'response'> = message
    return [response.correlationId.toUpperCase()]
  })
}

/** The correlation alone says what type it is. */
export function isAnswer(message: TypedMessage): message is MessageOf<'response'> {
  if (message.correlationId === null) {
    // @ts-expect-error a response has one
    return message.type === 'response'
  }
  const type: 'response' = message.type
  return type === 'response'
}

/** A new type of message would not compile here. */
export function routeOf({ type }: TypedMessage): string {
  switch (type) {
    case 'request':
    case 'delegate':
      return 'one'
    case 'response':
      return 'who asked'
    case 'broadcast':
    case 'publish':
    case 'report':
      return 'observe'
    case 'subscribe':
      return 'the runtime'
    default:
      return type satisfies never
  }
}

export const watcher = (team: MultiAgentPattern, seen: string[]) =>
  team.events.subscribe((event) => {
    if (event.type === 'message' && event.message.type === 'response') seen.push(event.message.correlationId)
  })

/** Built by a program, with a type from elsewhere: no cast. */
export function built(type: MessageType, fields: Partial<AgentMessage<number>> = {}): AgentMessage<number> {
  return {
    id: 'an-id',
    type,
    sender: '$user',
    recipient: null,
    content: '',
    structuredData: 1,
    priority: 0,
    requiresResponse: false,
    responseTimeoutMs: null,
    threadId: null,
    metadata: {},
    runId: '',
    correlationId: null,
    sentAt: 0,
    ...fields,
  }
}

export interface Marked extends AgentMessage<string> {
  mark: string
}

export async function handedIn(agent: AgentInstance, type: MessageType, given: TypedMessage): Promise<void> {
  await agent.receiveMessage(built(type))
  await agent.receiveMessage(given)
  await agent.receiveMessage({ ...given, type: 'response', correlationId: given.id })
  await agent.receiveMessage({ ...given, type })
}

/** What is given out fits wherever a message is wanted, its data's type included. */
export function widened(messages: TypedMessage<{ by: number }>[]): AgentMessage[] {
  const same: AgentMessage<{ by: number }>[] = messages
  const wider: TypedMessage[] = messages
  return [...same, ...wider]
}

/** A handler that was written for any message is one for those that come, and says what it takes. */
export const annotated = defineAgent({
  receive: (message: AgentMessage<{ by: number }>) => `${message.structuredData.by + 1}`,
  observe(message: AgentMessage) {
    message.content.toUpperCase()
  },
})

export const narrow = defineAgent({
  receive(message) {
    if (message.type === 'response') return message.correlationId.toUpperCase()
    return message.type
  },
})

export async function results(): Promise<AgentMessage[]> {
  const team = createTeam({ agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' } })
  return (await team.execute('q')).messageHistory
}
