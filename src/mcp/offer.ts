/** Resources, prompts and news of a server, as users get them. Nothing here names the protocol's own package. */
import type { ContentPart } from '../actors/definition/content.ts'

/** Entry of the list of resources that a server has. */
export interface McpResource {
  uri: string
  name: string
  title?: string
  description?: string
  mimeType?: string
}

/** Prompt of a server, with its arguments filled in. */
export interface McpPrompt {
  description?: string
  messages: { role: 'user' | 'assistant'; content: string | ContentPart[] }[]
}

/** Names of tools, as a team has them, that have come, gone, or are described otherwise. */
export interface ToolChanges {
  added: string[]
  removed: string[]
  changed: string[]
}
