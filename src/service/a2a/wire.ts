/**
 * Requests of clients of A2A 1.0, and the errors that they get.
 * Source: https://a2a-protocol.org/v1.0.0/specification, sections 3, 5.4, 9 and 11.
 */
import { z } from 'zod'
import { HttpError, httpErrorOf, INTERNAL } from '../http/problem.ts'

const MOST_PARTS = 100
/** Teams elsewhere that may wait for one message, each for the next. */
const MOST_PEERS = 32
const id = z.string().min(1).max(255)
/** ProtoJSON writes a field without a value as null, as an empty text, or not at all. */
const optionalId = z
  .string()
  .max(255)
  .nullish()
  .transform((given) => given || undefined)
const flag = z
  .union([z.boolean(), z.enum(['true', 'false']).transform((given) => given === 'true')])
  .nullish()
  .transform((given) => given ?? undefined)
const metadata = z.record(z.string(), z.unknown()).nullish()

const part = z.looseObject({
  text: z.string().nullish(),
  data: z.unknown().optional(),
  raw: z.string().nullish(),
  url: z.string().nullish(),
  mediaType: z.string().max(255).nullish(),
  filename: z.string().max(255).nullish(),
})
export type Part = z.infer<typeof part>

const message = z.looseObject({
  messageId: id,
  contextId: optionalId,
  taskId: optionalId,
  role: z.literal(['ROLE_USER', 1]),
  parts: z.array(part).min(1).max(MOST_PARTS),
  metadata,
})
export type Message = z.infer<typeof message>

const ofTask = z.looseObject({ id })
const MOST_URL = 2_048
/** Text for a header. */
const secret = z
  .string()
  .max(4_096)
  .regex(/^[\x20-\x7e]*$/, 'visible ASCII characters are accepted')
const pushConfig = z.object({
  id: optionalId,
  url: z.url({ protocol: /^https?$/ }).max(MOST_URL),
  token: secret.nullish(),
  authentication: z
    .object({
      scheme: z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,64}$/, 'the name of a scheme is accepted'),
      credentials: secret.nullish(),
    })
    .nullish(),
})
export type PushConfig = z.infer<typeof pushConfig>
const ofConfig = z.looseObject({ taskId: id, id })

/** States of the protocol, by which tasks are listed. The first is that of clients which ask for any. */
const STATES_ASKED = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const

/** Parameters of each method. */
export const params = {
  SendMessage: z.looseObject({
    message,
    configuration: z
      .looseObject({ returnImmediately: flag, taskPushNotificationConfig: pushConfig.nullish() })
      .nullish(),
    metadata,
  }),
  GetTask: ofTask,
  ListTasks: z.looseObject({
    contextId: optionalId,
    status: z.enum(STATES_ASKED).nullish(),
    pageSize: z.coerce.number().int().min(0).max(100).nullish(),
    pageToken: optionalId,
    includeArtifacts: flag,
  }),
  CancelTask: ofTask,
  CreateTaskPushNotificationConfig: pushConfig.extend({ taskId: id }),
  GetTaskPushNotificationConfig: ofConfig,
  DeleteTaskPushNotificationConfig: ofConfig,
  ListTaskPushNotificationConfigs: z.looseObject({ taskId: id }),
  GetExtendedAgentCard: z.looseObject({}),
  path: z.array(z.string().min(1).max(64)).max(MOST_PEERS),
}

export const rpcRequest = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string().max(1_000), z.number().int(), z.null()]).optional(),
  method: z.string().min(1),
  params: z.looseObject({}).nullish(),
})

/** Kinds of errors of the protocol: their code of JSON-RPC, and their status over HTTP. */
const KINDS = {
  PARSE_ERROR: [-32_700, 400],
  INVALID_REQUEST: [-32_600, 400],
  METHOD_NOT_FOUND: [-32_601, 404],
  INVALID_PARAMS: [-32_602, 400],
  INTERNAL: [-32_603, 500],
  TASK_NOT_FOUND: [-32_001, 404],
  TASK_NOT_CANCELABLE: [-32_002, 409],
  PUSH_NOTIFICATION_NOT_SUPPORTED: [-32_003, 400],
  UNSUPPORTED_OPERATION: [-32_004, 400],
  CONTENT_TYPE_NOT_SUPPORTED: [-32_005, 415],
  VERSION_NOT_SUPPORTED: [-32_009, 400],
} as const
const DOMAIN = 'a2a-protocol.org'

/** Error as the protocol has it. `reason`: code of dramatis where the kind says less. */
export class Fault extends Error {
  readonly code: number
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly #reason: string

  constructor(kind: keyof typeof KINDS, text: string, { status, headers, reason = kind }: FaultOptions = {}) {
    super(text)
    this.code = KINDS[kind][0]
    this.status = status ?? KINDS[kind][1]
    this.headers = headers ?? {}
    this.#reason = reason
  }

  get #details(): object[] {
    const domain = Object.hasOwn(KINDS, this.#reason) ? DOMAIN : 'dramatis'
    return [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: this.#reason, domain }]
  }

  get ofRpc(): object {
    return { code: this.code, message: this.message, data: this.#details }
  }

  get ofHttp(): object {
    const status = this.status === 404 ? 'NOT_FOUND' : this.status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL'
    return { error: { code: this.status, status, message: this.message, details: this.#details } }
  }
}

interface FaultOptions {
  status?: number
  headers?: Readonly<Record<string, string>>
  reason?: string
}

/** Returns any error as one of the protocol. `log`: told of a fault of this program. */
export function faultOf(error: unknown, log: (error: unknown) => void): Fault {
  if (error instanceof Fault) return error
  const known = httpErrorOf(error)
  if (!known) log(error)
  const { code, status, message: text, headers } = known ?? INTERNAL
  const kind = status >= 500 || status === 429 ? 'INTERNAL' : 'INVALID_PARAMS'
  return new Fault(kind, `${code}: ${text}`, { status, headers, reason: code })
}

export const noTask = (task: string): Fault =>
  new Fault('TASK_NOT_FOUND', `There is no task "${task.slice(0, 255)}", or it is not yours.`)

/** @throws HttpError that names the field. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, path: string): T {
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  const { path: at, message: why } = error.issues[0]!
  throw new HttpError('CONFIGURATION', `${[path, ...at].join('.')}: ${why}`)
}
