/** Records of a task: its messages, its trace, its blackboard. */
import { posix } from 'node:path'
import type { z } from 'zod'
import { mediaOf } from '../../actors/definition/content.ts'
import { NO_TOKENS } from '../../actors/definition/model.ts'
import {
  type AgentInstance,
  type AgentMessage,
  type BlackboardEntry,
  type DeadLetter,
  type Health,
  type MediaPart,
  type Metric,
  type OrchestrationTrace,
  sequenceDiagram,
  type Team,
  type ToolReference,
} from '../../index.ts'
import { referenceIn } from '../../mailbox/stored-parts.ts'
import { counter, gauge, histogram, prometheusText } from '../../runtime/views/prometheus.ts'
import { nextTurn } from '../../shared/timers.ts'
import { own } from '../../shared/values.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import type { HttpSettings } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import { type agent, type agentDetail, type deadLetter, isoTime, type taskMessage } from '../http/schemas.ts'
import type { Unread } from '../http/streams.ts'
import { type FoundTask, knownEndOf, problemIn, type ServedTeam, shownMessage, taskOf } from '../http/task-view.ts'
import { type Call, type Handlers, json, type ServedCluster, type ServedTeams, type Service } from '../http/tasks.ts'
import type { Behind } from './cluster-lists.ts'
import { openApi, type RequestTimes, type Sessions } from './doors.ts'
import { pageFileResponse, pageResponse } from './page-files.ts'
import { entryOf, runPage } from './run-page.ts'
import { digestFrames } from './task-handlers.ts'

type Shown = z.infer<typeof agent>

export const agentHandlers = {
  listAgents({ served, caller: { tenant }, query: { context, progress } }) {
    const { team } = served
    const health = team.health()
    const agents = team.listAgents().map((instance) => {
      const { queued, inFlight, lastBeatMs, usage, ...shown } = agentIn(served, instance, health)
      const isOfAll = tenant === undefined // figures of an agent are sums over all tenants
      const now = progress === '1' && instance.getProgress()
      const isTheirs = now && (isOfAll || team.getRun(now.runId, { tenant }))
      return {
        ...shown,
        ...(isOfAll ? { queued, inFlight, lastBeatMs, usage } : { usage: NO_TOKENS }),
        ...(context === '1' && { context: isOfAll ? contextOf(instance) : null }),
        ...(progress === '1' && { progress: isTheirs ? now : null }),
      }
    })
    return json({ agents })
  },

  getAgent: ({ served, params }) => json(detailOf(served, agentOf(served, params.name!))),

  async restartAgent({ served, params }) {
    const { name } = agentOf(served, params.name!)
    await served.team.restartAgent(name)
    return json(shownAgent(served, agentOf(served, name)), 202)
  },

  async sendMessage({ served, params, body: { metadata, ...message } }) {
    const { name } = agentOf(served, params.name!)
    const reply = await served.team.sendMessage({ ...message, ...(metadata && { metadata }), recipient: name })
    return reply ? json(shownMessage(reply, Number.POSITIVE_INFINITY)) : new Response(null, { status: 202 })
  },
} satisfies Partial<Handlers>

/** @throws HttpError if the team has no such agent. */
function agentOf({ team, name: of }: ServedTeam, name: string): AgentInstance {
  const found = team.getAgent(name)
  if (found) return found
  const known = team.listAgents().map((each) => each.name)
  const shown = known.slice(0, 50).join(', ')
  throw new HttpError('UNKNOWN_AGENT', `Team "${of}" has no agent "${name.slice(0, 255)}"; it has ${shown}.`)
}

function shownAgent(served: ServedTeam, instance: AgentInstance): Shown {
  return agentIn(served, instance, served.team.health())
}

function agentIn({ name: team }: ServedTeam, instance: AgentInstance, { agents }: Health): Shown {
  const { name, role } = instance
  const { status, queued, inFlight, restarts, lastBeatMs } = own(agents, name)!
  const description = role.description ?? null
  const usage = instance.getTokenUsage()
  return { name, team, description, status, queued, inFlight, restarts, lastBeatMs, usage }
}

