/** Converts the result of a call by an MCP server into the output of a tool. */
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { ToolFailedError } from '../errors.ts'

type Part = CallToolResult['content'][number]

/**
 * Structured content, else text, else the parts as they are. Throws `ToolFailedError` for a result that is an error.
 */
export function outputOf(tool: string, { content, structuredContent, isError }: CallToolResult): unknown {
  const texts = content.filter(isText).map(({ text }) => text)
  if (isError) {
    const text = texts.join('\n') || 'it said nothing of why'
    throw new ToolFailedError(`Tool "${tool}" failed: ${text}`, { tool })
  }
  if (structuredContent !== undefined) return structuredContent
  return texts.length === content.length ? texts.join('\n') : content
}

const isText = (part: Part): part is Extract<Part, { type: 'text' }> => part.type === 'text'
