/** A team over several processes: each holds a share of its shards, and each takes runs for all of them. */
import { randomUUID } from 'node:crypto'
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import { asJson, type Content } from '../../actors/definition/content.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { integer, methods, number, oneOf, pause, refused, refusedAs, shape, text, wait } from '../../shared/checks.ts'
import { systemClock } from '../../shared/clock.ts'
import {
  ConfigurationError,
  type ErrorData,
  errorFrom,
  ReplyInvalidError,
  UnknownRunError,
} from '../../shared/errors.ts'
import { BODY_HASH, RunOutput } from '../host/run.ts'
import { defaultLogger } from '../logging/logger.ts'
import { type RuntimeEvent, readPosition, readTypes } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { RunFilter, RunStatus, SteerInfo, SteerReceipt } from '../runs/run.ts'
import { readQuery, readRunOptions } from '../runs/run-options.ts'
import { SPOKEN, SpokenWords, STREAMED, type StreamPart, StreamParts } from '../runs/stream-parts.ts'
import type { Wanted } from '../runs/told-events.ts'
import type { StateManagement, StateOptions, TeamOptions } from '../settings/options.ts'
import type { Commons } from '../team/commons.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { AnswerOptions } from '../verbs/approvals.ts'
import { objectIn } from '../verbs/gateway.ts'
import type { OpenQuestionInfo } from '../verbs/questions.ts'
import { readSteerOptions, type SteerOptions } from '../verbs/steering.ts'
import { checkAddress, keyOf } from './address.ts'
import { Carrier, shardOf, taskOf } from './carrier.ts'
import type { ClusterKeep, ClusterStore, ClusterTimes, ShardLog, TaskOutcome } from './cluster-store.ts'
import type { ClusterDoor } from './door.ts'
import type { ClusterLooks, ClusterRuns } from './looks.ts'
import type { ClusterProcess, Shard } from './process.ts'
import type { SentOptions, SentRun, TeamShard as TeamShardClass } from './team-shard.ts'

/** Meeting place of the processes of a team, and how they divide it. */
export interface ClusterOptions {
  /**
   * Address of a PostgreSQL, 13 and up: `postgres://user:password@host:5432,host:5432/database`. Its hosts are tried
   * in turn. Or brokers of NATS with JetStream, 2.11 and up, as a preview: `nats://user:password@host:4222,host:4222`,
   * with files of credentials as in `?creds=/run/user.creds`.
   */
  url?: string
  /** An engine of your own, in place of `url`. */
  store?: ClusterStore
  /** Processes with the same name share the shards. Default: 'default'. */
  name?: string
  /**
   * Number of shards, fixed at the first start: a shard is the team with a log of its own, and 16 to 64 are enough for
   * most. Default: as many as `store` has, else 16.
   */
  shards?: number
  /** 'replicated' refuses a database that answers before a synchronous standby has what was written. */
  durability?: 'replicated'
  /** Times by which processes judge each other. */
  times?: Partial<ClusterTimes>
  /**
   * URL under which the others reach this process's HTTP API: on a private network, or https. Default: that of
   * `dramatis serve`, if it is a loopback address.
   */
  address?: string
  /**
   * Name of an environment variable with a secret of at least 32 characters, the same for all processes: by it they
   * believe each other's requests. Without it only loopback addresses are taken.
   */
  secretEnv?: string
  /** How long outcomes are kept. */
  keep?: ClusterKeep
  /**
   * Version of this process's code, as others see it. A shard with runs that this code cannot go on with
   * (`stateManagement.onMismatch`) is passed on to a process with another version, as long as one lives.
   */
  version?: string
  /**
   * How long, in ms, a shard is kept that is to be given over, until steps that are under way in it and may not be
   * repeated have ended. Default: 10,000.
   */
  handOverMs?: number
  /**
   * Fate of runs that were under way when the engine lost the end of their log in a failover. 'tell' (the default):
   * they end with `PastLostError`, since steps of them may be done that the log does not have. 'continue': they go on
   * from what the log has, and such steps are done again.
   */
  onCut?: 'tell' | 'continue'
}

