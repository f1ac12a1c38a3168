/** Converts the result of a call by an MCP server into the output of a tool. */
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { toolParts } from '../actors/definition/content.ts'
import type { MessagePart } from '../mailbox/parts.ts'
import { ToolFailedError } from '../shared/errors.ts'

type Part = CallToolResult['content'][number]

/**
 * Structured content, else text, else images and sounds as parts for the model, else the content as it is. Throws
 * `ToolFailedError` for a result that is an error.
 */
export function outputOf(tool: string, { content, structuredContent, isError }: CallToolResult): unknown {
  const texts = content.filter(isText).map(({ text }) => text)
  if (isError) {
    const text = texts.join('\n') || 'it said nothing of why'
    throw new ToolFailedError(`Tool "${tool}" failed: ${text}`, { tool })
  }
  if (structuredContent !== undefined) return structuredContent
  if (texts.length === content.length) return texts.join('\n')
  const parts = content.map(partOf)
  return parts.includes(undefined) ? content : toolParts(parts as MessagePart[])
}

/** Returns the part of a message that it is; undefined for a link or a resource. */
function partOf(part: Part): MessagePart | undefined {
  if (part.type === 'text') return { type: 'text', text: part.text }
  if (part.type === 'image' || part.type === 'audio')
    return { type: part.type, data: part.data, mediaType: part.mimeType }
  return undefined
}

const isText = (part: Part): part is Extract<Part, { type: 'text' }> => part.type === 'text'
