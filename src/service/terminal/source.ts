/** A team that is watched: in this process, or served somewhere. */

import { setTimeout } from 'node:timers/promises'
import {
  type AgentProgress,
  ConfigurationError,
  type ContextInfo,
  createTeam,
  type Digest,
  type DigestFact,
  type DigestQuestion,
  RunEndedError,
  type Team,
} from '../../index.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import type { SeenCluster } from '../../runtime/cluster/cluster-store.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import type { RuntimeEvent } from '../../runtime/runs/events.ts'
import { SPOKEN, SpokenWords } from '../../runtime/runs/stream-parts.ts'
import { SseFrames } from '../../shared/answers.ts'
import { environment } from '../../shared/environment.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { own } from '../../shared/values.ts'
import type { Takeover } from '../digest/digest-fold.ts'
import { loadEnv, loadTeamFile } from '../shared/load-team-file.ts'
import { withoutEvents } from '../shared/progress.ts'
import type { Print } from '../shared/screen.ts'
import { whoAmI } from '../shared/who-am-i.ts'

interface Seen {
  name: string
  context?: ContextInfo | null
  progress?: AgentProgress | null
}

/** Age of what is shown, in ms, from which on it is asked for again. */
const STALE_MS = 1_000
const ANSWER_MS = 10_000

/** Returns what the service said last of an agent. It is asked again as long as somebody wants to know. */
function agentsOf(remote: Remote, closed: AbortSignal): (name: string) => Seen | undefined {
  const list = `api/agents${queryOf(remote, { context: '1', progress: '1' })}`
  let seen: ReadonlyMap<string, Seen> = new Map()
  let isAsking = false
  let askedAt = Number.NEGATIVE_INFINITY
  const look = async () => {
    isAsking = true
    try {
      const signal = AbortSignal.any([closed, AbortSignal.timeout(ANSWER_MS)])
      const { agents } = (await (await ask(remote, 'GET', list, { signal })).json()) as { agents: Seen[] }
      seen = new Map(agents.map((agent) => [agent.name, agent]))
    } catch {
      seen = new Map() // what is wrong there, the lines of the digest say
    } finally {
      isAsking = false
      askedAt = performance.now()
    }
  }
  return (name) => {
    if (!isAsking && performance.now() - askedAt >= STALE_MS) void look()
    return seen.get(name)
  }
}

interface Remote {
  readonly url: URL
  readonly token: string | undefined
  /** Team of the service; undefined: its first one. */
  readonly team: string | undefined
}

/** Time between two attempts to reach the service again. */
const AGAIN_MS = 1_000

/** Returns a team behind a URL, by default the first. `token`: sent as `Authorization: Bearer`. */
export function remoteSource(url: string, token: string | undefined, team?: string): TeamSource {
  const remote = { url: baseOf(url), token, team }
  const over = new AbortController()
  const agentOf = agentsOf(remote, over.signal)
  const own = new OwnTasks()
  return {
    ...(team !== undefined && { team }),
    watch: (signal) => watched(remote, own, signal),
    async restart(agent) {
      await ask(remote, 'POST', `api/agents/${encodeURIComponent(agent)}/restart${queryOf(remote)}`)
    },
    say: (query, threadId) => talk(remote, own, query, threadId),
    async answer({ runId, questionId, approval }, answer) {
      const body = { questionId, answer, ...(approval && { digest: approval.digest }) }
      await ask(remote, 'POST', `api/tasks/${encodeURIComponent(runId)}/answers`, { body })
    },
    context: (agent) => agentOf(agent)?.context ?? undefined,
    progress: (agent) => agentOf(agent)?.progress ?? undefined,
    close: async () => over.abort(),
  }
}

const baseOf = (url: string): URL => new URL(url.endsWith('/') ? url : `${url}/`)

function queryOf({ team }: Remote, more: Record<string, string> = {}): string {
  const fields = Object.entries({ ...more, ...(team !== undefined && { team }) })
  const query = fields.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')
  return query && `?${query}`
}

/** Time that the service has to say what teams it has. */
const TEAMS_MS = 10_000

/**
 * Returns the teams that a URL names, the one that is meant first. `https://host/desk` is the team `desk` of
 * `https://host`. Rejects for a team that is not there, and when the signal is aborted.
 */