/** Processes submit again what a failover of the engine has lost within minutes: until then its outcome has to stay. */
const LEAST_DAYS = 0.01
const LONGEST_DAYS = 36_500

const checkCluster = shape<ClusterOptions>({
  url: text,
  store: methods('join', 'view', 'log', 'submit', 'take', 'settle', 'outcome', 'tell', 'leave'),
  name: text,
  shards: integer(1, 4_096),
  durability: oneOf('replicated'),
  times: shape<Partial<ClusterTimes>>({ beatMs: wait(), suspectMs: wait(), ttlMs: wait(), graceMs: pause }),
  address: text,
  secretEnv: text,
  keep: shape<ClusterKeep>({ days: number(LEAST_DAYS, LONGEST_DAYS) }),
  version: text,
  handOverMs: pause,
  onCut: oneOf('tell', 'continue'),
})

/** Options that a team over several processes has in place of a log of its own. */
export interface InCluster {
  cluster: ClusterOptions
  /** The logs of the shards: their place is the cluster's. */
  stateManagement?: Omit<StateOptions, 'resume' | 'waitForLogMs'>
}

/** How the package makes what this room does not know. */
export interface ClusterParts<Team> {
  /** The team of a shard, with its log; without one it is only looked at. */
  team(state: StateManagement | undefined): Team
  /** The engine that an address names. */
  engine(options: ClusterOptions & { url: string }): Promise<ClusterStore>
  /** Means that its teams have in common. */
  readonly commons: Commons
}

/** Options of a run that any process of the cluster can take. */
export interface ClusterRunOptions<T = undefined> extends SentOptions {
  /** Id of the run: once over the whole cluster. Default: a UUID. */
  runId?: string
  /** Runs of one thread, and of one key, come to the same shard. */
  key?: string
  /** Agent that gets the query alone. Default: the team. */
  agent?: string
  /**
   * Schema of the answer's data. Its JSON schema goes to the owner of the shard, which asks models in it; its code
   * checks the answer in this process, and makes `data` of it.
   */
  output?: ModelSchema<unknown, T>
  /** Ends the wait of `execute`; the run goes on. */
  signal?: AbortSignal
}

/** Result of a run as every process of the cluster can have it: the history and the trace stay with its shard. */
export type ClusterResult<T = unknown> = Pick<
  MultiAgentResult<T>,
  | 'runId'
  | 'success'
  | 'finalOutput'
  | 'data'
  | 'error'
  | 'totalTokenUsage'
  | 'tokenUsage'
  | 'executionTimeMs'
  | 'rehearsed'
>

/**
 * Event of a run as JSON has it: an error as `{ code, message, details }`, the result of `run.finished` without history
 * and trace. `id` names its place, for `after`.
 */
export interface ClusterEvent {
  readonly id?: string
  readonly type: RuntimeEvent['type']
  /** Epoch ms. */
  readonly at: number
  readonly runId: string
  readonly [field: string]: unknown
}

/** Part of a run as it comes; that of its end has the result as JSON. */
export type ClusterPart<T = unknown> =
  | Exclude<StreamPart<T>, { type: 'run.finished' }>
  | (ClusterEvent & { readonly type: 'run.finished'; readonly seq: number })

export interface ClusterEventOptions {
  /** `id` of the event that was seen last. Default: none, so all events come. */
  after?: string
  /** Types of the events that are wanted. Default: all. */
  types?: readonly RuntimeEvent['type'][]
  /** Ends the reading when it is aborted. */
  signal?: AbortSignal
}

