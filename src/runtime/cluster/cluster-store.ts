/**
 * The engine of a cluster: nine methods behind which PostgreSQL and others fit. A call that rejects says
 * nothing about what was written: it may be repeated as it was, and counts once.
 */
import type { DramatisError } from '../../shared/errors.ts'
import type { LogStore } from '../store/log-files.ts'

export interface ClusterStore {
  /** Number of shards that it was made for: a team on it has as many. */
  readonly shards?: number
  /**
   * From now on this process is a member, until `leave` or until it has been silent for too long. Refuses an engine
   * that cannot keep the promises below.
   *
   * @throws ConfigurationError, ClusterUnreachableError
   */
  join(self: NewMember, told: (notice: ClusterNotice) => void, signal?: AbortSignal): Promise<void>
  /**
   * Returns the members that seem to live and the shards that nobody living seems to hold: a guess, which may cost time
   * and breaks nothing.
   */
  view(): Promise<ClusterView>
  /**
   * A log whose `open` is the claim of its shard: from then on no append of an earlier incarnation is acknowledged, nor
   * ever read. `onLost` is called once, when nothing can be appended any more.
   */
  log(shard: number, onLost: (error: DramatisError) => void): ShardLog
  /**
   * Takes a task into the cluster: durable, once over all processes by its id, and given by `take` to every incarnation
   * of its shard until it is settled. 'known': the same task was there; 'conflict': one with the same id and another
   * hash; 'given': it is fresh, and with `log`, the open log of its shard, counts as given by `take` already, since
   * nothing that was accepted before it waits to be taken. An engine need not know `log`.
   */
  submit(task: ClusterTask, log?: ShardLog): Promise<'given' | 'fresh' | 'known' | 'conflict'>
  /**
   * Tasks that are not settled and that this incarnation has not been given yet, in the order of acceptance. An empty
   * list: it has been given all. One that was submitted again may be given again, and so may all where the engine was
   * away.
   */
  take(log: ShardLog): Promise<readonly TakenTask[]>
  /**
   * Settles a task, which is given to nobody any more. The first outcome stays. Called only with what the log of the
   * shard has already: any owner would say the same.
   */
  settle(id: string, outcome: TaskOutcome): Promise<void>
  /** Returns the state of a task; undefined for one that nobody knows. It may be old by a moment; an outcome stays. */
  outcome(id: string): Promise<TaskState | undefined>
  /** Wakes other processes, at most once and perhaps never: whoever waits also looks by itself. */
  tell(notice: ClusterNotice): void
  /** News of the engine for the others, such as its last failover. Optional, as is `hear`. */
  readonly news?: string
  /** Takes what another process of the cluster gives as its `news`. */
  hear?(news: string): void
  /** This process is a member no more. Its shards were closed before. */
  leave(): Promise<void>
}

/** Times by which processes judge each other, in ms. */
export interface ClusterTimes {
  /** Between two signs of life. Default: 2,000. */
  readonly beatMs: number
  /** A process that has been silent for so long, and whose connection has fallen, is dead. Default: 3,000. */
  readonly suspectMs: number
  /** A process that has been silent for so long is dead. Default: 10,000. */
  readonly ttlMs: number
  /**
   * Time after a failover of the engine in which no shard is taken from its owner, which may have to mend its log.
   * Default: 3,000.
   */
  readonly graceMs: number
}

export const TIMES: ClusterTimes = { beatMs: 2_000, suspectMs: 3_000, ttlMs: 10_000, graceMs: 3_000 }

/** How long the engine keeps what has ended. */
export interface ClusterKeep {
  /**
   * Days for which the outcome of a run can be had after its end, and its `runId` joins it: later the same id would
   * begin a run anew. Default: 30.
   */
  readonly days?: number
}

/** A process as it joins. */
export interface NewMember {
  /** A UUID that the process draws. */
  readonly id: string
  /** Base URL under which the others reach it, if they do. */
  readonly address?: string
  /** Version of its code, as it names itself. */
  readonly version?: string
}

export interface ClusterMember extends NewMember {
  readonly host: string
  readonly pid: number
  /** Shards that it holds. */
  readonly shards: readonly number[]
}

export interface ClusterView {
  readonly members: readonly ClusterMember[]
  /** Shards that this process may claim now: those that stand in its own name are among them. */
  readonly free: readonly number[]
}

export interface ShardLog extends LogStore {
  readonly shard: number
  /**
   * Once it is open: bytes that the engine had acknowledged and has lost since, as far as anybody remembers. Its end
   * may be missing even where that is 0, and what was under way then may have been done in part. Undefined where
   * nothing can be missing.
   */
  readonly lost: number | undefined
}

/** A run, or an answer, a cancellation, a request with a key: what the owner of a shard is to do. */
export interface ClusterTask {
  readonly id: string
  readonly shard: number
  /** Tells one task from another under the same id. */
  readonly hash: string
  readonly body: Uint8Array
}

export interface TakenTask extends ClusterTask {
  /** True if the log lost its end after the acceptance: the task may have been begun, and nobody knows. */
  readonly doubtful: boolean
}

export interface TaskOutcome {
  readonly status: 'finished' | 'failed'
  readonly body: Uint8Array
}

export interface TaskState {
  readonly shard: number
  /** Undefined until the task is settled. */
  readonly outcome: TaskOutcome | undefined
}

/**
 * Something to look at: new tasks of a shard, the outcome of one (with it, if the log of its shard has that it
 * finished: then an engine that cannot tell as much tells nothing), a member that gives its shards up, a shard that is
 * passed on with the version whose code cannot go on with it, or what a member says of its waits, in up to 4,000
 * characters.
 */
export type ClusterNotice =
  | { readonly shard: number }
  | { readonly settled: string; readonly outcome?: TaskOutcome }
  | { readonly leaves: string }
  | { readonly passes: string }
  | { readonly waits: string }

/** Place of a cluster, for who looks at it from outside. */
export interface ClusterAt {
  readonly url: string
  readonly name: string
}

/** A cluster as its engine shows it to who operates it. */
export interface SeenCluster {
  readonly members: readonly ClusterMember[]
  readonly shards: readonly SeenShard[]
  /** Names of all clusters that the engine knows. */
  readonly names: readonly string[]
}

export interface SeenShard {
  readonly shard: number
  /** Id of the living member that holds it. */
  readonly owner: string | null
  /** Times that it was taken. */
  readonly incarnation: number
  /** Bytes of its log that are kept, as the engine counts them. */
  readonly bytes: number
  /** Tasks that are not settled. */
  readonly open: number
}