function detailOf(served: ServedTeam, instance: AgentInstance): z.infer<typeof agentDetail> {
  const { model = null, tools = [], capabilities = [] } = instance.role
  return {
    ...shownAgent(served, instance),
    summary: instance.getContextSummary(),
    context: contextOf(instance),
    model,
    tools: tools.map(toolName),
    capabilities: capabilities.map((each) => (typeof each === 'string' ? each : each.name)),
  }
}

function contextOf(instance: AgentInstance): z.infer<typeof agentDetail>['context'] {
  const context = instance.getContext()
  return context ? { ...context } : null
}

/** The name under which a role has a tool; of one in a module, the name of its file. */
function toolName(tool: ToolReference): string {
  if (typeof tool === 'string') return tool
  return 'name' in tool ? tool.name : posix.basename(String(tool.module))
}

export const letterHandlers = {
  listDeadLetters({ served, query }) {
    const { reason, order, after, limit, behind } = query as typeof query & Behind
    const listed = served.team.deadLetters.list()
    const all = order === 'newest' ? listed.toReversed() : listed
    const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
    if (after !== undefined && from === 0)
      throw new HttpError('CONFIGURATION', `after: there is no dead letter "${after.slice(0, 255)}" any more.`)
    const isBehind = ({ at }: DeadLetter) => behind === undefined || (order === 'newest' ? at < behind : at > behind)
    const wanted = all
      .slice(from)
      .filter((letter) => (reason === undefined || letter.reason === reason) && isBehind(letter))
    const page = wanted.slice(0, limit)
    const next = wanted.length > limit ? page.at(-1)!.id : null
    return json({ letters: page.map((letter) => shownLetter(served, letter)), next })
  },

  async replayDeadLetter({ served: { team }, params }) {
    const { runId } = await lettersWith(params.id!, team).replay(params.id!)
    return json({ taskId: team.getRun(runId) ? runId : null }, 202)
  },

  async discardDeadLetter({ served: { team }, params }) {
    lettersWith(params.id!, team).discard(params.id!)
    await team.flush() // it is not there again after a restart
    return new Response(null, { status: 204 })
  },
} satisfies Partial<Handlers>

/** @throws HttpError if there is no such letter. */
function lettersWith(letterId: string, { deadLetters }: Team): Team['deadLetters'] {
  if (deadLetters.list().some(({ id }) => id === letterId)) return deadLetters
  throw new HttpError('NOT_FOUND', `There is no dead letter "${letterId.slice(0, 255)}".`)
}

function shownLetter({ name: team }: ServedTeam, letter: DeadLetter): z.infer<typeof deadLetter> {
  const { id, reason, at, message, errors } = letter
  const instance = `/api/dead-letters/${encodeURIComponent(id)}`
  return {
    id,
    team,
    reason,
    at: isoTime(at),
    message: shownMessage(message),
    errors: errors.map((error) => problemIn(error, instance)),
  }
}

export function pageHandlers({ settings, teams }: Service, sessions: Sessions) {
  return {
    page: ({ request }) => pageResponse(request, settings.basePath),
    pageScript: ({ request }) => pageFileResponse('page.js', request),
    pageStyle: ({ request }) => pageFileResponse('page.css', request),

    getSession({ caller: { id, may } }) {
      const shapes = teams.plans.map((served) => ({
        ...shapeOf(served),
        ...(may.includes('operate') ? placesOf(served, settings.teamFiles) : { file: null, log: null }),
      }))
      const hasPrices = teams.plans.some(({ team, prices }) => prices !== undefined || team.currency !== null)
      return json({ caller: { id, may }, teams: shapes, hasPrices })
    },

    beginSession({ request }) {
      const cookie = sessions.begin(request)
      return new Response(null, { status: 204, headers: cookie === undefined ? {} : { 'set-cookie': cookie } })
    },

    endSession: ({ request }) => new Response(null, { status: 204, headers: { 'set-cookie': sessions.end(request) } }),
  } satisfies Partial<Handlers>
}

/** Returns where a team and its log are on the machine of the service, for those who work there. */
const placesOf = ({ name, team }: ServedTeam, files: HttpSettings['teamFiles']) => ({
  file: own(files, name) ?? null,
  log: team.logPath ?? null,
})

