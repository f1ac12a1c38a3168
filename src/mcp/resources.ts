/** Resources and prompts of an MCP server, in all the shapes that servers send. */
import { type ContentPart, toolParts } from '../actors/definition/content.ts'
import { defineTool, type ModelSchema, type Tool, type ToolContext } from '../actors/definition/tool.ts'
import type { MessagePart } from '../mailbox/parts.ts'
import { type Connection, pagesOf } from './connection.ts'
import { type Fields, isFields, partOf } from './loose.ts'
import type { McpPrompt, McpResource } from './offer.ts'

const ABOUT = new Set(['title', 'description', 'mimeType'])

/** Returns the resources of a server that say where they are; none of a server that has none. */
export async function resourcesOf(
  connection: Connection,
  timeoutMs: number,
  context?: ToolContext,
): Promise<McpResource[]> {
  if (!connection.offers('resources')) return []
  const ask = (cursor: Fields) => connection.ask('resources/list', cursor, timeoutMs, context)
  const { listed } = await pagesOf(ask, 'resources', ({ uri }) => uri)
  return listed.flatMap((entry) => {
    const { uri, name, ...more } = Object(entry) as Fields
    if (typeof uri !== 'string' || uri === '') return []
    const fields = Object.fromEntries(
      Object.entries(more).filter(([field, value]) => ABOUT.has(field) && typeof value === 'string'),
    )
    return [{ uri, name: typeof name === 'string' ? name : uri, ...fields }]
  })
}

export async function promptOf(
  connection: Connection,
  name: string,
  args: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<McpPrompt> {
  const { description, messages } = await connection.ask('prompts/get', { name, arguments: args }, timeoutMs)
  return {
    ...(typeof description === 'string' && { description }),
    messages: (Array.isArray(messages) ? (messages as unknown[]) : []).map((message) => {
      const { role, content } = Object(message) as Fields
      const parts = (Array.isArray(content) ? (content as unknown[]) : [content]).map(pieceOf)
      const texts = parts.flatMap((part) => ('text' in part ? part.text : []))
      return {
        role: role === 'assistant' ? 'assistant' : 'user',
        content: texts.length === parts.length ? texts.join('\n') : (parts as ContentPart[]),
      }
    }),
  }
}

/** Returns the part of a message that is it: of an embedded resource its contents, of what is unknown its JSON. */
function pieceOf(part: unknown): MessagePart {
  const { resource }: Fields = Object(part)
  return partOf(part) ?? (isFields(resource) ? contentsOf(resource) : { type: 'text', text: JSON.stringify(part) })
}

function contentsOf({ text, blob: data, mimeType, uri }: Fields): MessagePart {
  if (typeof text === 'string') return { type: 'text', text }
  const mediaType = typeof mimeType === 'string' ? mimeType : 'application/octet-stream'
  const [kind] = mediaType.split('/')
  if (typeof data !== 'string') return { type: 'text', text: JSON.stringify({ uri, mimeType }) }
  return { type: kind === 'image' || kind === 'audio' ? kind : 'file', data, mediaType }
}

/** Returns the tools by which a model reads resources itself. */
export function resourceTools(
  connection: Connection,
  names: readonly string[],
  timeoutMs: number,
  schemaOf: (schema: object) => ModelSchema,
): Tool[] {
  const common = { readOnly: true, idempotent: true, outside: true, timeoutMs }
  const empty = { type: 'object', properties: {} }
  const one = { type: 'object', properties: { uri: { type: 'string' } }, required: ['uri'] }
  return [
    defineTool({
      ...common,
      name: names[0]!,
      description: `Lists what can be read at ${connection.name}: its resources, with their URIs.`,
      input: schemaOf(empty),
      run: (_input, context) => resourcesOf(connection, timeoutMs, context),
    }),
    defineTool({
      ...common,
      name: names[1]!,
      description: `Reads a resource of ${connection.name} by its URI.`,
      input: schemaOf(one),
      async run(input, context) {
        const { uri } = input as { uri: string }
        const { contents } = await connection.ask('resources/read', { uri }, timeoutMs, context)
        const parts = (Array.isArray(contents) ? (contents as unknown[]) : []).map((each) =>
          contentsOf(Object(each) as Fields),
        )
        const texts = parts.flatMap((part) => ('text' in part ? part.text : []))
        return texts.length === parts.length ? texts.join('\n') : toolParts(parts)
      },
    }),
  ]
}