export async function remoteSources(
  url: string,
  token: string | undefined,
  signal?: AbortSignal,
): Promise<[TeamSource, ...TeamSource[]]> {
  const deadline = AbortSignal.timeout(TEAMS_MS)
  const teamsAt = (at: URL) =>
    teamsOf({ url: at, token, team: undefined }, signal ? AbortSignal.any([signal, deadline]) : deadline)
  const { href, origin, pathname } = baseOf(url)
  const here = await teamsAt(new URL(href))
  if (here) return sourcesOf(href, token, here)
  const [, folder = '/', last] = /^(.*\/)([^/]+)\/$/.exec(pathname) ?? []
  const above = new URL(folder, origin)
  const there = last === undefined ? undefined : await teamsAt(above)
  signal?.throwIfAborted()
  if (last === undefined || !there) return [remoteSource(url, token)]
  const named = there.find((name) => encodeURIComponent(name) === last)
  if (named === undefined) {
    const known = there.map((name) => `${above.href}${encodeURIComponent(name)}`).join(', ')
    throw new Error(`There is no team "${last}" at ${above.href}. There are ${known}.`)
  }
  return sourcesOf(above.href, token, [named, ...there.filter((name) => name !== named)])
}

function sourcesOf(href: string, token: string | undefined, names: readonly string[]): [TeamSource, ...TeamSource[]] {
  const [first, ...others] = names.map((name) => remoteSource(href, token, names.length > 1 ? name : undefined))
  return [first ?? remoteSource(href, token), ...others]
}

/** Returns the names of the teams that a service has, as far as the caller may know; undefined: it says none. */
async function teamsOf(remote: Remote, signal: AbortSignal): Promise<string[] | undefined> {
  for (const [path, list, name] of [
    ['session', 'teams', 'name'],
    ['v1/models', 'data', 'id'],
  ] as const) {
    const answer: unknown = await ask(remote, 'GET', path, { signal })
      .then((response) => response.json())
      .catch(() => undefined) // what is wrong there, the first request of the source says
    const listed: unknown = Reflect.get(Object(answer), list)
    const names = Array.isArray(listed) ? listed.map((each) => String(Reflect.get(Object(each), name))) : []
    const teams = names.filter((each) => !each.includes('/')) // "desk/writer" is an agent
    if (teams.length > 0) return teams
  }
  return undefined
}

/** Resolves after that many ms, or when the signal is aborted. */
const pause = (ms: number, signal: AbortSignal): Promise<void> => setTimeout(ms, undefined, { signal }).catch(() => {})

/**
 * Lines of the digest; a service that is gone is tried again, and begins with the state of the team. Who may not watch
 * has lines of the own tasks.
 */
async function* watched(remote: Remote, own: OwnTasks, signal: AbortSignal): AsyncGenerator<Digest> {
  let wasThere = false
  while (!signal.aborted) {
    try {
      const response = await ask(remote, 'GET', `api/watch${queryOf(remote)}`, { accept: 'text/event-stream', signal })
      wasThere = true
      own.isSeen = true
      for await (const { data } of events(response)) yield JSON.parse(data) as Digest
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Refused && error.status === 403) return yield* own.lines(signal)
      if (!wasThere) throw error
    }
    await pause(AGAIN_MS, signal)
  }
}

/** Events of one's own tasks that a conversation needs, as facts of the digest. */
class OwnTasks {
  /** True if the service shows all of the team. */
  isSeen = false
  #facts: DigestFact[] = []
  #wake = () => {}

  tell(type: string, { at, answerBy, ...said }: Record<string, unknown>): void {
    if (this.isSeen || !/^(question|steer|run)\b/.test(type)) return
    const time = {
      at: Date.parse(String(at)),
      ...(answerBy !== undefined && { answerBy: Date.parse(String(answerBy)) }),
    }
    this.#facts.push({ seq: 0, ...said, ...time, type, runId: String(said.runId) })
    this.#wake()
  }

  async *lines(signal: AbortSignal): AsyncGenerator<Digest> {
    while (!signal.aborted) {
      const facts = this.#facts.splice(0)
      if (facts.length > 0) yield { seq: 0, at: facts.at(-1)!.at, n: 0, facts }
      else
        await unlessAborted(
          signal,
          new Promise<void>((resolve) => {
            this.#wake = resolve
          }),
        ).catch(() => {}) // it is left
    }
  }
}

