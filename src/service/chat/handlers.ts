/**
 * Chats. A chat is a thread of its caller, and each message of the user a run in it, whose id follows from the message:
 * who sends it again joins the run. So nothing of a chat is kept here.
 */
import { createHash } from 'node:crypto'
import { v5 } from 'uuid'
import type { ModelMessage } from '../../index.ts'
import { BODY_HASH } from '../../runtime/host/run.ts'
import { readPosition } from '../../runtime/runs/events.ts'
import { systemClock } from '../../shared/clock.ts'
import { type ChatMessage, saidIn } from '../http/chat-request.ts'
import { refused } from '../http/openai-request.ts'
import type { Caller } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import type { Routes } from '../http/routes.ts'
import { endOf, type FoundTask, isOver, knownEndOf, type ServedTeam } from '../http/task-view.ts'
import { answerAs, type Call, type Handlers, json, noThread, type Service, written } from '../http/tasks.ts'
import { AI_SDK_HEADERS, framesOf, messageOf, runIdOf, type UiMessage } from './ai-sdk.ts'

/** Field of the metadata of a run: id of the message of the user that it answers. */
export const CHAT_MESSAGE = 'chatMessage'

/** Namespace of the ids of runs that answer messages of chats. */
const CHATS = '0d9c2f4e-7f0b-4d6a-9a53-31c1be0f8a6e'
/** Time for which an answer waits until a turn that a restart has cut off asks again, and between two looks, in ms. */
const REASKED_MS = 10_000
const PAUSE_MS = 50

export function chatHandlers({ settings, tasks, keys, streams }: Service) {
  const streamed = (found: FoundTask, request: Request, after?: number): Response => {
    const { caller, run } = found
    return streams.respond({
      request,
      caller,
      form: 'sse',
      headers: AI_SDK_HEADERS,
      frames: (signal) => framesOf(found, { after, signal }),
      left() {
        if (settings.onDisconnect === 'cancel') tasks.leave(run)
      },
    })
  }

  const find = (id: string, caller: Caller) =>
    tasks.find(id, caller, []).catch((error: unknown) => {
      if (error instanceof HttpError && error.code === 'NOT_FOUND') return undefined
      throw error
    })

  /** Returns the runs that have begun a branch of a chat, in order. The id of each is known, so no list is searched. */
  const branchesOf = async (chat: Chat): Promise<FoundTask[]> => {
    const branches: FoundTask[] = []
    for (;;) {
      const found = await find(branchId(chat, branches.length + 1), chat.caller)
      if (!found) return branches
      branches.push(found)
    }
  }

  const runsIn = async ({ served, id, caller }: Chat, branch: number, limit?: number): Promise<FoundTask[]> => {
    const runs = await served.team.listRuns({ threadId: threadOf(id, branch), caller: caller.id, limit })
    const found = await Promise.all(runs.map((run) => find(run.id, caller)))
    return found.filter((run) => run !== undefined)
  }

  const newest = async (chat: Chat): Promise<FoundTask | undefined> =>
    (await runsIn(chat, (await branchesOf(chat)).length, 1))[0]

  /** Returns the runs of a chat as its client has them, the oldest first. */
  const runsOf = async (chat: Chat, limit?: number): Promise<FoundTask[]> => {
    const branches = await branchesOf(chat)
    let runs: FoundTask[] = []
    for (let branch = 0; branch <= branches.length; branch++) {
      const first = branches[branch - 1]
      if (first) runs = before(runs, messageOfUser(first))
      runs.push(...(await runsIn(chat, branch, limit)).reverse())
    }
    return runs
  }

  /** Begins the run that answers a message, or joins it. */
  const begin = async (call: ChatCall, message: ChatMessage, at: number): Promise<FoundTask> => {
    const { request, caller, served, body } = call
    const chat = { served, caller, id: body.id }
    const query = saidIn(message, `messages[${at}]`)
    const hash = createHash('sha256').update(JSON.stringify(query)).digest('base64')
    const isAgain = body.trigger === 'regenerate-message'
    const isCut = isAgain || body.messageId === message.id // it takes the place of one that was answered
    const begun = isCut ? (await runsOf(chat)).findLast((run) => messageOfUser(run) === message.id) : undefined
    // A run that is under way is joined: a request that is sent again cannot be told from another one.
    if (begun && begun.run.metadata[BODY_HASH] === hash && !(isAgain && isOver(begun.run))) return begun
    const branch = (await branchesOf(chat)).length + (begun ? 1 : 0)
    const id = begun ? branchId(chat, branch) : v5(JSON.stringify([...nameOf(chat), message.id, hash]), CHATS)
    const keyed = { id, hash }
    const said = begun && (await saidBefore(before(await runsOf(chat), message.id)))
    const options = {
      threadId: threadOf(chat.id, branch),
      stream: true,
      metadata: { [CHAT_MESSAGE]: message.id },
      ...(said && { messages: said }),
    }
    if (await tasks.begunBy(keyed)) return tasks.find(id, caller, [])
    const start = () => tasks.start({ served, query, options, caller, request, keyed })
    return keys.begin(keyed, () => tasks.isKnown(id), start)
  }

  /** Gives the answers that the last message of the team has, and goes on behind what it has of its run. */
  const goOn = async ({ request, caller, body }: ChatCall, message: ChatMessage, at: number): Promise<Response> => {
    const after = afterIn(message, `messages[${at}]`)
    const found = await tasks.find(runIdOf(message.id) ?? message.id, caller, [])
    for (const given of [...approvalsIn(message), ...(body.answers ?? [])]) {
      await untilAsked(found, given.questionId, request.signal)
      await answerAs(caller, found, given).catch(unlessClosed)
    }
    return streamed(found, request, after)
  }

  return {
    async chat(call) {
      const at = call.body.messages.length - 1
      const message = call.body.messages[at]!
      if (message.role === 'assistant') return goOn(call, message, at)
      if (message.role === 'system') throw refused(`messages[${at}].role`, 'The last message is of the user.')
      const found = await begin(call, message, at)
      await written(found) // a client that is cut off behind the first chunk finds it
      return streamed(found, call.request)
    },

    async getChat({ params, caller, served, query: { limit } }) {
      const runs = (await runsOf({ served, caller, id: params.id! }, limit)).slice(-limit)
      if (runs.length === 0) throw noThread(params.id!)
      const messages: UiMessage[] = []
      for (const found of runs) messages.push(askedIn(found), await messageOf(found))
      return json({ id: params.id!, messages })
    },

    async resumeChat({ request, params, caller, served }) {
      const found = await newest({ served, caller, id: params.id! })
      // A client that was cut off just before the end has a part of the message alone.
      const isHeld = found && (await isFresh(found, settings.limits.disconnectGraceMs))
      return isHeld ? streamed(found, request) : new Response(null, { status: 204 })
    },

    async stopChat({ params, caller, served }) {
      const found = await newest({ served, caller, id: params.id! })
      if (found && !isOver(found.run)) {
        void found.run.cancel(`stopped by "${caller.id}"`)
        await Promise.all([endOf(found.run), found.team.flush().catch(() => {})]) // no restart goes on with it then
      }
      return new Response(null, { status: 204 })
    },
  } satisfies Partial<Handlers>
}

