/** A team over several processes: each holds a share of its shards, and each takes runs for all of them. */
import { createHash, randomUUID } from 'node:crypto'
import { asJson, type Content } from '../../actors/definition/content.ts'
import { integer, methods, oneOf, pause, refused, refusedAs, shape, text, wait } from '../../shared/checks.ts'
import { systemClock } from '../../shared/clock.ts'
import { ConfigurationError, type ErrorData, errorFrom, UnknownRunError } from '../../shared/errors.ts'
import { defaultLogger } from '../logging/logger.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import { readQuery, readRunOptions } from '../runs/run-options.ts'
import type { StateManagement, StateOptions, TeamOptions } from '../settings/options.ts'
import type { Commons } from '../team/commons.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { ClusterStore, ClusterTimes, ShardLog, TaskOutcome } from './cluster-store.ts'
import type { ClusterProcess, Shard } from './process.ts'
import type { SentOptions, SentRun, TeamShard as TeamShardClass } from './team-shard.ts'

/** Meeting place of the processes of a team, and how they divide it. */
export interface ClusterOptions {
  /**
   * Address of a PostgreSQL, 13 and up: `postgres://user:password@host:5432,host:5432/database`. Its hosts are tried
   * in turn.
   */
  url?: string
  /** An engine of your own, in place of `url`. */
  store?: ClusterStore
  /** Processes with the same name share the shards. Default: 'default'. */
  name?: string
  /**
   * Number of shards, fixed at the first start: a shard is the team with a log of its own, and 16 to 64 are enough for
   * most. Default: 16.
   */
  shards?: number
  /** 'replicated' refuses a database that answers before a synchronous standby has what was written. */
  durability?: 'replicated'
  /** Times by which processes judge each other. */
  times?: Partial<ClusterTimes>
  /** Version of this process's code, as others see it. */
  version?: string
  /**
   * How long, in ms, a shard is kept that is to be given over, until steps that are under way in it and may not be
   * repeated have ended. Default: 10,000.
   */
  handOverMs?: number
}

