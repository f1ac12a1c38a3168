/**
 * Chats. A chat is a thread of its caller, and each message of the user a run in it, whose id follows from the message:
 * who sends it again joins the run. So nothing of a chat is kept here.
 */
import { createHash } from 'node:crypto'
import { v5 } from 'uuid'
import type { Content } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../index.ts'
import { BODY_HASH } from '../../runtime/host/run.ts'
import { type EventPosition, readPosition } from '../../runtime/runs/events.ts'
import { systemClock } from '../../shared/clock.ts'
import { type ChatMessage, MOST_ANSWERS, queryIn, textIn } from '../http/chat-request.ts'
import { refused } from '../http/openai-request.ts'
import type { Caller } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import type { Routes } from '../http/routes.ts'
import { type FoundTask, isOver, knownEndOf, type ServedTeam } from '../http/task-view.ts'
import {
  answerAs,
  beginOnce,
  type Call,
  cancelled,
  type Handlers,
  json,
  noThread,
  OF_BRANCHES,
  type Service,
  written,
} from '../http/tasks.ts'
import { agUiFrames, answeredIn } from './ag-ui.ts'
import { AI_SDK_HEADERS, framesOf, messageOf, runIdOf, type UiMessage } from './ai-sdk.ts'

/** Field of the metadata of a run: id of the message of the user that it answers. */
export const CHAT_MESSAGE = 'chatMessage'

/** Namespace of the ids of runs that answer messages of chats. */
const CHATS = '0d9c2f4e-7f0b-4d6a-9a53-31c1be0f8a6e'
/** Branches of a chat: each is looked at whenever its client asks for something. */
const MOST_BRANCHES = 50

