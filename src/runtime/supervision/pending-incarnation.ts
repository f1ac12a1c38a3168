/**
 * A thread on its way to become an agent: it loads the agent's code, then it starts. An agent that begins has one, and
 * so has an agent that is being reloaded, beside the incarnation that it has.
 */
import type {
  AgentCode,
  AssignedTools,
  Assignment,
  CodeAssignment,
  Newcomer,
  Started,
} from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/tool.ts'
import { jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { mostOpenTurns } from '../../mailbox/channel.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { environment } from '../../shared/environment.ts'
import {
  AgentCrashedError,
  type DramatisError,
  describe,
  errorData,
  errorFrom,
  StartFailedError,
} from '../../shared/errors.ts'
import { picked } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { Incarnation } from '../host/incarnation.ts'
import type { Redactor } from '../logging/redactor.ts'
import { guardedBy } from '../settings/role-shape.ts'
import { importFailure } from '../threads/bundle-cache.ts'
import { FENCE_MS } from '../threads/thread.ts'
import type { Exits } from './exits.ts'
import type { Owners } from './owners.ts'

/** Limit on the posts of one thread: nobody reads them, but they keep the host busy. */
const MOST_POSTS = 2_000

function codeAssignmentOf(
  { settings }: Agent,
  code: AgentCode,
  tools: AssignedTools,
  redactor: Redactor,
): CodeAssignment {
  const { info: role, option, instances } = settings
  const env = picked(environment(), settings.env)
  const keys = Object.entries(env).flatMap(([name, value]) => (redactor.knows(value) ? [name] : []))
  return { role, option, instances, env, keys, code, tools }
}

function assignmentOf(
  { clock, directory, journal, redactor, team }: Core,
  agent: Agent,
  incarnation: Incarnation,
  code: AgentCode,
  tools: AssignedTools,
): Assignment {
  return {
    ...codeAssignmentOf(agent, code, tools, redactor),
    index: agent.index,
    epoch: incarnation.epoch,
    names: directory.names,
    channel: incarnation.channel.buffer,
    team: team.buffer,
    state: agent.state === undefined ? undefined : JSON.stringify(agent.state),
    correlation: agent.correlation,
    seed: Math.floor(clock.random() * 2 ** 30),
    maxMessageBytes: agent.settings.mailbox.maxMessageBytes,
    maxExternalMb: agent.settings.maxExternalMb,
    isDurable: journal.isKept,
    concurrency: agent.settings.concurrency,
    verbs: agent.settings.verbs,
    loops: agent.settings.loops,
    messagesPerTurn: agent.settings.messagesPerTurn,
    output: agent.settings.output && jsonSchemaOf(agent.settings.output),
    guardedBy: guardedBy(agent.settings.guards),
    contextStrategy: agent.settings.contextStrategy,
    floor: agent.settings.floor,
  }
}

/** Limits the time of a start. A start that does not settle within the turn timeout has failed. */
function inTime(clock: Scheduler, agent: Agent, starting: Promise<Started>): Promise<Started> {
  const { turnTimeoutMs } = agent.settings
  if (turnTimeoutMs === false) return starting
  return new Promise((resolve, reject) => {
    const timer = clock.timer(turnTimeoutMs, () => {
      const text = `The start of agent "${agent.name}" (its module, then its start hook) did not end within ${turnTimeoutMs} ms. Raise limits.turnTimeoutMs, or look at what it waits for.`
      resolve({ ok: false, error: errorData(new StartFailedError(text, { agent: agent.name, turnTimeoutMs })) })
    })
    starting.finally(() => timer.cancel()).then(resolve, reject)
  })
}

export function listen(logger: Logger, { name: agent }: Agent, incarnation: Incarnation): void {
  incarnation.thread.onPrint({
    line: (text) => logger.info({ agent }, text),
    flooded: () =>
      logger.warn(
        { agent },
        'the agent prints more than 10,000 lines or 1 MiB in a second; the rest of that is left out',
      ),
    leftOut: (lines) => logger.warn({ agent, lines }, `${lines} lines that the agent printed were left out`),
  })
  let posts = 0
  incarnation.thread.onOwnPost(() => {
    posts += 1
    if (posts > MOST_POSTS + 1) return // it was ended; what it had posted by then still comes, and may be a lot
    if (posts > MOST_POSTS) {
      const text = `Agent "${agent}" posted more than ${MOST_POSTS} messages to its parent port, so its thread was ended: the host has to take each of them in. Use context.send.`
      return incarnation.kill(new AgentCrashedError(text, { agent, posts: MOST_POSTS }))
    }
    if ((posts & (posts - 1)) !== 0) return // in a flood it logs ever more rarely
    logger.warn(
      { agent, posts },
      'the agent posted to its parent port; that is not how agents talk, and nobody reads it: use context.send',
    )
  })
}

/*
 * Bounds the number of threads that agents have at the same time (`threads.max`). A thread has a place from before it
 * is made until it is gone. Agents that find no place wait in a line: by the priority of their first message, then in
 * order. Which agent gives up a thread for them is decided in supervision/passivation.ts.
 */

/** Checks whether a thread of the agent needs a place: threads that agents share do not count. */
export const hasOwnThread = ({ settings }: Agent): boolean => settings.isAgent && settings.isolation === 'thread'

interface Waiter {
  readonly agent: Agent
  /** Team of the agent. */
  readonly team: object | undefined
  /** Epoch ms. */
  readonly since: number
  readonly resolve: () => void
}

/** A team whose agents have places, as others see it that have theirs from the same number. */
export interface PlaceTaker {
  /** Perhaps no place comes free by itself. */
  makeRoom(): void
  /** Number of its threads none of which will come free by itself; undefined: one will. */
  stuckAt(now: number): number | undefined
}

export class ThreadPlaces {
  /** Maximum number of places. It is exceeded only by `grant`. */
  readonly max: number
  taken = 0
  /** Teams of this process that share the places: one, or the shards of a cluster. */
  readonly teams = new Set<PlaceTaker>()
  /** Lives that are asked whether they may end, or that end. */
  readonly leaving = new Set<Incarnation>()
  readonly #line: Waiter[] = []
  readonly #full: () => void
  readonly #clock: Pick<Scheduler, 'now'>

  /**
   * `full` is called when an agent has joined the line, and when a thread is gone whose place nobody gets: perhaps no
   * other comes free by itself.
   */
  constructor(max: number, clock: Pick<Scheduler, 'now'>, full?: () => void) {
    this.max = max
    this.#clock = clock
    this.#full =
      full ??
      (() => {
        for (const team of [...this.teams]) team.makeRoom()
      })
  }

  get isBounded(): boolean {
    return Number.isFinite(this.max)
  }

  get waiting(): number {
    return this.#line.length
  }

  /** Agents of a team that wait for a place, and since when. */
  lineOf(team: object): readonly Pick<Waiter, 'agent' | 'since'>[] {
    return this.#line.filter((waiter) => waiter.team === team)
  }

  /**
   * Takes a place for a thread of the agent. Returns undefined if it has one now, a promise if it has to wait, and
   * false if it has to wait but has no message: such an agent needs no thread yet.
   */
  take(agent: Agent, team?: object): Promise<void> | undefined | false {
    if (this.taken < this.max && this.#line.length === 0) {
      this.reserve()
      return undefined
    }
    if (agent.mailbox.waiting === 0) return false
    const place = new Promise<void>((resolve) => {
      this.#line.push({ agent, team, since: this.#clock.now(), resolve })
    })
    this.#full()
    return place
  }

  /** Takes a place in any case: for a thread that has replaced another one. */
  reserve(): void {
    this.taken += 1
  }

  /** Gives back the place of a thread that is gone, or that is not needed after all. */
  free(): void {
    this.taken -= 1
    this.serve()
    if (this.waiting > 0) this.#full()
  }

  /** Gives the free places to those that wait. */
  serve(): void {
    while (this.taken < this.max && this.#line.length > 0) this.grant()
  }

  /** Gives a place to the first in the line, free or not. */
  grant(): void {
    let first = this.#line[0]
    if (!first) return
    for (const waiter of this.#line) if (priorityOf(waiter) > priorityOf(first)) first = waiter
    this.#line.splice(this.#line.indexOf(first), 1)
    this.reserve()
    first.resolve()
  }

  /** Lets an agent leave the line that needs no thread any more. It gives its place back when it learns that. */
  leave(agent: Agent): void {
    for (const waiter of this.#line.filter((each) => each.agent === agent)) {
      this.#line.splice(this.#line.indexOf(waiter), 1)
      this.reserve()
      waiter.resolve()
    }
  }
}

const priorityOf = ({ agent }: Waiter): number => agent.mailbox.peek()?.priority ?? 0

export class PendingIncarnation {
  readonly incarnation: Incarnation
  /** Rejects when the thread cannot become the agent's incarnation any more: it has ended, or was dropped. */
  readonly lost: Promise<never>
  readonly gone: Promise<void>
  /** True once it is the agent's incarnation: what happens to it from then on is handled like for any incarnation. */
  adopted = false
  /** True if it was not the agent's incarnation when it was lost: it cannot be any more. */
  isLost = false
  readonly #host: Owners
  readonly #places: ThreadPlaces
  readonly #agent: Agent
  readonly #code: AgentCode
  readonly #tools: AssignedTools
  #lose: (error: DramatisError) => void = () => {}
  #started: Promise<Started> | undefined
  #hasPlace = false
  #names = ''

  constructor(host: Owners, exits: Exits, places: ThreadPlaces, agent: Agent, code: AgentCode, tools: AssignedTools) {
    this.#host = host
    this.#places = places
    this.#agent = agent
    this.#code = code
    this.#tools = tools
    const { clock, logger, loop, parts, provisioning } = host
    const turns = mostOpenTurns(agent.settings.concurrency)
    const thread = provisioning.threadFor(agent)
    const incarnation = new Incarnation(agent.nextEpoch(), thread, turns, (of) => {
      exits.fence(agent, of)
      if (places.isBounded) clock.timer(FENCE_MS, () => this.#leavePlace(), true) // else it would be taken for ever
    })
    this.incarnation = incarnation
    this.lost = new Promise((_resolve, reject) => {
      this.#lose = reject
    })
    this.lost.catch(() => {})
    thread.onWake(loop.kick.bind(loop))
    thread.givesBytes((hash) => parts.get(hash))
    this.gone = new Promise((resolve) => {
      thread.onExit((exit) => {
        const text = `The new thread of agent "${agent.name}" ended before it took over (exit code ${exit.code}).`
        this.#lost(
          incarnation.verdict ?? new StartFailedError(text, { agent: agent.name, exitCode: exit.code }, exit.error),
        )
        this.#leavePlace()
        exits.exited(agent, incarnation, exit)
        resolve()
      })
    })
    listen(logger, agent, incarnation)
  }

  /**
   * Makes the thread. Resolves to undefined if nobody wants it any more when there is room for it, or if the agent has
   * no message while all threads are taken. Rejects with `ConfigurationError` for code that cannot be found or bundled,
   * and with whatever keeps the system from a thread. 'beside': the agent has a thread, whose place it takes over.
   */
  static async make(
    host: Owners,
    exits: Exits,
    places: ThreadPlaces,
    agent: Agent,
    isWanted: () => boolean,
    beside?: 'beside',
  ): Promise<PendingIncarnation | undefined> {
    const { provisioning } = host
    const [code, tools] = await Promise.all([provisioning.codeOf(agent), provisioning.toolsOf(agent)])
    if (!isWanted()) return undefined
    const takesPlace = hasOwnThread(agent) && !beside
    const place = takesPlace ? places.take(agent, host) : undefined
    if (place === false) return undefined
    if (place) await place
    let pending: PendingIncarnation | undefined
    try {
      const room = provisioning.roomFor(agent)
      if (room) await room
      if (isWanted()) pending = new PendingIncarnation(host, exits, places, agent, code, tools)
    } finally {
      if (takesPlace && pending) pending.#hasPlace = true
      else if (takesPlace) places.free()
    }
    return pending
  }

  /** Takes a place among the threads of the team, if it has none yet. */
  takePlace(): void {
    if (this.#hasPlace || !hasOwnThread(this.#agent)) return
    this.#hasPlace = true
    this.#places.reserve()
  }

  #leavePlace(): void {
    if (!this.#hasPlace) return
    this.#hasPlace = false
    this.#places.free()
  }

  get module(): string | undefined {
    return 'module' in this.#code && this.#code.module !== '' ? this.#code.shown : undefined
  }

  load(): Promise<Started> {
    const { clock, redactor } = this.#host
    const assignment = codeAssignmentOf(this.#agent, this.#code, this.#tools, redactor)
    return inTime(clock, this.#agent, this.incarnation.thread.load(assignment))
  }

  /** Starts the agent with the state that it has now. A second call resolves with the first. */
  start(): Promise<Started> {
    this.#started ??= this.#start()
    return this.#started
  }

  #start(): Promise<Started> {
    const { clock } = this.#host
    const assignment = assignmentOf(this.#host, this.#agent, this.incarnation, this.#code, this.#tools)
    this.#names = assignment.names
    return inTime(clock, this.#agent, this.incarnation.thread.start(assignment))
  }

  get newcomers(): Newcomer[] {
    return this.#started ? this.#host.directory.newcomersTo(this.#names) : []
  }

  /** Returns the error of a start that failed. It reads files for more words, at places that the code has named. */
  async errorOf({ error: data, importing }: Extract<Started, { ok: false }>): Promise<DramatisError> {
    const { name, settings } = this.#agent
    const error = this.#host.redactor.fields(errorFrom(data))
    const whose = importing === 'agent' ? this.#code : importing
    if (!whose || 'model' in whose || 'remote' in whose) return error
    return importFailure(settings, whose, error).catch((thrown: unknown) => {
      const text = `Agent "${name}" could not be started, nor could it be seen why: ${describe(thrown)}`
      return new StartFailedError(text, { agent: name }, thrown)
    })
  }

  drop(error: DramatisError): void {
    if (this.adopted) return
    this.#lost(error)
    this.incarnation.end()
  }

  #lost(error: DramatisError): void {
    this.isLost = !this.adopted
    this.#lose(error)
  }
}