/** A run of the cluster, wherever its shard is. */
export interface ClusterRun<T = unknown> {
  readonly id: string
  readonly shard: number
  /** False if this call has begun it: then nobody had taken a run of that id before. */
  readonly isKnown: boolean
  /** Result of the run, whoever does it. */
  result(signal?: AbortSignal): Promise<ClusterResult<T>>
  /**
   * Yields past and future events, until the run has finished. When its shard goes to another process, they go on
   * there: none is missing, and none comes twice. The process that has the shard needs a `cluster.address` at which it
   * is served, unless it is this one: throws `ConfigurationError` where it has none.
   */
  events(options?: ClusterEventOptions): AsyncIterable<ClusterEvent>
  /** Yields the words of the last speaker as they come, as `run.text()` of a team in one process does. */
  text(signal?: AbortSignal): AsyncIterable<string>
  /**
   * Yields the parts of its answer that models write, as `run.stream()` of a team in one process does, from the
   * beginning: launch it with `stream: true`. It takes what `events` takes.
   */
  stream(signal?: AbortSignal): AsyncIterable<ClusterPart<T>>
  /**
   * Trace of the run so far, asked of the owner of its shard, as the two below. Waits up to 20 s for an owner. Throws
   * `ConfigurationError` where that has no `cluster.address`, `UnknownRunError` where its log has given the run up,
   * `ClusterUnreachableError` where it cannot be asked.
   */
  trace(signal?: AbortSignal): Promise<ClusterLooks['trace']>
  /** Messages of the run so far. A part whose bytes are stored once has its hash in their place. */
  messageHistory(signal?: AbortSignal): Promise<ClusterLooks['messageHistory']>
  /** Valid entries of its blackboard; none if the team has no blackboard. */
  board(signal?: AbortSignal): Promise<ClusterLooks['board']>
  /** Status of the run, as the owner of its shard says it. Waits while the shard has none. */
  status(signal?: AbortSignal): Promise<RunStatus>
  /** Tasks that were given in the run so far, with their status. */
  tasks(signal?: AbortSignal): Promise<readonly AgentTask[]>
  /** Tokens that models have used so far. */
  usage(signal?: AbortSignal): Promise<TokenUsage>
  /** Questions of the run to people that nobody has answered yet. */
  questions(signal?: AbortSignal): Promise<readonly OpenQuestionInfo[]>
  /**
   * Answers a question, as `run.answer` of a team in one process does. The answer is durable, also while the shard has
   * no owner.
   */
  answer(questionId: string, answer: string | ApprovalAnswer, options?: AnswerOptions): Promise<void>
  /**
   * Says something to the run while it works, as `run.steer` of a team in one process does. The words are durable, also
   * while the shard has no owner. `settled` and `readBy` of the receipt follow the events of the run, and so take what
   * `events` takes.
   */
  steer(words: string | Content, options?: SteerOptions): Promise<SteerReceipt>
  /** Cancels the run. Resolves when its end is in the log, also if that is another one. */
  cancel(reason?: string): Promise<void>
}

const NEVER: AbortSignal = new AbortController().signal
/** Caller in whose name this process asks for the events of a run: its own program. */
const PROGRAM = { id: '', may: ['run', 'watch', 'operate'] }
const DEFAULT_SHARDS = 16
type Said = Omit<SteerInfo, 'readBy' | 'settled'>

/** Types of the events that tell what becomes of words. */
const READ = ['steer.read', 'steer.unread'] as const

/** Returns the receipt of words; `told` yields the events of their run that tell what becomes of them. */
function receiptOf(said: Said, told: () => AsyncIterable<{ event: object }>): SteerReceipt {
  const readBy = new Set<string>()
  let settled: Promise<'read' | 'unread'> | undefined
  const follow = async () => {
    let isUnread = false
    for await (const { event } of told()) {
      const { type, steerId, agent } = event as { type?: string; steerId?: string; agent?: string }
      if (steerId !== said.id) continue
      if (agent !== undefined) readBy.add(agent)
      isUnread ||= type === 'steer.unread'
    }
    return isUnread || readBy.size === 0 ? 'unread' : 'read'
  }
  return {
    ...said,
    get readBy() {
      return [...readBy]
    },
    get settled() {
      settled ??= follow()
      return settled
    },
  }
}

