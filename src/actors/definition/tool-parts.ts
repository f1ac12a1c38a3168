/** Results of tools that are more than text: a model gets the parts as they are, such as an image that it looks at. */
import { ToolFailedError } from '../../errors.ts'
import { type MessagePart, PARTS } from '../../mailbox/parts.ts'
import { asJson, partsFault } from './content.ts'

/** Result of a tool with parts. Made by `toolParts`. */
export interface ToolParts {
  readonly [PARTS]: readonly MessagePart[]
}

/**
 * Makes a tool's result of parts: texts, images, sounds and files, in their order. The model gets them in place of
 * JSON. Code that calls the tool gets them with their bytes as data URLs.
 *
 * @throws {ToolFailedError} if a part is wrong: half of it is missing, or its type is unknown.
 *
 * @example
 * const screenshot = defineTool({
 *   name: 'screenshot',
 *   description: 'Shows a page.',
 *   input: z.object({ url: z.url() }),
 *   run: async ({ url }) => toolParts([{ type: 'image', data: await bytesOf(url), mediaType: 'image/png' }]),
 * })
 */
export function toolParts(parts: readonly MessagePart[]): ToolParts {
  const fault = partsFault(parts, 'parts')
  if (!fault) return resultOfParts(asJson(parts) as MessagePart[])
  const text = `toolParts: ${fault.path}: ${fault.needed}.`
  throw new ToolFailedError(text, { path: fault.path })
}

/** Returns the result of a tool with parts that are checked. */
export const resultOfParts = (parts: readonly MessagePart[]): ToolParts => ({ [PARTS]: parts })

/** Returns the parts of a tool's result; undefined if it is JSON for the model. */
export function partsOfResult(output: unknown): readonly MessagePart[] | undefined {
  const parts: unknown = Object(output)[PARTS]
  return parts !== undefined && partsFault(parts, PARTS) === undefined ? (parts as readonly MessagePart[]) : undefined
}