function talk(remote: Remote, own: OwnTasks, query: string, threadId: string): Talk {
  const over = new AbortController()
  const { signal } = over
  const accept = 'text/event-stream'
  let id: string | undefined
  return {
    get runId() {
      return id
    },
    said: (async function* (): AsyncGenerator<Said> {
      const body = { query, threadId, ...(remote.team !== undefined && { team: remote.team }) }
      let response = await ask(remote, 'POST', 'api/tasks?deltas=1', { accept, body, signal })
      const words = new SaidWords()
      for (let isCut = false; ; isCut = true) {
        try {
          for await (const { event, data } of events(response)) {
            const said = Object(JSON.parse(data)) as Record<string, unknown>
            if (event === 'task') id ??= String(said.id)
            own.tell(event, said)
            const type = SAID.find((name) => name === event)
            if (type && (!isCut || type === 'run.finished')) yield* words.of({ ...said, type } as RuntimeEvent<unknown>)
            if (event === 'run.finished') return yield ending(said.result)
          }
        } catch (error) {
          if (signal.aborted || id === undefined) throw error
        }
        if (id === undefined) throw new Error(`${remote.url.href} has ended its answer before it began. Ask again.`)
        response = await again(remote, `api/tasks/${encodeURIComponent(id)}/events`, { accept, signal })
      }
    })(),
    async steer(words, how) {
      if (id === undefined) throw new Error('The service has not taken the message before it yet. Say it again.')
      const path = `api/tasks/${encodeURIComponent(id)}/steer`
      return ask(remote, 'POST', path, { body: { words, ...how } }).then(taken, unlessEnded)
    },
    async stop() {
      try {
        if (id !== undefined) await ask(remote, 'DELETE', `api/tasks/${encodeURIComponent(id)}`)
      } finally {
        over.abort() // also where the service does not answer: nobody waits for it any more
      }
    },
  }
}

/** Asks until there is an answer: the service may be restarted. Rejects for what is refused, as an unknown task is. */
async function again(remote: Remote, path: string, { signal, ...request }: Request & { signal: AbortSignal }) {
  for (;;) {
    await pause(AGAIN_MS, signal)
    try {
      return await ask(remote, 'GET', path, { ...request, signal })
    } catch (error) {
      if (signal.aborted || !(error instanceof Error && error.cause)) throw error // else nobody answers yet
    }
  }
}

/** Types of the events that a conversation shows. */
const SAID = [...SPOKEN, 'speaker'] as const

/** Words of who speaks, as a terminal shows them, and who that is once it is another. */
class SaidWords {
  readonly #words = new SpokenWords()

  of(event: RuntimeEvent<unknown>): Said[] {
    if (event.type !== 'speaker') return this.#words.of(event).map((text) => ({ text }))
    return event.from === null ? [] : [{ text: '', speaker: event.agent }]
  }
}

function ending(result: unknown): Said {
  const { success, finalOutput, error } = Object(result) as Record<string, unknown>
  if (success === true) return { end: 'answer', text: String(finalOutput) }
  return { end: 'failure', text: String((Object(error) as { message?: unknown }).message) }
}

interface Request {
  accept?: string
  body?: object
  signal?: AbortSignal
}

