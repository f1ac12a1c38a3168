/**
 * The UI message stream of the AI SDK, version 1, as `useChat` of its versions 6 and 7 reads it.
 * Source: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
 */
import type { FoundTask } from '../http/task-view.ts'
import { type Reading, storyOf, type Told } from './story.ts'

export const AI_SDK_HEADERS = { 'x-vercel-ai-ui-message-stream': 'v1' }

type Chunk = { readonly type: string } & Readonly<Record<string, unknown>>

const PREFIX = 'msg_'

/** Returns the id of the message of the team that shows a run. */
const messageIdOf = (runId: string): string => `${PREFIX}${runId}`

export const runIdOf = (messageId: string): string | undefined =>
  messageId.startsWith(PREFIX) ? messageId.slice(PREFIX.length) : undefined

/** Yields the chunks of a message. */
async function* chunksOf(found: FoundTask, reading: Reading): AsyncGenerator<Chunk> {
  const { id } = found.run
  yield { type: 'start', messageId: messageIdOf(id), messageMetadata: { dramatis: { runId: id } } }
  yield { type: 'start-step' }
  for await (const told of storyOf(found, reading)) yield* chunksFor(told, found)
}

export async function* framesOf(found: FoundTask, reading: Reading): AsyncGenerator<string> {
  for await (const chunk of chunksOf(found, reading)) yield `data: ${JSON.stringify(chunk)}\n\n`
  if (!reading.signal.aborted) yield 'data: [DONE]\n\n'
}

function* chunksFor(told: Told, { run, team }: FoundTask): Generator<Chunk> {
  const ends = function* (finishReason: string): Generator<Chunk> {
    const after = `${team.logName}.${told.seq}`
    yield { type: 'message-metadata', messageMetadata: { dramatis: { runId: run.id, after } } }
    yield { type: 'finish-step' }
    yield { type: 'finish', finishReason }
  }
  switch (told.kind) {
    case 'agent':
      return yield {
        type: 'data-agent',
        id: told.messageId,
        data: { agent: told.agent, status: told.isDone ? 'done' : 'working' },
      }
    case 'begin':
      return yield {
        type: `${told.part}-start`,
        id: told.id,
        providerMetadata: { dramatis: { id: told.id, agent: told.agent } },
      }
    case 'words':
      return yield { type: `${told.part}-delta`, id: told.id, delta: told.text }
    case 'end':
      return yield { type: `${told.part}-end`, id: told.id }
    case 'fell':
      return yield { type: 'data-superseded', id: told.id, data: { reason: told.reason } }
    case 'call': {
      const { callId: toolCallId, tool: toolName, agent: title, input } = told
      return yield { type: 'tool-input-available', toolCallId, toolName, title, input, dynamic: true }
    }
    case 'progress':
      return yield { type: 'data-progress', id: told.callId, data: { note: told.note } }
    case 'output':
      return yield { type: 'tool-output-available', toolCallId: told.callId, output: told.output, dynamic: true }
    case 'failed':
      return yield { type: 'tool-output-error', toolCallId: told.callId, errorText: told.error, dynamic: true }
    case 'denied':
      return yield { type: 'tool-output-denied', toolCallId: told.callId }
    case 'asked':
    case 'closed':
      return yield askedIn(told)
    case 'pause':
      return yield* ends('tool-calls')
    case 'over': {
      const { error } = told.result
      if (error && run.status === 'aborted') yield { type: 'abort', reason: error.message }
      else if (error) yield { type: 'error', errorText: `${error.code}: ${error.message}` }
      return yield* ends(error ? 'error' : 'stop')
    }
    case 'interrupted':
      yield { type: 'error', errorText: 'The service is being closed. The task goes on later: resume the stream then.' }
  }
}

/** A question as a part of the message. An approval is offered where the reader may give it. */
function askedIn(told: Extract<Told, { kind: 'asked' | 'closed' }>): Chunk {
  const { questionId: id, kind, agent, text, choices, form, callId: toolCallId, digest } = told.question
  const end = told.kind === 'closed' ? told.end : undefined
  const refusal = told.kind === 'asked' ? told.refusal : undefined
  if (kind === 'ask') {
    const state = end?.how ?? 'open'
    const data = {
      agent,
      text,
      choices: choices ?? null,
      form: form ?? null,
      state,
      ...(end?.answer !== undefined && { answer: end.answer }),
    }
    return { type: 'data-question', id, data }
  }
  if (!end && refusal === undefined) return { type: 'tool-approval-request', approvalId: `${id}.${digest}`, toolCallId }
  const how = end?.how === 'answered' ? (end.answer === 'yes' ? 'approved' : 'denied') : end?.how
  const data = {
    ...{ agent, text, toolCallId, state: how ?? 'waiting' },
    ...(refusal !== undefined && { waitsFor: refusal }),
    ...(end && { by: (end.by ?? []).map((each) => each.id) }),
    ...(end?.reason !== undefined && { reason: end.reason }),
    ...(end && 'input' in end && { input: end.input }),
  }
  return { type: 'data-approval', id, data }
}

/** Message of the AI SDK's UI. Source: `UIMessage`. */
export interface UiMessage {
  readonly id: string
  readonly role: 'user' | 'assistant'
  readonly metadata?: unknown
  readonly parts: Record<string, unknown>[]
}

/** Resolves to the message that a client has of a run, as the run is now. */
export async function messageOf(found: FoundTask): Promise<UiMessage> {
  const fold = new MessageFold()
  const { signal } = new AbortController()
  for await (const chunk of chunksOf(found, { signal, follow: false })) fold.add(chunk)
  return { id: messageIdOf(found.run.id), role: 'assistant', metadata: fold.metadata, parts: fold.parts }
}

/** Chunks as parts of a message: what the AI SDK makes of them, too. */
class MessageFold {
  readonly parts: Record<string, unknown>[] = []
  metadata: unknown
  readonly #open = new Map<unknown, Record<string, unknown>>()

  add({ type, id, ...chunk }: Chunk): void {
    const [kind, what] = type.split('-')
    if (type === 'start' || type === 'message-metadata') this.metadata = chunk.messageMetadata
    else if (type === 'start-step') this.parts.push({ type: 'step-start' })
    else if (kind === 'text' || kind === 'reasoning') this.#words(kind, id, what, chunk)
    else if (kind === 'tool') this.#tool(type, chunk)
    else if (kind === 'data') this.#data({ type, id, ...chunk })
  }

  #words(type: string, id: unknown, what: string | undefined, { delta, providerMetadata }: Partial<Chunk>): void {
    const part = this.#open.get(id) ?? { type, text: '', state: 'streaming', providerMetadata }
    if (!this.#open.has(id)) this.parts.push(part)
    this.#open.set(id, part)
    if (what === 'delta') part.text = `${part.text}${delta}`
    if (what !== 'end') return
    part.state = 'done'
    this.#open.delete(id)
  }

  #tool(type: string, { toolCallId, approvalId, ...chunk }: Partial<Chunk>): void {
    const state = type === 'tool-approval-request' ? 'approval-requested' : type.slice('tool-'.length)
    const { dynamic: _, ...fields } = chunk
    const part = this.parts.find((each) => each.toolCallId === toolCallId)
    const approval = approvalId !== undefined && { approval: { id: approvalId } }
    if (part) Object.assign(part, { state, ...fields, ...approval })
    else this.parts.push({ type: 'dynamic-tool', toolCallId, state, ...fields })
  }

  #data(part: Chunk): void {
    const at = this.parts.findIndex(({ type, id }) => type === part.type && id === part.id)
    if (at >= 0) this.parts[at] = part
    else this.parts.push(part)
  }
}
