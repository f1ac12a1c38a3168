/** Checks each field of a turn's request to a model before any tokens are paid for. */
import { checkObject, checkReadable, checkText, wrongArgument } from '../definition/checks.ts'
import { asJson, contentFault, type PartKeeper } from '../definition/content.ts'
import type { CompletionRequest, ModelCall, ModelMessage } from '../definition/model.ts'
import { MODEL_OPTION_NAMES, MODEL_OPTIONS, modelOptionsOf } from '../definition/model-options.ts'
import type { RoleInfo } from '../definition/role.ts'
import { checkSchema, writtenSchema } from './structured-output.ts'

const COMPLETION = ['prompt', 'messages', 'model', 'output', 'stream', 'signal', ...MODEL_OPTION_NAMES]

const ROLES: ReadonlySet<unknown> = new Set<ModelMessage['role']>(['system', 'user', 'assistant', 'tool'])

/** Throws `MessageRejectedError` for the first wrong field. `others`: additional fields that the request may have. */
export function checkCompletion(request: unknown, others: readonly string[] = []): void {
  checkObject(request, 'request')
  checkReadable(request as object, 'request')
  const known = [...COMPLETION, ...others]
  for (const key in request as object)
    if (!known.includes(key))
      throw wrongArgument(
        key,
        Reflect.get(request as object, key),
        `a request has no such field; it has ${known.join(', ')}`,
      )
  const { prompt, messages, model, output, stream, signal } = request as Record<string, unknown>
  if (prompt === undefined && messages === undefined)
    throw wrongArgument('prompt', prompt, 'a prompt or messages are needed')
  if (prompt !== undefined && messages !== undefined)
    throw wrongArgument('messages', messages, 'it goes without a prompt: give one of the two')
  if (prompt !== undefined) checkText(prompt, 'prompt')
  if (messages !== undefined) checkMessages(messages)
  if (model !== undefined && (typeof model !== 'string' || model === ''))
    throw wrongArgument('model', model, 'the name of a model is needed')
  if (output !== undefined) checkSchema(output, 'output')
  for (const name of MODEL_OPTION_NAMES) {
    const option: unknown = Reflect.get(request as object, name)
    const { accepted, accepts } = MODEL_OPTIONS[name]
    if (option !== undefined && !accepts(option)) throw wrongArgument(name, option, `${accepted} is needed`)
  }
  if (stream !== undefined && typeof stream !== 'boolean')
    throw wrongArgument('stream', stream, 'true or false is needed')
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
}

export function checkCount(value: unknown, path: string): void {
  if (!Number.isSafeInteger(value) || Number(value) < 1)
    throw wrongArgument(path, value, 'an integer from 1 on is needed')
}

function checkMessages(messages: unknown): void {
  if (!Array.isArray(messages) || messages.length === 0)
    throw wrongArgument('messages', messages, 'a list of at least one message is needed')
  for (const [i, message] of messages.entries()) {
    checkObject(message, `messages[${i}]`)
    const { role, content } = message as Partial<ModelMessage>
    if (!ROLES.has(role)) throw wrongArgument(`messages[${i}].role`, role, `one of ${[...ROLES].join(', ')} is needed`)
    const fault = contentFault(content, `messages[${i}].content`)
    if (fault) throw wrongArgument(fault.path, fault.value, fault.needed)
  }
}

/** Returns the model call for a checked request; fields that it lacks come from the role. */
export function callOf(role: RoleInfo, request: CompletionRequest<unknown>, keeper: PartKeeper): ModelCall {
  const { prompt = '', messages = promptMessages(role, prompt), output, stream } = request
  const model = request.model ?? role.model
  return {
    messages: messages.map((message) => portable(message, keeper)),
    ...(model !== undefined && { model }),
    ...(output && { jsonSchema: writtenSchema(output, 'output') }),
    ...modelOptionsOf(request, role),
    ...(stream && { stream }),
  }
}

/** Returns a message as it crosses to the host. */
const portable = (message: ModelMessage, keeper: PartKeeper): ModelMessage =>
  typeof message.content === 'string' ? message : { ...message, content: asJson(message.content, keeper) }

/** Returns the messages for a prompt: the system prompt of the role, if any, then the prompt. */
const promptMessages = ({ systemPrompt }: RoleInfo, prompt: string): ModelMessage[] => [
  ...(systemPrompt ? [{ role: 'system' as const, content: systemPrompt }] : []),
  { role: 'user', content: prompt },
]
