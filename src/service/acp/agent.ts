/**
 * A team as an agent of the Agent Client Protocol, for the editor that has started it: a session is a thread, a prompt
 * a run in it, and what that asks a request for permission, or the end of the turn.
 *
 * Source: agentclientprotocol.com, version 1.
 */
import type * as Acp from '@agentclientprotocol/sdk'
import { v4 } from 'uuid'
import { describe } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { answerOnce } from '../chat/handlers.ts'
import { type Asked, storyOf, type Told } from '../chat/story.ts'
import type { Caller } from '../http/options.ts'
import { type FoundTask, isOver, type ServedTeam } from '../http/task-view.ts'
import { cancelled, type Service } from '../http/tasks.ts'

type Sdk = typeof Acp
type Client = Acp.AgentContext
type Answer = Parameters<typeof answerOnce>[1]

/** Runs of a thread that are told when it is loaded: the newest ones. */
const MOST_RUNS = 200
const NO_REQUEST = { headers: new Headers() }
const KINDS: readonly string[] = ['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch']
/** Answers as options of a request for permission. */
const YES_OR_NO: Acp.PermissionOption[] = [
  { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
  { optionId: 'no', name: 'Reject', kind: 'reject_once' },
]
const NOT_FOUND = -32_002
const INVALID = -32_602

/** An open prompt of a session. */
interface Open {
  /** Aborted by the client. */
  readonly cancel: AbortController
  found?: FoundTask | undefined
  /** Resolves when it is over. */
  readonly over: Promise<void>
  end(): void
}

export function agentOf(
  acp: Sdk,
  { tasks }: Pick<Service, 'tasks'>,
  { served, caller, ending }: { served: ServedTeam; caller: Caller; ending: AbortSignal },
): Acp.AgentApp {
  const { agent: of, client: to } = acp.methods
  const open = new Map<string, Open>()
  /** Sessions whose last run waits for an answer in words. */
  const waiting = new Map<string, { readonly found: FoundTask; readonly question: Asked; readonly seq: number }>()
  const fault = (code: number, message: string) => new acp.RequestError(code, message)

  const opened = (sessionId: string, found?: FoundTask): Open => {
    let end = () => {}
    const over = new Promise<void>((resolve) => {
      end = () => {
        open.delete(sessionId)
        resolve()
      }
    })
    const state = { cancel: new AbortController(), found, over, end }
    open.set(sessionId, state)
    return state
  }

  const updater = (client: Client, sessionId: string) => (update: Acp.SessionUpdate) =>
    client.notify(to.session.update, { sessionId, update })

  /** Asks the client for the answers to questions, until they are closed; undefined: it has cancelled them. */
  const askAll = async (client: Client, sessionId: string, found: FoundTask, questions: readonly Asked[]) => {
    const asking = questions.map(async ({ questionId, digest, callId, choices, text, tool, agent, input }) => {
      const closed = new AbortController()
      void untilClosed(found, questionId, closed.signal).then(() => closed.abort())
      const options = tool ? YES_OR_NO : choices!.map((name) => ({ optionId: name, name, kind: 'allow_once' as const }))
      const toolCall = {
        toolCallId: callId ?? questionId,
        title: tool ? `${tool} (${agent})` : text,
        kind: kindOf(tool),
        rawInput: tool ? input : { question: text },
      }
      try {
        const { outcome }: Acp.RequestPermissionResponse = await client.request(
          to.session.requestPermission,
          { sessionId, toolCall, options },
          { cancellationSignal: closed.signal, stopWaitingOnCancel: true },
        )
        if (outcome.outcome !== 'selected') return false
        await answerOnce(found, answerOf(questionId, digest, outcome.optionId), ending)
        return true
      } catch (error) {
        if (closed.signal.aborted) return true // somebody else has answered, or nobody in time
        throw error
      } finally {
        closed.abort()
      }
    })
    return (await Promise.all(asking)).every(Boolean)
  }

  /** Tells a run from behind that place until its end, and has its client answer what it may. */
  const follow = async (
    client: Client,
    sessionId: string,
    found: FoundTask,
    { signal, after }: { signal: AbortSignal; after?: number },
  ): Promise<Acp.StopReason> => {
    const update = updater(client, sessionId)
    for (let seq = after ?? -1; ; ) {
      const asked: Asked[] = []
      let isPaused = false
      for await (const told of storyOf(found, { after: seq, signal })) {
        seq = told.seq
        if (told.kind === 'asked' && told.refusal === undefined) asked.push(told.question)
        else if (told.kind === 'over') return stopOf(found, told)
        else if (told.kind === 'pause') isPaused = true
        else for (const each of updatesOf(told)) await update(each)
      }
      if (signal.aborted) return 'cancelled'
      if (!isPaused)
        throw fault(-32_603, 'The team is being closed; the task goes on at its next start, if it has a log.')
      const words = asked.find(({ kind, choices }) => kind === 'ask' && !choices)
      if (words) {
        waiting.set(sessionId, { found, question: words, seq })
        await update(says(`\n\n${words.text}\n`))
        return 'end_turn' // what its person says next is the answer
      }
      if (!(await askAll(client, sessionId, found, asked))) return 'cancelled'
    }
  }

  const stopOf = ({ run }: FoundTask, { result }: Extract<Told, { kind: 'over' }>): Acp.StopReason => {
    if (result.success) return 'end_turn'
    if (run.status === 'aborted') return 'cancelled'
    throw fault(-32_603, `${result.error?.code}: ${result.error?.message}`)
  }

  /** Begins a run for a prompt, or answers with it what the run before has asked. */
  const begin = async (sessionId: string, query: string): Promise<{ found: FoundTask; after?: number }> => {
    const before = waiting.get(sessionId)
    if (before && !isOver(before.found.run)) {
      const { found, question, seq } = before
      if (found.run.questions.some(({ questionId }) => questionId === question.questionId)) {
        await answerOnce(found, { questionId: question.questionId, answer: query }, ending)
        waiting.delete(sessionId)
        return { found, after: seq }
      }
    }
    waiting.delete(sessionId)
    const options = { threadId: sessionId, stream: true }
    return { found: await tasks.start({ served, query, options, caller, request: NO_REQUEST }) }
  }

  const prompted = async (
    { sessionId, prompt }: Acp.PromptRequest,
    client: Client,
    gone: AbortSignal,
  ): Promise<Acp.PromptResponse> => {
    const before = open.get(sessionId)
    if (before && !before.cancel.signal.aborted)
      throw fault(INVALID, `Session "${sessionId}" works on a prompt. Cancel it, or wait for its end.`)
    await before?.over // its editor cancels it, and goes on at once
    const state = opened(sessionId)
    const { signal } = state.cancel
    const stop = onAbort(gone, () => state.cancel.abort())
    try {
      const { found, after } = await begin(sessionId, textOf(prompt))
      state.found = found
      if (signal.aborted) await cancelled(found, 'cancelled by the editor')
      const stopReason = await follow(client, sessionId, found, { signal, after })
      if (stopReason === 'cancelled' && !isOver(found.run)) await cancelled(found, 'cancelled by the editor')
      return { stopReason }
    } catch (error) {
      throw error instanceof acp.RequestError ? error : fault(-32_603, describe(error))
    } finally {
      stop()
      state.end()
    }
  }

  /** Tells a thread of the caller: what was asked, and what came of it. The run that is open is followed. */
  const load = async (sessionId: string, client: Client): Promise<Acp.LoadSessionResponse> => {
    const { team } = served
    const runs = await team.listRuns({ threadId: sessionId, caller: caller.id, limit: MOST_RUNS })
    if (runs.length === 0) throw fault(NOT_FOUND, `There is no session "${sessionId}" here.`)
    const update = updater(client, sessionId)
    for (const { id } of runs.reverse()) {
      const found = await tasks.find(id, caller, [])
      await update({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text: found.run.query } })
      if (!isOver(found.run)) {
        if (open.has(sessionId)) break // its prompt tells it
        const { cancel, end } = opened(sessionId, found)
        // the client hears of its end no more
        void follow(client, sessionId, found, { signal: cancel.signal })
          .catch(() => {})
          .finally(end)
        break
      }
      for await (const told of storyOf(found, { signal: ending, follow: false }))
        for (const each of updatesOf(told)) await update(each)
    }
    return {}
  }

  return acp
    .agent({ name: 'dramatis' })
    .onRequest(of.initialize, () => ({
      protocolVersion: acp.PROTOCOL_VERSION,
      agentCapabilities: { loadSession: true, promptCapabilities: { embeddedContext: true } },
      agentInfo: { name: served.name, version: '1' },
    }))
    .onRequest(of.session.new, () => ({ sessionId: `s_${v4()}` }))
    .onRequest(of.session.load, ({ params, client }) => load(params.sessionId, client))
    .onRequest(of.session.prompt, ({ params, client, signal }) => prompted(params, client, signal))
    .onNotification(of.session.cancel, async ({ params }) => {
      const { cancel, found } = open.get(params.sessionId) ?? {}
      cancel?.abort()
      if (found) await cancelled(found, 'cancelled by the editor')
    })
}