export function chatHandlers({ settings, teams, tasks, keys, streams }: Service) {
  const streamed = (
    { caller, run }: FoundTask,
    request: Request,
    frames: (signal: AbortSignal) => AsyncIterable<string>,
    headers: Record<string, string> = {},
  ): Response => {
    tasks.returned(run.id) // another stream of it may have been closed meanwhile
    return streams.respond({
      request,
      caller,
      form: 'sse',
      headers,
      frames,
      runId: run.id,
      left() {
        if (settings.onDisconnect === 'cancel') tasks.leave(run)
      },
    })
  }

  const asMessage = (found: FoundTask, request: Request, after?: number): Response =>
    streamed(found, request, (signal) => framesOf(found, { after, signal }), AI_SDK_HEADERS)

  const find = (id: string, caller: Caller) =>
    tasks.find(id, caller, []).catch((error: unknown) => {
      if (error instanceof HttpError && error.code === 'NOT_FOUND') return undefined
      throw error
    })

  /**
   * Returns the run that has begun each branch of a chat, in order; undefined for one that is forgotten, since the
   * conversation of a branch outlives its runs. The id of each is known, so no list is searched.
   */
  const branchesOf = async (chat: Chat): Promise<(FoundTask | undefined)[]> => {
    const branches: (FoundTask | undefined)[] = []
    for (;;) {
      const next = branches.length + 1
      const found = await find(branchId(chat, next), chat.caller)
      if (!found && !(await chat.served.team.thread(threadOf(chat, next)))) return branches
      branches.push(found)
    }
  }

  const runsIn = async (chat: Chat, branch: number, limit?: number): Promise<FoundTask[]> => {
    const { served, caller } = chat
    const runs = await served.team.listRuns({ threadId: threadOf(chat, branch), caller: caller.id, limit })
    const found = await Promise.all(runs.map((run) => find(run.id, caller)))
    return found.filter((run) => run !== undefined)
  }

  const newest = async (chat: Chat): Promise<FoundTask | undefined> =>
    (await runsIn(chat, (await branchesOf(chat)).length, 1))[0]

  /** Returns the runs of a chat as its client has them, the oldest first. `limit`: the newest ones are enough. */
  const runsOf = async (chat: Chat, branches: (FoundTask | undefined)[], limit?: number): Promise<FoundTask[]> => {
    let runs: FoundTask[] = []
    for (let branch = 0; branch <= branches.length; branch++) {
      const first = branches[branch - 1]
      runs = first ? before(runs, messageOfUser(first)) : [] // what was before a run that is forgotten is older still
      // A branch may replace messages that are older than the newest ones.
      runs.push(...(await runsIn(chat, branch, branches.length === 0 ? limit : undefined)).reverse())
    }
    return runs
  }

  /** Begins the run that answers a message, or joins it. */
  const begin = async (chat: Chat, { request, messageId, query, isAgain, isOther }: Said): Promise<FoundTask> => {
    const { caller, served } = chat
    const hash = createHash('sha256').update(JSON.stringify(query)).digest('base64')
    const branches = await branchesOf(chat)
    const runs = isAgain || isOther ? await runsOf(chat, branches) : []
    const begun = runs.findLast((run) => messageOfUser(run) === messageId)
    // A run that is under way is joined: a request that is sent again cannot be told from another one.
    if (begun && begun.run.metadata[BODY_HASH] === hash && !(isAgain && isOver(begun.run))) return begun
    const branch = branches.length + (begun ? 1 : 0)
    if (branch > MOST_BRANCHES) throw tooManyBranches()
    const id = begun ? branchId(chat, branch) : v5(JSON.stringify([...nameOf(chat), messageId, hash]), CHATS)
    const keyed = { id, hash }
    const options = {
      threadId: threadOf(chat, branch),
      stream: true,
      metadata: { [CHAT_MESSAGE]: messageId },
      ...(begun && { messages: await saidIn(before(runs, messageId), branches) }),
    }
    const start = { served, query, options, caller, request, keyed, isBranch: branch > 0 }
    const found = await beginOnce({ tasks, keys }, start).catch(unlessForgotten)
    await written(found) // a client that is cut off behind the first words finds it
    return found
  }

  /** Gives the answers that the last message of the team has, and goes on behind what it has of its run. */
  const goOn = async ({ request, caller, body }: ChatCall, message: ChatMessage, at: number): Promise<Response> => {
    const { log, seq } = afterIn(message, `messages[${at}]`)
    const given = [...approvalsIn(message), ...(body.answers ?? [])]
    assertOnce(given, 'messages')
    const found = await tasks.find(runIdOf(message.id) ?? message.id, caller, [])
    for (const each of given) await answerOnce(found, each, request.signal)
    return asMessage(found, request, log === found.team.logName ? seq : undefined)
  }

  return {
    async chat(call) {
      const at = call.body.messages.length - 1
      const message = call.body.messages[at]!
      if (message.role === 'assistant') return goOn(call, message, at)
      if (message.role === 'system') throw refused(`messages[${at}].role`, 'The last message is of the user.')
      const { request, caller, served, body } = call
      const found = await begin(
        { caller, served, id: body.id },
        {
          request,
          messageId: message.id,
          query: queryIn(message, `messages[${at}]`),
          isAgain: body.trigger === 'regenerate-message',
          isOther: body.messageId === message.id,
        },
      )
      return asMessage(found, request)
    },

    async getChat({ params, caller, served, query: { limit } }) {
      const chat = { served, caller, id: params.id! }
      const runs = (await runsOf(chat, await branchesOf(chat), limit)).slice(-limit)
      if (runs.length === 0) throw noThread(params.id!)
      const messages: UiMessage[] = []
      for (const found of runs) messages.push(askedIn(found), await messageOf(found))
      return json({ id: params.id!, messages })
    },

    async resumeChat({ request, params, caller, served }) {
      const found = await newest({ served, caller, id: params.id! })
      // A client that was cut off just before the end has a part of the message alone.
      const isHeld = found && (await isFresh(found, settings.limits.disconnectGraceMs))
      return isHeld ? asMessage(found, request) : new Response(null, { status: 204 })
    },

    async stopChat({ params, caller, served }) {
      const chat = { served, caller, id: params.id! }
      // Also what another message has replaced: its approvals could still be answered.
      for (let branch = (await branchesOf(chat)).length; branch >= 0; branch--)
        for (const { run } of await runsIn(chat, branch)) {
          if (isOver(run)) continue
          await cancelled({ run, team: served.team }, `stopped by "${caller.id}"`)
        }
      return new Response(null, { status: 204 })
    },

    async runAgUi({ request, params, caller, body }) {
      const { threadId, runId, messages, resume = [] } = body
      const told = resume.map(answeredIn)
      assertOnce(
        told.map(({ given }) => given),
        'resume',
      )
      if (told[0]) {
        const found = await tasks.find(told[0].runId, caller, [])
        for (const each of told) await answerOnce(await tasks.find(each.runId, caller, []), each.given, request.signal)
        const after = told[0].after
        return streamed(found, request, (signal) => agUiFrames(found, { threadId, runId }, { after, signal }))
      }
      const at = messages.findLastIndex(({ role }) => role === 'user')
      const message = messages[at]
      if (!message) throw refused('messages', 'There is none of a user.')
      const query = textIn(message, `messages[${at}]`)
      const chat = { caller, served: teams.named(params.team), id: threadId }
      const found = await begin(chat, { request, messageId: message.id, query, isAgain: false, isOther: false })
      // A client that has a part of the answer drops it: all of it comes once more.
      const kept = at < messages.length - 1 ? messages.slice(0, at + 1) : undefined
      return streamed(found, request, (signal) => agUiFrames(found, { threadId, runId, messages: kept }, { signal }))
    },
  } satisfies Partial<Handlers>
}