/** Returns a team's strategy, and which agents stand in its options: `{ manager: ['lead'] }`. */
function shapeOf({ name, team }: ServedTeam) {
  const agents = team.listAgents().map((agent) => agent.name)
  const { strategy, ...options } = team.orchestration
  const roles = Object.entries(options).map(([option, value]): [string, string[]] => [
    option,
    [value].flat().filter((each): each is string => typeof each === 'string' && agents.includes(each)),
  ])
  return { name, strategy, agents, roles: Object.fromEntries(roles.filter(([, named]) => named.length > 0)) }
}

export function probeHandlers({ settings, teams, tasks, streams, unread }: Service, times: RequestTimes) {
  let document: object | undefined
  const isLive = () => teams.all.every(({ team }) => team.health().live)
  const isReady = () =>
    !tasks.isDraining &&
    teams.own.every(({ team }) => team.health().ready) &&
    teams.clusters.every(({ team }) => team.isIn)
  const answer = ({ caller }: Call, isWell: boolean): Response => {
    const health = () => ({
      ...Object.fromEntries(teams.own.map(({ name, team }) => [name, team.health()])),
      ...Object.fromEntries(teams.clusters.map(({ name, team }) => [name, { node: team.id, shards: healthOf(team) }])),
    })
    const status = isWell ? 'ok' : 'unavailable'
    const seesAll = caller.may.includes('watch') && caller.tenant === undefined
    return json({ status, ...(seesAll && { teams: health() }) }, isWell ? 200 : 503)
  }
  return {
    live: (call) => answer(call, isLive()),
    ready: (call) => answer(call, isReady()),
    health: (call) => answer(call, isLive() && isReady()),
    metrics() {
      const text = prometheusText([
        ...joined(teams),
        ...clusterMetrics(teams),
        ...httpMetrics(times.samples(), streams.open, unread),
      ])
      return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4' } })
    },
    openapi() {
      document ??= openApi(settings.basePath)
      return json(document)
    },
  } satisfies Partial<Handlers>
}

const healthOf = ({ held }: ServedCluster['team']) =>
  Object.fromEntries(Array.from(held, ([shard, team]) => [shard, team.health()]))

export const httpMetrics = (
  times: Metric['samples'],
  streams: number,
  { bytes, cuts }: Pick<Unread, 'bytes' | 'cuts'> = { bytes: 0, cuts: 0 },
): Metric[] => [
  histogram('http_request_duration', 'Time until the response of a route begins.', times),
  gauge('http_streams', 'Open event streams.', [{ labels: {}, value: streams }]),
  gauge('http_unread_bytes', 'Bytes of answers and streams that clients have not read.', [
    { labels: {}, value: bytes },
  ]),
  counter('http_unread_cuts', 'Answers and streams that were cut since nobody read them.', [
    { labels: {}, value: cuts },
  ]),
]

function clusterMetrics({ clusters }: ServedTeams): Metric[] {
  const samples = clusters.map(({ name, team: { id, held } }) => ({
    labels: { team: name, node: id },
    value: held.size,
  }))
  return samples.length === 0 ? [] : [gauge('cluster_shards', 'Shards that this process holds.', samples)]
}

function joined(teams: ServedTeams): Metric[] {
  const byName = new Map<string, Metric>()
  for (const { name: team, team: served, node, shard } of teams.all)
    for (const metric of served.metrics()) {
      const place = { team, ...(node !== undefined && { node }), ...(shard !== undefined && { shard: String(shard) }) }
      const samples = metric.samples.map((sample) => ({ ...sample, labels: { ...place, ...sample.labels } }))
      const known = byName.get(metric.name)
      if (known) known.samples.push(...samples)
      else byName.set(metric.name, { ...metric, samples })
    }
  return [...byName.values()]
}

type ShownMessage = z.infer<typeof taskMessage>

/** Characters of a page of messages, about. */
const MOST_CHARACTERS = 2 ** 20
/** Messages after which others have a turn of the process. */
const AT_A_TIME = 100

export const recordHandlers = {
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
} satisfies Partial<Handlers>

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