/** Name of the exchange of news between processes. */
const NEWS = 'news'
const HAND_OVER_MS = 10_000

type Options = InCluster & Pick<TeamOptions, 'budget' | 'tenants' | 'enableBlackboard' | 'logger'>

export class ClusterTeam<Team extends TeamRuntime = TeamRuntime> implements AsyncDisposable {
  /** Id of this process among those of the cluster. */
  readonly id = randomUUID()
  readonly #options: Options
  readonly #parts: ClusterParts<Team>
  readonly #shards: number
  readonly #teams = new Map<number, Team>()
  /** The team of a shard, to look at: its agents, its limits. It never starts. */
  readonly pattern: Team
  readonly #key: Buffer | undefined
  #address: string | undefined
  #isIn = false
  #door: Promise<ClusterDoor<Team>> | undefined
  #process: Promise<ClusterProcess> | undefined
  #started: Promise<void> | undefined

  constructor(options: Options, parts: ClusterParts<Team>) {
    checkCluster(options.cluster, 'cluster')
    const { url, store } = options.cluster
    if ((url === undefined) === (store === undefined))
      throw refusedAs('cluster', url === undefined ? 'neither url nor store' : 'url and store', 'one of the two')
    this.#shards = shardsIn(options.cluster)
    refuseWhatNeedsOneProcess(options, this.#shards)
    this.#options = options
    this.#parts = parts
    this.pattern = parts.team(undefined) // what is wrong with it is said at once
    this.#key = keyOf(options.cluster)
    this.#address = options.cluster.address
    if (this.#address !== undefined) checkAddress(this.#address, options.cluster)
  }

  /** Joins the cluster. Shards come as others give them up. @throws ConfigurationError, ClusterUnreachableError */
  start(signal?: AbortSignal): Promise<void> {
    this.#started ??= this.#join(signal).catch((error: unknown) => {
      this.#started = undefined // a program that waits for the engine may try again
      throw error
    })
    return this.#started
  }