class Refused extends Error {
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

const taken = () => true

/** Returns false for words to a run that has ended. Throws other errors. */
function unlessEnded(error: unknown): false {
  if (error instanceof RunEndedError || (error instanceof Refused && error.status === 409)) return false
  throw error
}

async function ask(
  { url, token }: Remote,
  method: string,
  path: string,
  { accept = 'application/json', body, signal }: Request = {},
): Promise<Response> {
  const response = await fetch(new URL(path, url), {
    method,
    headers: {
      accept,
      ...(body && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch((error: unknown) => {
    throw signal?.aborted ? error : new Error(noAnswer(url, error), { cause: error })
  })
  if (response.ok) return response
  const text = await response.text()
  throw new Refused(`${method} ${new URL(path, url).href}: ${response.status} ${detailOf(text)}`, response.status)
}

function noAnswer({ href }: URL, error: unknown): string {
  const { cause } = Object(error) as { cause?: unknown }
  const { message, code } = Object(cause) as { message?: unknown; code?: unknown }
  const why = message || code || (error instanceof Error ? error.message : error)
  return `${href} does not answer: ${String(why)}. Is a team served there? "dramatis serve" says its address.`
}

function detailOf(text: string): string {
  try {
    const { detail, title } = Object(JSON.parse(text)) as Record<string, unknown>
    return String(detail ?? title ?? text)
  } catch {
    return text.slice(0, 200)
  }
}

async function* events({ body }: Response): AsyncGenerator<{ event: string; data: string }> {
  const frames = new SseFrames()
  for await (const chunk of body ?? [])
    for (const frame of frames.take(chunk as Uint8Array)) {
      const lines = Buffer.from(frame)
        .toString('utf8')
        .split(/\r\n|\n|\r/)
      const field = (name: string) =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''))
      yield { event: field('event')[0] ?? 'message', data: field('data').join('\n') }
    }
}

export interface Said {
  text: string
  /** Set if another agent speaks from now on: its name. */
  speaker?: string
  /** Set in the last piece, whose text is all of the answer, or why there is none. */
  end?: 'answer' | 'failure'
}

export interface Talk {
  /** Id of its run; undefined as long as a service has not told it. */
  readonly runId: string | undefined
  readonly said: AsyncIterable<Said>
  /** Says words with that id to the run while it works. Resolves to false if it has ended. */
  steer(words: string, how: { id: string; when: 'next' | 'interrupt' }): Promise<boolean>
  stop(): Promise<void>
}

export interface Move extends Takeover {
  /** Times that the shard was taken. */
  readonly taken: number
}

/** A cluster as its engine told it last. */
export interface ClusterSight extends SeenCluster {
  /** Those since it is looked at, the last one first. */
  readonly moves: readonly Move[]
  /** Why the engine has told nothing since. */
  readonly failure: string | undefined
}

export interface TeamSource {
  /** Name of the team where it is one of several that are served. */
  readonly team?: string
  watch(signal: AbortSignal): AsyncIterable<Digest>
  restart(agent: string): Promise<void>
  say(query: string, threadId: string): Talk
  /** Answers a question as it was shown. */
  answer(question: DigestQuestion, answer: string): Promise<void>
  /** Returns the figures of an agent's context, where they are at hand. */
  context(agent: string): ContextInfo | undefined
  /** Returns how far an agent is with its turn, where that is at hand. */
  progress(agent: string): AgentProgress | undefined
  /** Returns what the engine of the team's cluster tells, where it is looked at. */
  cluster?(): ClusterSight
  close(): Promise<void>
}

/** A team of this process, which is closed with the source. */
export function localSource(team: Team): TeamSource {
  return {
    watch: (signal) => team.watch({ signal }),
    restart: (agent) => team.restartAgent(agent),
    say(query, threadId) {
      const run = team.launch(query, { threadId })
      return {
        runId: run.id,
        said: (async function* (): AsyncGenerator<Said> {
          const said = new SaidWords()
          for await (const event of run.events({ types: [...SAID] })) yield* said.of(event)
          const result = await run.result
          if (result.success) yield { end: 'answer', text: result.finalOutput }
          else yield { end: 'failure', text: result.error.message }
        })(),
        steer: (words, how) => run.steer(words, { ...how, by: { id: whoAmI() } }).then(taken, unlessEnded),
        stop: () => run.cancel('stopped at the terminal'),
      }
    },
    async answer({ runId, questionId, approval }, answer) {
      const who = approval && { by: { id: whoAmI() }, digest: approval.digest }
      await team.getRun(runId)?.answer(questionId, answer, who)
    },
    context: (agent) => team.getAgent(agent)?.getContext(),
    progress: (agent) => team.getAgent(agent)?.getProgress(),
    close: () => team.close(),
  }
}

interface Options {
  folder: string
  tokenEnv: string | undefined
  /** Takes the lines of the team's log. */
  print: Print
  /** Aborted when nobody waits for the team any more. */
  signal: AbortSignal
}

/** Returns the team that is meant, then those that are served beside it. */
export async function openSources(
  target: string,
  { folder, tokenEnv, print, signal }: Options,
): Promise<[TeamSource, ...TeamSource[]]> {
  loadEnv(folder)
  if (/^https?:\/\//.test(target))
    return remoteSources(target, tokenEnv === undefined ? undefined : tokenIn(tokenEnv), signal)
  const definition = inFlowMode(await unlessAborted(signal, loadTeamFile(target, folder)), environment().FLOW_MODE)
  const team = createTeam({ ...definition, logger: definition.logger ?? withoutEvents(lineLogger(print)) })
  return [localSource(team)]
}

export function tokenIn(name: string): string {
  const token = own(environment(), name)
  if (token) return token
  const text = `--token-env: the variable ${name} is not set; it has to have the token of the service.`
  throw new ConfigurationError(text, { path: '--token-env', got: name })
}
