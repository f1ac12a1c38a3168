/** Records of a task: its messages, its trace, its blackboard. */
import type { z } from 'zod'
import { mediaOf } from '../../actors/definition/content.ts'
import {
  type AgentMessage,
  type BlackboardEntry,
  type MediaPart,
  type OrchestrationTrace,
  sequenceDiagram,
} from '../../index.ts'
import { referenceIn } from '../../mailbox/stored-parts.ts'
import { nextTurn } from '../../timers.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import { entryOf, runPage } from '../run-page/run-page.ts'
import { type Handlers, json } from './call.ts'
import { isoTime } from './iso-time.ts'
import { shownMessage } from './message-view.ts'
import { HttpError } from './problem.ts'
import { knownEndOf } from './run-ends.ts'
import type { taskMessage } from './schemas.ts'
import { type FoundTask, taskOf } from './task-view.ts'
import { digestFrames } from './watch-handlers.ts'

type ShownMessage = z.infer<typeof taskMessage>
type Own =
  | 'taskMessages'
  | 'taskMessage'
  | 'taskPart'
  | 'taskTrace'
  | 'taskContributions'
  | 'taskBoard'
  | 'boardHistory'

/** Characters of a page of messages, about. */
const MOST_CHARACTERS = 2 ** 20
/** Messages after which others have a turn of the process. */
const AT_A_TIME = 100

export const recordHandlers: Pick<Handlers, Own> = {
  async taskMessages({ task, query: { agent, type, q, after, limit } }) {
    const text = q?.toLowerCase()
    const isWanted = (message: AgentMessage) =>
      (agent === undefined || message.sender === agent || [message.recipient].flat().includes(agent)) &&
      (type === undefined || message.type === type) &&
      (text === undefined || message.content.toLowerCase().includes(text))
    const messages: ShownMessage[] = []
    let characters = 0
    for await (const { message, eventId } of messagesOf(task, after)) {
      if (!isWanted(message)) continue
      if (messages.length === limit || characters > MOST_CHARACTERS)
        return json({ messages, next: messages.at(-1)!.eventId })
      const shown = { ...shownMessage(message), eventId }
      characters += JSON.stringify(shown).length
      messages.push(shown)
    }
    return json({ messages, next: null })
  },

  async taskMessage({ task, params }) {
    for await (const { message, eventId } of messagesOf(task))
      if (message.id === params.messageId) return json({ ...shownMessage(message, Number.POSITIVE_INFINITY), eventId })
    const detail = `The task has no message "${params.messageId!.slice(0, 255)}", or its log has given it up.`
    throw new HttpError('NOT_FOUND', detail)
  },

  async taskPart({ task, params }) {
    for await (const { message } of messagesOf(task)) {
      const part = message.parts?.find((each) => referenceIn(each)?.hash === params.hash)
      if (part && part.type !== 'text') return bytesResponse(part)
    }
    const detail = `No message of the task has a part "${params.hash!.slice(0, 255)}", or its log has given it up.`
    throw new HttpError('NOT_FOUND', detail)
  },

  async taskTrace({ task, query: { as } }) {
    const { team, run } = task
    if (as === 'json') return json(shownTrace(run.trace))
    if (as === 'html') return pageOf(task)
    if (as === 'digest') {
      const lines: string[] = []
      for await (const line of digestFrames(team.digestOf(run.id), 'ndjson')) lines.push(line)
      return new Response(lines.join(''), { headers: { 'content-type': 'application/x-ndjson; charset=utf-8' } })
    }
    const headers = { 'content-type': 'text/vnd.mermaid; charset=utf-8' }
    return new Response(sequenceDiagram(run.trace), { headers })
  },

  async taskContributions({ task: { run } }) {
    const end = await knownEndOf(run)
    if (!end) throw new HttpError('CONFLICT', `Task "${run.id}" is not over: its answer is not there yet.`)
    return json('contributions' in end ? end.contributions : { agents: {}, sentences: [], basis: [], unattributed: 0 })
  },

  taskBoard({ task, query: { type, author, key } }) {
    const filter = { ...(type && { entryType: type }), ...(author && { author }), ...(key && { key }) }
    return json({ entries: boardOf(task).query(filter).map(shownEntry) })
  },

  boardHistory({ task, params }) {
    const entries = boardOf(task).getHistory(params.key!).map(shownEntry)
    if (entries.length > 0) return json({ entries })
    throw new HttpError('NOT_FOUND', `The blackboard has no entry "${params.key!.slice(0, 255)}".`)
  },
}

const shownEntry = (entry: BlackboardEntry) => ({ ...entry, timestamp: isoTime(entry.timestamp) })

function shownTrace({ events, decisions, agentActivations, messageFlow, ...rest }: OrchestrationTrace) {
  const stamped = <T extends { timestamp: number }>(each: T) => ({ ...each, timestamp: isoTime(each.timestamp) })
  return {
    ...rest,
    events: events.map(stamped),
    decisions: decisions.map(stamped),
    agentActivations: agentActivations.map((each) => ({
      ...each,
      startedAt: isoTime(each.startedAt),
      endedAt: isoTime(each.endedAt),
    })),
    messageFlow: messageFlow.map((each) => ({ ...each, at: isoTime(each.at) })),
  }
}

/** The page runs no code, wherever it is opened: a browser that shows it from here gives it no origin. */
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}
/** Characters of messages on a page, about. */
const MOST_ON_PAGE = 8 * 2 ** 20

/** Answers with a run as one page. */
async function pageOf(task: FoundTask): Promise<Response> {
  const fold = new DigestFold()
  for await (const line of task.team.digestOf(task.run.id)) fold.read(line)
  const contents = new Map<number, string>()
  let characters = 0
  for await (const { message, seq } of messagesOf(task)) {
    if (characters > MOST_ON_PAGE) break
    contents.set(entryOf(seq), message.content)
    characters += message.content.length
  }
  return new Response(runPage({ task: await taskOf(task), fold, contents }), { headers: PAGE_HEADERS })
}

/**
 * Answers with the bytes of a part. The message says what they are. Agents write that, so no browser may take the bytes
 * for a page of this service.
 *
 * @throws PartLostError if the bytes are gone.
 */
function bytesResponse(part: MediaPart): Response {
  const media = mediaOf(part)
  if ('url' in media) throw new HttpError('NOT_FOUND', 'The part is a URL.')
  return new Response(Buffer.from(media.base64, 'base64'), {
    headers: {
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment',
      'x-content-type-options': 'nosniff',
    },
  })
}

/** @throws HttpError if the team has no blackboard. */
function boardOf({ name, run }: FoundTask) {
  const board = run.board()
  if (board) return board
  throw new HttpError('NOT_FOUND', `Team "${name}" has no blackboard (enableBlackboard).`)
}

/** Yields the messages of a task until now. Long logs are read in pieces. */
async function* messagesOf(
  { team, run }: FoundTask,
  after?: string,
): AsyncGenerator<{ message: AgentMessage; eventId: string; seq: number }> {
  let read = 0
  for await (const event of run.events({ types: ['message'], follow: false, ...(after !== undefined && { after }) })) {
    if (event.type !== 'message') continue
    yield { message: event.message, eventId: `${team.logName}.${event.seq}`, seq: event.seq }
    read += 1
    if (read % AT_A_TIME === 0) await nextTurn()
  }
}