type ChatCall = Call<Routes['chat']>

type Answer = Parameters<typeof answerAs>[2]

/** Message of a user. */
interface Said {
  readonly request: Request
  readonly messageId: string
  readonly query: string | Content
  /** True if it is to be answered anew. */
  readonly isAgain: boolean
  /** True if it takes the place of the message that had its id. */
  readonly isOther: boolean
}

interface Chat {
  readonly id: string
  readonly caller: Caller
  readonly served: ServedTeam
}

const nameOf = ({ caller, served, id }: Chat): string[] => [caller.id, served.name, id]

/**
 * Thread of a chat. Where a message is answered anew, or is another one, a branch begins: a thread of its own, with
 * what was said before it, which no other request names.
 */
const threadOf = (chat: Chat, branch: number): string =>
  branch === 0 ? chat.id : `${OF_BRANCHES}${branchId(chat, branch)}`

/** Id of the run that begins a branch. */
const branchId = (chat: Chat, branch: number): string => v5(JSON.stringify([...nameOf(chat), branch]), CHATS)

const messageOfUser = ({ run }: FoundTask): string => run.metadata[CHAT_MESSAGE] ?? `query_${run.id}`

/** Returns the runs before the one that answers a message. */
function before(runs: FoundTask[], message: string): FoundTask[] {
  const at = runs.findIndex((run) => messageOfUser(run) === message)
  return at < 0 ? runs : runs.slice(0, at)
}

/** Resolves to the conversation of these runs. One that begins a branch has what was said before it. */
async function saidIn(
  runs: readonly FoundTask[],
  branches: readonly (FoundTask | undefined)[],
): Promise<ModelMessage[]> {
  let said: ModelMessage[] = []
  for (const { run } of runs) {
    const end = await knownEndOf(run)
    const own = end && 'messages' in end ? end.messages : []
    said = branches.some((first) => first?.run.id === run.id) ? own : [...said, ...own]
  }
  return said
}

const askedIn = (found: FoundTask): UiMessage => ({
  id: messageOfUser(found),
  role: 'user',
  parts: [{ type: 'text', text: found.run.query }],
})

/** Returns the place in the log up to which a client has a message of the team, as its metadata say. */
function afterIn({ metadata }: ChatMessage, path: string): EventPosition {
  const { after } = Object(Object(metadata).dramatis) as { after?: unknown }
  if (typeof after === 'string') return readPosition(after)
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

/** @throws HttpError for more answers than are taken, and for two to one question. */
function assertOnce(given: readonly { questionId: string }[], path: string): void {
  if (given.length > MOST_ANSWERS) throw refused(path, `${given.length} answers; accepted are ${MOST_ANSWERS}.`)
  if (new Set(given.map(({ questionId }) => questionId)).size < given.length)
    throw refused(path, 'A question is answered twice. Send one answer to each.')
}

const tooManyBranches = (): HttpError =>
  new HttpError(
    'CONFLICT',
    `id: messages of this chat were answered anew or changed ${MOST_BRANCHES} times, which is all that is taken. Begin another chat.`,
  )

/** Checks for a run that goes on, or has ended no longer than that ago. */
async function isFresh({ run }: FoundTask, ms: number): Promise<boolean> {
  if (!isOver(run)) return true
  const end = await knownEndOf(run)
  const ended = run.startedAt + (end && 'executionTimeMs' in end ? end.executionTimeMs : 0)
  return systemClock.now() - ended < ms
}

/** Gives an answer that may have arrived already, also where a restart has its question asked again. */
export async function answerOnce(found: FoundTask, given: Answer, signal: AbortSignal): Promise<void> {
  await answerAs(found.caller, found, given, signal).catch(unlessClosed)
}

/** Says in words of chats that a message was answered, and its answer is not kept. */
function unlessForgotten(error: unknown): never {
  if (!(error instanceof HttpError) || error.code !== 'CONFLICT') throw error
  throw new HttpError('CONFLICT', 'messages: the answer to the last one is not kept any more. Send it with a new id.')
}

/** A question that is not open any more was answered by the same request, which is sent again, or elsewhere. */
function unlessClosed(error: unknown): void {
  if (!(error instanceof HttpError) || error.code !== 'CONFLICT') throw error
}
