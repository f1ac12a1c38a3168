/** Messages from outside: callers in the host, files, HTTP. Everything is checked, and the first thing that is wrong is named. */
import { z } from 'zod'
import { MessageRejectedError } from '../errors.ts'
import { jsonIssue, MESSAGE_TYPES, type MessageInput } from './message.ts'

const json = z.custom<unknown>().superRefine((value, context) => {
  if (value === undefined) return
  const issue = jsonIssue(value)
  if (issue)
    context.addIssue({
      code: 'custom',
      message: `is ${issue.got}${issue.path === '' ? '' : ` at ${issue.path}`}; a JSON value is needed`,
    })
})
const duration = z
  .number()
  .min(0)
  .max(2 ** 31 - 1)

const schema = z.strictObject({
  type: z.enum(MESSAGE_TYPES).optional(),
  sender: z.string().min(1).optional(),
  recipient: z.union([z.string().min(1), z.array(z.string().min(1)).min(1), z.null()]),
  content: z.string(),
  structuredData: json.optional(),
  priority: z.int32().optional(),
  requiresResponse: z.boolean().optional(),
  responseTimeoutMs: duration.nullish(),
  threadId: z.string().nullish(),
  metadata: z.record(z.string(), json).optional(),
  runId: z.string().optional(),
  correlationId: z.string().nullish(),
  id: z.string().optional(),
  sentAt: z.number().optional(),
})

/** The message, or `MessageRejectedError` that names the field, what came and what is accepted. */
export function parseMessage(value: unknown): MessageInput {
  const parsed = schema.safeParse(value)
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => ({
      path: path.map(String).join('.') || 'message',
      message,
    }))
    throw new MessageRejectedError(
      `The message was refused: ${issues.map(({ path, message }) => `${path}: ${message}`).join('; ')}.`,
      { path: issues[0]!.path, issues },
    )
  }
  const { id: _id, sentAt: _sentAt, responseTimeoutMs, threadId, correlationId, ...rest } = parsed.data
  return {
    ...rest,
    ...(responseTimeoutMs != null && { responseTimeoutMs }),
    ...(threadId != null && { threadId }),
    ...(correlationId != null && { correlationId }),
  }
}
