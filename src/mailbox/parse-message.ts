/** Validates messages from outside: callers in the host, files, HTTP. Every field is checked, and faults are named. */
import { z } from 'zod'
import { describe, MessageRejectedError } from '../shared/errors.ts'
import { jsonIssue, MESSAGE_TYPES, type MessageInput } from './message.ts'
import type { MessagePart } from './parts.ts'
import { MAX_AGENTS } from './team-memory.ts'

type Refine = (value: unknown, context: z.core.$RefinementCtx) => void

const jsonIn =
  (field: string): Refine =>
  (value, context) => {
    if (value === undefined) return
    const issue = jsonIssue(value, field)
    if (!issue) return
    const message = `is ${issue.got}; a JSON value is needed`
    context.addIssue({ code: 'custom', message, params: { path: issue.path } })
  }

const plainObject: Refine = (value, context) => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return jsonIn('metadata')(value, context)
  context.addIssue({ code: 'custom', message: `is ${nameOf(value)}; an object is needed` })
}

const duration = z
  .number()
  .min(0)
  .max(2 ** 31 - 1)

const name = z.string().min(1)

const fields = {
  type: z.enum(MESSAGE_TYPES).optional(),
  sender: name.optional(),
  recipient: z.union([name, z.array(name).min(1), z.null()], {
    error: ({ input }) => `is ${nameOf(input)}; a name, a list of names, or null for all is needed`,
  }),
  content: z.string(),
  structuredData: z.custom<unknown>().superRefine(jsonIn('structuredData')).optional(),
  parts: z.array(z.custom<MessagePart>()).optional(), // each part is checked where the message is sent
  priority: z.int32().optional(),
  requiresResponse: z.boolean().optional(),
  responseTimeoutMs: duration.nullish(),
  threadId: z.string().min(1).nullish(),
  // no z.record: it makes a copy, and leaves out a key named __proto__
  metadata: z.custom<object>().superRefine(plainObject).optional(),
  runId: z.string().optional(),
  correlationId: z.string().nullish(),
  id: z.string().optional(),
  sentAt: z.number().optional(),
}

const schema = z.strictObject(fields)

/**
 * Returns the validated message.
 *
 * @throws MessageRejectedError that names the field, the given value and the accepted ones.
 */
export function parseMessage(value: unknown): MessageInput {
  const parsed = read(value)
  if (!parsed.success) {
    const { issues } = parsed
    throw new MessageRejectedError(
      `The message was refused: ${issues.map(({ path, message }) => `${path}: ${message}`).join('; ')}.`,
      { path: issues[0]!.path, issues },
    )
  }
  const { id: _id, sentAt: _sentAt, responseTimeoutMs, threadId, correlationId, ...rest } = parsed.data
  const { structuredData, metadata } = rest
  return {
    ...rest,
    ...(structuredData !== undefined && { structuredData: copied('structuredData', structuredData) }),
    ...(metadata !== undefined && { metadata: Object(copied('metadata', metadata)) as object }),
    ...(responseTimeoutMs != null && { responseTimeoutMs }),
    ...(threadId != null && { threadId }),
    ...(correlationId != null && { correlationId }),
  }
}

const TOO_MANY = { path: 'recipient', message: `is a list of more than the ${MAX_AGENTS} names that a team can have` }

function read(value: unknown) {
  try {
    const { recipient } = Object(value) as { recipient?: unknown }
    // Check the length before iterating: a sparse list can have any length.
    if (Array.isArray(recipient) && recipient.length > MAX_AGENTS)
      return { success: false as const, issues: [TOO_MANY] }
    const parsed = schema.safeParse(value)
    return parsed.success ? parsed : { success: false as const, issues: parsed.error.issues.flatMap(issuesOf) }
  } catch (error) {
    throw unreadable(Object.keys(fields).find((field) => throwsAt(value, field)) ?? 'message', error)
  }
}

function throwsAt(value: unknown, field: string): boolean {
  try {
    jsonIssue(Reflect.get(Object(value), field))
    return false
  } catch {
    return true
  }
}

/** Returns a copy of the current value, because a second read could return something else, or throw. */
function copied(field: string, value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value)) as unknown
  } catch (error) {
    throw unreadable(field, error)
  }
}

const unreadable = (path: string, error: unknown) =>
  new MessageRejectedError(
    `The message was refused: ${path}: it throws when it is read (${describe(error)}); plain data is needed.`,
    { path, issues: [{ path, message: 'throws when it is read' }] },
    error,
  )

function issuesOf(issue: z.core.$ZodIssue): { path: string; message: string }[] {
  if (issue.code === 'unrecognized_keys') {
    const message = `is no field of a message; there are ${Object.keys(fields).join(', ')}`
    return issue.keys.map((key) => ({ path: key, message }))
  }
  const deeper = issue.code === 'custom' ? (issue.params?.path as string | undefined) : undefined
  const path = issue.path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')
  return [{ path: deeper ?? (path.slice(1) || 'message'), message: issue.message }]
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
