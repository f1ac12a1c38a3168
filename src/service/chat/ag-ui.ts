/**
 * AG-UI 1.0: the events of a run for clients of that protocol. What a person has to answer ends its run there as an
 * interrupt, and the next one goes on with the same run here.
 * Source: https://docs.ag-ui.com
 */
import { refused } from '../http/openai-request.ts'
import type { FoundTask } from '../http/task-view.ts'
import { type Asked, type Reading, storyOf, type Told } from './story.ts'

type Event = { readonly type: string } & Readonly<Record<string, unknown>>

/** Names of the conversation and the run by its client, and messages that it is to have before anything else. */
export interface Named {
  readonly threadId: string
  readonly runId: string
  readonly messages?: readonly unknown[] | undefined
}

export async function* agUiFrames(found: FoundTask, named: Named, reading: Reading): AsyncGenerator<string> {
  for await (const event of eventsOf(found, named, reading)) yield `data: ${JSON.stringify(event)}\n\n`
}

async function* eventsOf(found: FoundTask, { messages, ...named }: Named, reading: Reading): AsyncGenerator<Event> {
  yield { type: 'RUN_STARTED', ...named }
  if (messages) yield { type: 'MESSAGES_SNAPSHOT', messages }
  const asked: Asked[] = []
  for await (const told of storyOf(found, reading)) {
    if (told.kind === 'asked' && told.refusal === undefined) asked.push(told.question)
    else if (told.kind === 'pause') {
      const interrupts = asked.map((question) => interruptOf(question, told.seq))
      yield { type: 'RUN_FINISHED', ...named, outcome: { type: 'interrupt', interrupts } }
    } else if (told.kind === 'over' && !told.result.error)
      yield { type: 'RUN_FINISHED', ...named, outcome: { type: 'success' }, result: told.result.finalOutput }
    else yield* eventsFor(told, found.run.id)
  }
}

function* eventsFor(told: Told, runId: string): Generator<Event> {
  switch (told.kind) {
    case 'begin': {
      const message = { messageId: `${runId}:${told.id}` }
      if (told.part === 'text')
        return yield { type: 'TEXT_MESSAGE_START', ...message, role: 'assistant', name: told.agent }
      yield { type: 'REASONING_START', ...message }
      return yield { type: 'REASONING_MESSAGE_START', ...message, role: 'reasoning' }
    }
    case 'words': {
      const type = told.part === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT'
      return yield { type, messageId: `${runId}:${told.id}`, delta: told.text }
    }
    case 'end': {
      const message = { messageId: `${runId}:${told.id}` }
      if (told.part === 'text') return yield { type: 'TEXT_MESSAGE_END', ...message }
      yield { type: 'REASONING_MESSAGE_END', ...message }
      return yield { type: 'REASONING_END', ...message }
    }
    case 'call': {
      const { callId: toolCallId, tool: toolCallName, input } = told
      yield { type: 'TOOL_CALL_START', toolCallId, toolCallName }
      yield { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(input) }
      return yield { type: 'TOOL_CALL_END', toolCallId }
    }
    case 'output':
      return yield resultOf(told.callId, typeof told.output === 'string' ? told.output : JSON.stringify(told.output))
    case 'failed':
      return yield resultOf(told.callId, told.error)
    case 'denied':
      return yield resultOf(told.callId, 'It was not approved, and did not run.')
    case 'fell':
      return yield custom('superseded', { messageId: `${runId}:${told.id}`, reason: told.reason })
    case 'agent':
      return yield custom('agent', { agent: told.agent, status: told.isDone ? 'done' : 'working' })
    case 'progress':
      return yield custom('progress', { toolCallId: told.callId, note: told.note })
    case 'asked': {
      const { questionId, agent, text, callId } = told.question
      return yield custom('waiting', { questionId, agent, text, toolCallId: callId, waitsFor: told.refusal })
    }
    case 'closed': {
      const { questionId, how, answer, by = [] } = told.end
      return yield custom('answered', { questionId, how, answer, by: by.map(({ id }) => id) })
    }
    case 'over': {
      const { code, message } = told.result.error!
      return yield { type: 'RUN_ERROR', message, code }
    }
    case 'interrupted': {
      const message = 'The service is being closed. The task goes on later: send the same messages again then.'
      yield { type: 'RUN_ERROR', message, code: 'DRAINING' }
    }
  }
}

const resultOf = (toolCallId: string, content: string): Event => ({
  type: 'TOOL_CALL_RESULT',
  messageId: `${toolCallId}:result`,
  toolCallId,
  content,
})

const custom = (name: string, value: object): Event => ({ type: 'CUSTOM', name: `dramatis.${name}`, value })

/** An interrupt, whose id names the run, how far it was told, the question, and what an approval has shown. */
function interruptOf(question: Asked, seq: number): object {
  const { runId, questionId, kind, text, choices, form, callId, digest = '', answerBy } = question
  const isApproval = kind === 'approval'
  return {
    id: [runId, seq, questionId, digest].join('.'),
    reason: isApproval ? 'tool_call' : 'input_required',
    message: text,
    ...(callId !== undefined && { toolCallId: callId }),
    responseSchema: isApproval ? APPROVAL : (form ?? { type: 'string', ...(choices && { enum: choices }) }),
    ...(answerBy !== undefined && { expiresAt: new Date(answerBy).toISOString() }),
  }
}

const APPROVAL = {
  type: 'object',
  properties: { approved: { type: 'boolean' }, reason: { type: 'string' }, input: {} },
  required: ['approved'],
}

interface Resumed {
  readonly interruptId: string
  readonly status: 'resolved' | 'cancelled'
  readonly payload?: unknown
}

/**
 * Returns what an interrupt is about, and the answer to it. Whatever does not agree to a call is a no.
 *
 * @throws HttpError for an answer to a question that says nothing.
 */
export function answeredIn({ interruptId, status, payload }: Resumed, at: number) {
  const [runId = '', seq = '', questionId = '', digest = ''] = interruptId.split('.')
  const { approved, reason, input } = Object(payload) as { approved?: unknown; reason?: unknown; input?: unknown }
  const isYes = status === 'resolved' && approved === true
  const yes = { approved: true as const, ...(input !== undefined && { input }) }
  const no = { approved: false as const, ...(typeof reason === 'string' && { reason }) }
  if (digest === '' && status === 'resolved' && (payload ?? null) === null)
    throw refused(`resume[${at}].payload`, 'A question takes a text, or the object of its form.')
  const said = typeof payload === 'string' ? payload : JSON.stringify(payload)
  const answer = digest === '' ? (status === 'resolved' ? said : 'no') : isYes ? yes : no
  return {
    runId,
    after: /^\d{1,15}$/.test(seq) ? Number(seq) : undefined,
    given: { questionId, answer, ...(digest !== '' && { digest }) },
  }
}