const answerOf = (questionId: string, digest: string | undefined, optionId: string): Answer =>
  digest === undefined
    ? { questionId, answer: optionId }
    : { questionId, digest, answer: { approved: optionId === 'yes' } }

const kindOf = (tool: string | undefined): Acp.ToolKind =>
  tool && KINDS.includes(tool) ? (tool as Acp.ToolKind) : 'other'

const says = (text: string): Acp.SessionUpdate => ({
  sessionUpdate: 'agent_message_chunk',
  content: { type: 'text', text },
})

/** Yields what the client is told of a piece of a run. */
function* updatesOf(told: Told): Generator<Acp.SessionUpdate> {
  switch (told.kind) {
    case 'words': {
      const sessionUpdate = told.part === 'text' ? 'agent_message_chunk' : 'agent_thought_chunk'
      return yield { sessionUpdate, content: { type: 'text', text: told.text } }
    }
    case 'fell':
      // what was told cannot be taken back
      return yield says(
        told.reason === 'tool_calls' ? '\n\n' : '\n\n(That does not count; the answer is made again.)\n\n',
      )
    case 'call': {
      const { callId: toolCallId, tool, agent, input: rawInput } = told
      const title = `${tool} (${agent})`
      return yield {
        sessionUpdate: 'tool_call',
        toolCallId,
        title,
        kind: kindOf(tool),
        status: 'in_progress',
        rawInput,
      }
    }
    case 'output':
      return yield ended(told.callId, 'completed', textIn(told.output), told.output)
    case 'failed':
      return yield ended(told.callId, 'failed', told.error)
    case 'denied':
      return yield ended(told.callId, 'failed', 'Nobody has agreed to it.')
    case 'asked':
      // its client has nothing to answer: others have
      return yield says(`\n\n(${told.question.text} ${told.refusal} It waits for that.)\n\n`)
  }
}

const ended = (
  toolCallId: string,
  status: 'completed' | 'failed',
  text: string,
  rawOutput?: unknown,
): Acp.SessionUpdate => ({
  sessionUpdate: 'tool_call_update',
  toolCallId,
  status,
  content: [{ type: 'content', content: { type: 'text', text } }],
  ...(rawOutput !== undefined && { rawOutput }),
})

const textIn = (output: unknown): string => (typeof output === 'string' ? output : JSON.stringify(output))

/** Returns a prompt as text. A resource is named, and a text that it has is a part of it. */
const textOf = (prompt: readonly Acp.ContentBlock[]): string =>
  prompt
    .map((part) => {
      if (part.type === 'text') return part.text
      if (part.type === 'resource_link') return `${part.name}: ${part.uri}`
      if (part.type === 'resource' && 'text' in part.resource) return `${part.resource.uri}:\n${part.resource.text}`
      return `(${part.type})`
    })
    .join('\n')

/** Resolves when a question is closed, or when the signal is aborted. */
async function untilClosed({ run }: FoundTask, questionId: string, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of run.events({ types: ['question.closed'], signal }))
      if (event.type === 'question.closed' && event.questionId === questionId) return
  } catch {
    // who waits hears of it otherwise
  }
}
