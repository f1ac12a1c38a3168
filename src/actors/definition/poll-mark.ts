/** The field by which a model marks a call as a poll: it asks the same again on purpose, and waits for another answer. */
import type { ToolSpec } from './model.ts'

const FIELD = 'polling'

export const POLL_MARK = {
  [FIELD]: {
    type: 'boolean',
    description: 'true: you ask the same again on purpose, since you wait for it to change.',
  },
} as const

/** Whether that input has such a field anyway. */
export const hasMark = (inputSchema: object): boolean => FIELD in propertiesOf(inputSchema)

/** The tool with that field beside its own. */
export function withMark({ name, description, inputSchema }: ToolSpec): ToolSpec {
  const properties = { ...propertiesOf(inputSchema), ...POLL_MARK }
  return { name, description, inputSchema: { ...inputSchema, properties } }
}

/** Whether a call is marked; `input` is JSON as a model wrote it. */
export const isMarked = (input: string): boolean => objectIn(input)?.[FIELD] === true

/** The input as the tool knows it. What is no JSON stays what it is, for the tool to refuse. */
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