  async #join(signal?: AbortSignal): Promise<void> {
    const process = await this.#processOf()
    await process.start(signal)
    this.#isIn = true
    const [door, { answerLooks }] = await Promise.all([this.door(), import('./looks.ts')])
    answerLooks(door)
    door.answers.set(NEWS, (news) => process.hear(news))
    process.exchange((member, news, until) => door.askMember(member, NEWS, news, until))
  }

  /** True once this process is a member, and until it is closed. */
  get isIn(): boolean {
    return this.#isIn
  }

  /** Shards that this process holds now, each with the team that has it. */
  get held(): ReadonlyMap<number, Team> {
    return this.#teams
  }

  /** Number of its shards. */
  get shards(): number {
    return this.#shards
  }

  /** Returns the shard of a thread, of a key, or of the id of a run that has neither. */
  shardOf(key: string): number {
    return shardOf(key, this.#shards)
  }

  /** Takes a run into the cluster: it is durable, and begun once, when this resolves. */
  async launch<T = undefined>(query: string | Content, options: ClusterRunOptions<T> = {}): Promise<ClusterRun<T>> {
    const { runId = randomUUID(), key, signal, metadata, output, agent } = options
    const sent = sentOptions(options)
    readQuery(query)
    const schema = output && jsonSchemaOf(output, runId)
    await this.start()
    const process = await this.#processOf()
    const shard = this.shardOf(sent.threadId ?? key ?? runId)
    const run: SentRun = {
      query: asJson(query),
      options: sent,
      ...(schema && { output: schema }),
      ...(agent !== undefined && { agent }),
    }
    const task = taskOf(runId, shard, run, metadata?.[BODY_HASH])
    const accepted = await process.submit(task, signal)
    if (accepted === 'conflict')
      throw new ConfigurationError(
        `runId: a run "${runId}" with another query or other options is known: take another id.`,
        {
          path: 'runId',
        },
      )
    return this.#run(runId, shard, accepted === 'known', output)
  }

  /** Returns a run that some process has taken; undefined if none has that id, or nobody keeps its outcome any more. */
  async getRun<T = unknown>(
    runId: string,
    { output }: Pick<ClusterRunOptions<T>, 'output'> = {},
  ): Promise<ClusterRun<T> | undefined> {
    await this.start()
    const state = await (await this.#processOf()).state(runId)
    return state && this.#run(runId, state.shard, true, output)
  }

  async #run<T>(
    id: string,
    shard: number,
    isKnown: boolean,
    output: ClusterRunOptions<T>['output'],
  ): Promise<ClusterRun<T>> {
    const [process, door] = [await this.#processOf(), await this.door()]
    const [{ toldAnywhere }, { lookAnywhere }] = await Promise.all([import('./run-events.ts'), import('./looks.ts')])
    const looked = <Of extends keyof ClusterLooks>(of: Of, signal = NEVER) =>
      lookAnywhere(door, { shard, id, of }, signal)
    const asked = (ask: 'status' | 'questions' | 'tasks' | 'usage', signal?: AbortSignal) =>
      door.ask(shard, { ask, runId: id }, signal)
    const told = (wanted: Wanted) => toldAnywhere(door, { shard, id }, PROGRAM, wanted)
    return {
      id,
      shard,
      isKnown,
      result: async (signal) => checkedBy(output, resultFrom(id, await process.outcome(id, signal))),
      async *events({ after, types, signal = NEVER } = {}) {
        readPosition(after ?? -1)
        const wanted = readTypes(types)
        const events = told({ after, signal, deltas: true, ...(wanted && { types: [...wanted] }) })
        for await (const { id: at, event } of events)
          yield { ...JSON.parse(JSON.stringify(event)), ...(at !== undefined && { id: at }) } as ClusterEvent
      },
      async *text(signal = NEVER) {
        const words = new SpokenWords()
        const events = told({ after: undefined, signal, deltas: true, types: [...SPOKEN] })
        for await (const { event } of events) yield* words.of(event as RuntimeEvent<unknown>)
      },
      async *stream(signal = NEVER) {
        const parts = new StreamParts<T>(output && objectIn(jsonSchemaOf(output, id)))
        const events = told({ after: undefined, signal, deltas: true, types: [...STREAMED] })
        for await (const { event } of events) yield* parts.of(event as RuntimeEvent<T>) as Iterable<ClusterPart<T>>
      },
      trace: (signal) => looked('trace', signal),
      messageHistory: (signal) => looked('messageHistory', signal),
      board: (signal) => looked('board', signal),
      status: async (signal) => (await asked('status', signal)) as RunStatus,
      tasks: async (signal) => (await asked('tasks', signal)) as readonly AgentTask[],
      usage: async (signal) => (await asked('usage', signal)) as TokenUsage,
      questions: async (signal) => (await asked('questions', signal)) as readonly OpenQuestionInfo[],
      async answer(questionId, answer, options) {
        await door.ask(shard, { ask: 'answer', runId: id, questionId, answer, ...(options && { options }) })
      },
      async steer(given, options = {}) {
        const { text: plain, parts } = readQuery(given, 'words')
        const words = parts ? asJson(parts) : plain
        const sent = { words, options: { ...readSteerOptions(options), id: options.id ?? randomUUID() } }
        const said = await door.ask(shard, { ask: 'steer', runId: id, ...sent })
        return receiptOf(said as Said, () => told({ after: undefined, signal: NEVER, deltas: false, types: [...READ] }))
      },
      async cancel(reason) {
        await door.ask(shard, { ask: 'cancel', runId: id, ...(reason !== undefined && { reason }) })
      },
    }
  }

  /** Runs the team on a query, at whichever process holds the shard of its thread, key or id. */
  async execute<T = undefined>(query: string | Content, options: ClusterRunOptions<T> = {}): Promise<ClusterResult<T>> {
    const run = await this.launch(query, options)
    return run.result(options.signal)
  }

  /**
   * Returns the runs that the logs of all shards have, those that started last first, as each process tells them that
   * answers in 2 s. The next page begins with `startedBefore`: the time of the last run and 1, without those of it that
   * are known.
   *
   * @throws ConfigurationError for a wrong filter
   */
  async listRuns(filter: Omit<RunFilter, 'before'> = {}, signal: AbortSignal = NEVER): Promise<ClusterRuns> {
    await this.start()
    const { runsAnywhere } = await import('./looks.ts')
    return runsAnywhere(await this.door(), this.#shards, filter, signal)
  }

  /** Gives its shards over to the others and leaves. What is under way goes on there. */
  async close(): Promise<void> {
    this.#isIn = false
    if (this.#process) await (await this.#process).close()
    await this.#parts.commons.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Says under which URL this process is reached, unless `cluster.address` has. Before `start`. */
  reachedAt(address: string): void {
    if (this.#options.cluster.address !== undefined) return
    checkAddress(address, this.#options.cluster)
    this.#address = address
  }

  /** The parts of the cluster that a service works with. @internal */
  door(): Promise<ClusterDoor<Team>> {
    this.#door ??= this.#makeDoor()
    return this.#door
  }

  async #makeDoor(): Promise<ClusterDoor<Team>> {
    const [{ ClusterDoor }, { Peers }] = await Promise.all([import('./door.ts'), import('./peers.ts')])
    return new ClusterDoor({
      peers: new Peers(this.#key, () => systemClock.now()),
      hasSecret: this.#options.cluster.secretEnv !== undefined,
      id: this.id,
      held: this.#teams,
      process: async () => {
        await this.start()
        return this.#processOf()
      },
    })
  }

  #processOf(): Promise<ClusterProcess> {
    this.#process ??= this.#make()
    return this.#process
  }

  async #make(): Promise<ClusterProcess> {
    const { version, store, url = '', handOverMs = HAND_OVER_MS } = this.#options.cluster
    const address = this.#address
    const [{ ClusterProcess }, { TeamShard }] = await Promise.all([import('./process.ts'), import('./team-shard.ts')]) // late: few have a cluster
    const { commons } = this.#parts
    const logger = this.#options.logger ?? defaultLogger
    const engine = store ?? (await this.#parts.engine({ ...this.#options.cluster, url, shards: this.#shards }))
    const process = new ClusterProcess({
      store: engine,
      shards: this.#shards,
      id: this.id,
      self: { ...(version !== undefined && { version }), ...(address !== undefined && { address }) },
      handOverMs,
      clock: systemClock,
      logger,
      hold: (log) => this.#hold(log, TeamShard),
      live: (processes) => commons.divide(processes),
      heard: (waits) => commons.keyed.hear(waits),
    })
    commons.keyed.tell = (waits) => engine.tell({ waits })
    commons.carrier = new Carrier(process, this.#shards, (text) => logger.warn({ member: process.id }, text))
    return process
  }

  #hold(log: ShardLog, TeamShard: typeof TeamShardClass): Shard {
    const team = this.#parts.team({ ...this.#options.stateManagement, store: log, resume: 'manual' })
    const keyed = this.#parts.commons.requests.get(team)!
    keyed.shard = log.shard
    const serves = async (kept: unknown) => (await this.door()).serves?.(log.shard, kept)
    const shard = new TeamShard(team, keyed, log, serves, this.#options.cluster.onCut === 'continue')
    return {
      settle: (task) => shard.settle(task),
      start: async () => {
        await shard.start()
        this.#teams.set(log.shard, team)
      },
      close: async (stepsMs) => {
        await shard.close(stepsMs).finally(() => {
          if (this.#teams.get(log.shard) === team) this.#teams.delete(log.shard)
        })
      },
    }
  }
}

function sentOptions<T>(options: ClusterRunOptions<T>): SentOptions {
  const { runId, key, signal, output, agent, ...sent } = options
  if (key !== undefined && (typeof key !== 'string' || key === ''))
    throw refused('key', key, 'a text that is not empty')
  if (agent !== undefined && (typeof agent !== 'string' || agent === ''))
    throw refused('agent', agent, 'the name of an agent')
  readRunOptions({
    ...sent,
    ...(runId !== undefined && { runId }),
    ...(signal && { signal }),
    ...(output && { output }),
  })
  return sent
}

function shardsIn({ shards, store }: ClusterOptions): number {
  const there = store?.shards ?? shards ?? DEFAULT_SHARDS
  if (there === (shards ?? there)) return there
  throw refusedAs(
    'cluster.shards',
    `${shards}`,
    `${there}`,
    'cluster.store was made for so many: leave cluster.shards out.',
  )
}

/** Refuses what a cluster cannot promise: it would hold for each process alone, and nobody would see that. */
function refuseWhatNeedsOneProcess(
  { budget, tenants, enableBlackboard, stateManagement }: Options,
  shards: number,
): void {
  const [place] = ['path', 'store'].filter((key) => Reflect.has(Object(stateManagement), key))
  if (place)
    throw refusedAs(`stateManagement.${place}`, 'a place of the log', 'none beside cluster', 'The engine has the logs.')
  if (shards > 1 && budget?.perTeam)
    throw refusedAs('budget.perTeam', 'a budget over all shards', 'perRun', 'Or set cluster.shards to 1.')
  if (budget?.perTenant)
    throw refusedAs('budget.perTenant', 'a budget of tenants over several processes', 'perRun', ONE_PROCESS)
  if (tenants) throw refusedAs('tenants', 'turns of tenants over several processes', 'nothing', ONE_PROCESS)
  if (shards > 1 && Object(enableBlackboard).scope === 'team')
    throw refusedAs(
      'enableBlackboard.scope',
      `one board for ${shards} shards`,
      '"run"',
      'A board of a team lives in one shard: set cluster.shards to 1 for one owner and hot standbys.',
    )
}

const ONE_PROCESS =
  'Leave cluster out: one process with stateManagement has all runs of a tenant, also after a restart.'

/** @throws ConfigurationError for a schema that no other process can be told. */
function jsonSchemaOf(schema: ModelSchema, runId: string): object {
  const { jsonSchema } = new RunOutput(schema, runId)
  if (jsonSchema) return jsonSchema
  const advice = 'The owner of the shard asks models in it: use a schema of zod, or one made of a JSON schema.'
  throw refusedAs('output', 'a schema that its library cannot write as JSON schema', 'one that it can', advice)
}

/** Returns a result with the data that a schema makes of it, or with the error that it misses the schema. */
async function checkedBy<T>(
  schema: ModelSchema<unknown, T> | undefined,
  result: ClusterResult,
): Promise<ClusterResult<T>> {
  if (!schema || !result.success) return result as ClusterResult<T>
  try {
    const data = (await new RunOutput(schema, result.runId).dataOf(result.data, result.finalOutput ?? '')) as T
    return { ...result, data } as ClusterResult<T>
  } catch (error) {
    if (!(error instanceof ReplyInvalidError)) throw error
    return { ...result, success: false, data: null, error } as ClusterResult<T>
  }
}

function resultFrom(runId: string, outcome: TaskOutcome | undefined): ClusterResult {
  if (!outcome)
    throw new UnknownRunError(`no run has the id "${runId}", or its outcome is kept no more (cluster.keep).`, { runId })
  const data = JSON.parse(Buffer.from(outcome.body).toString()) as ClusterResult & { error: ErrorData | null }
  return { ...data, runId, error: data.error && errorFrom(data.error) } as ClusterResult
}