const checkCluster = shape<ClusterOptions>({
  url: text,
  store: methods('join', 'view', 'log', 'submit', 'take', 'settle', 'outcome', 'tell', 'leave'),
  name: text,
  shards: integer(1, 4_096),
  durability: oneOf('replicated'),
  times: shape<Partial<ClusterTimes>>({ beatMs: wait(), suspectMs: wait(), ttlMs: wait(), graceMs: pause }),
  version: text,
  handOverMs: pause,
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
  readonly commons: Pick<Commons, 'divide' | 'close'>
}

/** Options of a run that any process of the cluster can take. */
export interface ClusterRunOptions extends SentOptions {
  /** Id of the run: once over the whole cluster. Default: a UUID. */
  runId?: string
  /** Runs of one thread, and of one key, come to the same shard. */
  key?: string
  /** Ends the wait of `execute`; the run goes on. */
  signal?: AbortSignal
}

/** Result of a run as every process of the cluster can have it: the history and the trace stay with its shard. */
export type ClusterResult = Pick<
  MultiAgentResult<unknown>,
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

/** A run that this process has submitted. */
export interface ClusterRun {
  readonly id: string
  readonly shard: number
  /** Result of the run, whoever does it. */
  result(signal?: AbortSignal): Promise<ClusterResult>
}

const DEFAULT_SHARDS = 16
const HAND_OVER_MS = 10_000

type Options = InCluster & Pick<TeamOptions, 'budget' | 'enableBlackboard' | 'logger'>

export class ClusterTeam<Team extends TeamRuntime = TeamRuntime> implements AsyncDisposable {
  readonly #options: Options
  readonly #parts: ClusterParts<Team>
  readonly #shards: number
  readonly #teams = new Map<number, Team>()
  #process: Promise<ClusterProcess> | undefined
  #started: Promise<void> | undefined

  constructor(options: Options, parts: ClusterParts<Team>) {
    checkCluster(options.cluster, 'cluster')
    const { url, store, shards = DEFAULT_SHARDS } = options.cluster
    if ((url === undefined) === (store === undefined))
      throw refusedAs('cluster', url === undefined ? 'neither url nor store' : 'url and store', 'one of the two')
    refuseWhatNeedsOneProcess(options)
    this.#options = options
    this.#shards = shards
    this.#parts = parts
    parts.team(undefined) // what is wrong with it is said at once
  }

  /** Joins the cluster. Shards come as others give them up. @throws ConfigurationError, ClusterUnreachableError */
  start(signal?: AbortSignal): Promise<void> {
    this.#started ??= this.#processOf().then((process) => process.start(signal))
    return this.#started
  }

  /** Shards that this process holds now, each with the team that has it. */
  get held(): ReadonlyMap<number, Team> {
    return this.#teams
  }

  /** Takes a run into the cluster: it is durable, and begun once, when this resolves. */
  async launch(query: string | Content, options: ClusterRunOptions = {}): Promise<ClusterRun> {
    const { runId = randomUUID(), key, signal } = options
    const sent = sentOptions(options)
    readQuery(query)
    await this.start()
    const process = await this.#processOf()
    const shard = shardOf(sent.threadId ?? key ?? runId, this.#shards)
    const run: SentRun = { query: asJson(query), options: sent }
    const body = Buffer.from(JSON.stringify(run))
    const hash = createHash('sha256').update(body).digest('hex')
    if ((await process.submit({ id: runId, shard, hash, body }, signal)) === 'conflict')
      throw new ConfigurationError(
        `runId: a run "${runId}" with another query or other options is known: take another id.`,
        {
          path: 'runId',
        },
      )
    const result = async (waits?: AbortSignal) => resultFrom(runId, await process.outcome(runId, waits))
    return { id: runId, shard, result }
  }

  /** Runs the team on a query, at whichever process holds the shard of its thread, key or id. */
  async execute(query: string | Content, options: ClusterRunOptions = {}): Promise<ClusterResult> {
    const run = await this.launch(query, options)
    return run.result(options.signal)
  }

  /** Gives its shards over to the others and leaves. What is under way goes on there. */
  async close(): Promise<void> {
    if (this.#process) await (await this.#process).close()
    await this.#parts.commons.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #processOf(): Promise<ClusterProcess> {
    this.#process ??= this.#make()
    return this.#process
  }

  async #make(): Promise<ClusterProcess> {
    const { version, store, url = '', handOverMs = HAND_OVER_MS } = this.#options.cluster
    const [{ ClusterProcess }, { TeamShard }] = await Promise.all([import('./process.ts'), import('./team-shard.ts')]) // late: few have a cluster
    return new ClusterProcess({
      store: store ?? (await this.#parts.engine({ ...this.#options.cluster, url, shards: this.#shards })),
      shards: this.#shards,
      ...(version !== undefined && { self: { version } }),
      handOverMs,
      clock: systemClock,
      logger: this.#options.logger ?? defaultLogger,
      hold: (log) => this.#hold(log, TeamShard),
      live: (processes) => this.#parts.commons.divide(processes),
    })
  }

  #hold(log: ShardLog, TeamShard: typeof TeamShardClass): Shard {
    const team = this.#parts.team({ ...this.#options.stateManagement, store: log, resume: 'manual' })
    const shard = new TeamShard(team, log)
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

/** The shard of a key: the same in every process and every version. */
function shardOf(key: string, shards: number): number {
  return createHash('sha256').update(key).digest().readUInt32LE(0) % shards
}

function sentOptions(options: ClusterRunOptions): SentOptions {
  const { runId, key, signal, ...sent } = options
  if (key !== undefined && (typeof key !== 'string' || key === ''))
    throw refused('key', key, 'a text that is not empty')
  if ('output' in sent) throw refusedAs('output', 'a schema', 'none in a cluster', 'Set `output` of the team.')
  readRunOptions({ ...sent, ...(runId !== undefined && { runId }), ...(signal && { signal }) })
  return sent
}

/** Refuses what a cluster cannot promise: it would hold for each process alone, and nobody would see that. */
function refuseWhatNeedsOneProcess({ cluster, budget, enableBlackboard, stateManagement }: Options): void {
  const { shards = DEFAULT_SHARDS } = Object(cluster) as ClusterOptions
  const [place] = ['path', 'store'].filter((key) => Reflect.has(Object(stateManagement), key))
  if (place)
    throw refusedAs(`stateManagement.${place}`, 'a place of the log', 'none beside cluster', 'The engine has the logs.')
  if (shards > 1 && budget?.perTeam)
    throw refusedAs('budget.perTeam', 'a budget over all shards', 'perRun', 'Or set cluster.shards to 1.')
  if (shards > 1 && Object(enableBlackboard).scope === 'team')
    throw refusedAs(
      'enableBlackboard.scope',
      `one board for ${shards} shards`,
      '"run"',
      'A board of a team lives in one shard: set cluster.shards to 1 for one owner and hot standbys.',
    )
}

function resultFrom(runId: string, outcome: TaskOutcome | undefined): ClusterResult {
  if (!outcome) throw new UnknownRunError(`no run has the id "${runId}", or its outcome is kept no more.`, { runId })
  const data = JSON.parse(Buffer.from(outcome.body).toString()) as ClusterResult & { error: ErrorData | null }
  return { ...data, runId, error: data.error && errorFrom(data.error) } as ClusterResult
}