type ChatCall = Call<Routes['chat']>

interface Chat {
  readonly id: string
  readonly caller: Caller
  readonly served: ServedTeam
}

const nameOf = ({ caller, served, id }: Chat): string[] => [caller.id, served.name, id]

/**
 * Thread of a chat. Where a message is answered anew, or is another one, a branch begins: a thread of its own, with
 * what was said before it.
 */
const threadOf = (chat: string, branch: number): string => (branch === 0 ? chat : `${chat}~${branch}`)

/** Id of the run that begins a branch. */
const branchId = (chat: Chat, branch: number): string => v5(JSON.stringify([...nameOf(chat), branch]), CHATS)

const messageOfUser = ({ run }: FoundTask): string => run.metadata[CHAT_MESSAGE] ?? `query_${run.id}`

/** Returns the runs before the one that answers a message. */
function before(runs: FoundTask[], message: string): FoundTask[] {
  const at = runs.findIndex((run) => messageOfUser(run) === message)
  return at < 0 ? runs : runs.slice(0, at)
}

/** Resolves to the conversation of these runs. */
async function saidBefore(runs: readonly FoundTask[]): Promise<ModelMessage[]> {
  const ends = await Promise.all(runs.map(({ run }) => knownEndOf(run)))
  return ends.flatMap((end) => (end && 'messages' in end ? end.messages : []))
}

const askedIn = (found: FoundTask): UiMessage => ({
  id: messageOfUser(found),
  role: 'user',
  parts: [{ type: 'text', text: found.run.query }],
})

/** Returns the place in the log up to which a client has a message of the team, as its metadata say. */
function afterIn({ metadata }: ChatMessage, path: string): number {
  const { after } = Object(Object(metadata).dramatis) as { after?: unknown }
  if (typeof after === 'string') return readPosition(after).seq
  throw refused(`${path}.metadata.dramatis.after`, 'Send the message of the team with the metadata that it came with.')
}

/** Returns what a person has answered to the approvals of a message. Each id names what was shown, by its digest. */
function approvalsIn({ parts }: ChatMessage) {
  return parts.flatMap(({ state, approval }) => {
    const { id, approved, reason } = Object(approval) as { id?: unknown; approved?: unknown; reason?: unknown }
    if (state !== 'approval-responded' || typeof id !== 'string') return []
    const [questionId = '', digest] = id.split('.')
    const no = { approved: false as const, ...(typeof reason === 'string' && { reason }) }
    return [{ questionId, answer: approved === true ? { approved: true as const } : no, digest }]
  })
}

/** Checks for a run that goes on, or has ended no longer than that ago. */
async function isFresh({ run }: FoundTask, ms: number): Promise<boolean> {
  if (!isOver(run)) return true
  const end = await knownEndOf(run)
  const ended = run.startedAt + (end && 'executionTimeMs' in end ? end.executionTimeMs : 0)
  return systemClock.now() - ended < ms
}

/** Resolves when a question is open, if it may be yet: a turn that a restart has cut off asks again when it goes on. */
async function untilAsked({ run }: FoundTask, questionId: string, signal: AbortSignal): Promise<void> {
  const isOpen = () => run.questions.some((question) => question.questionId === questionId)
  for (const late = systemClock.monotonic() + REASKED_MS; !isOpen(); await systemClock.sleep(PAUSE_MS, signal)) {
    let isAsked = false
    for await (const event of run.events({ types: ['question', 'question.closed'], follow: false }))
      if ('questionId' in event && event.questionId === questionId) isAsked = event.type === 'question'
    if (!isAsked || isOver(run) || systemClock.monotonic() > late) return
  }
}

/** A question that is not open any more was answered by the same request, which is sent again, or elsewhere. */
function unlessClosed(error: unknown): void {
  if (!(error instanceof HttpError) || error.code !== 'CONFLICT') throw error
}
