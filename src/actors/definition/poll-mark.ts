/**
 * The field by which a model marks a call as a poll: it repeats the same call on purpose and waits for another answer.
 */
import type { ToolSpec } from './model.ts'

const FIELD = 'polling'

export const POLL_MARK = {
  [FIELD]: {
    type: 'boolean',
    description: 'true: you ask the same again on purpose, since you wait for it to change.',
  },
} as const

/** Checks whether the input of a tool has a field of that name by its own schema. */
export const hasMark = (inputSchema: object): boolean => FIELD in propertiesOf(inputSchema)

/** Returns the tool with the poll field added to its input schema. */
export function withMark({ name, description, inputSchema }: ToolSpec): ToolSpec {
  const properties = { ...propertiesOf(inputSchema), ...POLL_MARK }
  return { name, description, inputSchema: { ...inputSchema, properties } }
}

/** Checks whether a call is marked as a poll; `input` is JSON as a model wrote it. */
export const isMarked = (input: string): boolean => objectIn(input)?.[FIELD] === true

/**
 * Returns the input without the poll field, as the tool expects it. Text that is not a JSON object stays unchanged: the
 * tool refuses it.
 */
export function withoutMark(input: string): string {
  const given = objectIn(input)
  if (!given || !(FIELD in given)) return input
  const { [FIELD]: _mark, ...rest } = given
  return JSON.stringify(rest)
}

const propertiesOf = (inputSchema: object): object => Object(Reflect.get(inputSchema, 'properties'))

function objectIn(input: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(input)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}
