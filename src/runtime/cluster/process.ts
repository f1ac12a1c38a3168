/**
 * A process of a cluster: it holds its share of the shards, does their tasks, and waits for the outcomes of its own.
 * All that it guesses about the others costs time at worst: the engine lets only the last claim of a shard write.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from '../../actors/definition/tool.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { DramatisError, describe } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { BoundedMap } from '../log/run-log.ts'
import type {
  ClusterMember,
  ClusterStore,
  ClusterTask,
  ClusterView,
  NewMember,
  ShardLog,
  TakenTask,
  TaskOutcome,
  TaskState,
} from './cluster-store.ts'

/** Holder of a shard: a team whose log is the shard's. */
export interface Shard {
  /** Opens the log, which is the claim, and goes on with what stands in it. */
  start(): Promise<void>
  /**
   * Does a task, or goes on with it if the log has it. Resolves when the log has the outcome; with nothing where this
   * owner has none to say, because the shard is given up; with 'elsewhere' if the code here cannot go on with it.
   */
  settle(task: TakenTask): Promise<TaskOutcome | 'elsewhere' | undefined>
  /** Gives the shard up. `stepsMs`: how long steps that are under way and may not be repeated may continue. */
  close(stepsMs?: number): Promise<void>
}

export interface ClusterProcessOptions {
  readonly store: ClusterStore
  readonly shards: number
  /** Default: a UUID that is drawn. */
  readonly id?: string
  readonly self?: Omit<NewMember, 'id'>
  /** How long steps that are under way and may not be repeated hold up the hand-over of their shard, in ms. */
  readonly handOverMs: number
  readonly clock: Scheduler
  readonly logger: Logger
  /** Makes what holds a shard. `log` is not open yet. */
  hold(log: ShardLog): Shard
  /** Called with what another process says of its waits. */
  heard(waits: string): void
  /** Called with the number of processes that live, at each look. */
  live(processes: number): void
}

/** Time in ms after which a process looks by itself: notices may get lost. */
const LOOK_MS = 500
/** Every so many times it also asks for all outcomes that somebody waits for. */
const LOOKS_AN_ASK = 4
const PAUSE_MS = 200
const MOST_FRESH = 10_000
/** Time in ms for which a process that is no member any more is asked for news. */
const KNOWN_MS = 60_000
/** Time in ms between two exchanges of news. */
const NEWS_MS = 1_000

interface Held {
  readonly shard: Shard
  readonly log: ShardLog
  /** Tasks are taken from the engine; `again` if more may have come meanwhile. */
  taking: Promise<void> | undefined
  again: boolean
  /** Ids of tasks that are under way. */
  readonly tasks: Set<string>
  /** Set once it is given up: it takes no more tasks. */
  leaving: Promise<void> | undefined
  /** Members that there were when it was taken beyond the fair share: it is kept while they are the same. */
  readonly beyond: string | undefined
}

export class ClusterProcess {
  readonly id: string
  readonly #options: ClusterProcessOptions
  readonly #held = new Map<number, Held>()
  /** Shards that are being opened. */
  readonly #opening = new Set<number>()
  /** Wakers of those who wait for the outcome of a task, by its id. */
  readonly #waiting = new Map<string, Set<(outcome?: TaskOutcome) => void>>()
  /** Tasks that this process was the first to submit, and of which it has heard nothing since: they are not settled. */
  readonly #fresh = new BoundedMap<string, true>(MOST_FRESH)
  /** Members that give their shards up: they take no share any more. */
  readonly #leavers = new Set<string>()
  readonly #lookers = new Set<(view: ClusterView) => void>()
  /** The cluster as this process saw it last. */
  view: ClusterView = { members: [], free: [] }
  /** Shards with runs that the code here cannot go on with. */
  readonly #unable = new Set<number>()
  /** Shards that others have passed on for that reason. */
  readonly #passed = new Set<number>()
  /** Outcomes that the engine is given. */
  readonly #settling = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  #look: Timer | undefined
  #news: Timer | undefined
  #looks = 0
  #looking: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor(options: ClusterProcessOptions) {
    this.#options = options
    this.id = options.id ?? randomUUID()
  }

  /** True once this process gives its shards up. */
  get isLeaving(): boolean {
    return this.#closing.signal.aborted
  }

  /** Shards that this process holds. */
  get shards(): readonly number[] {
    return [...this.#held.keys()].sort((one, other) => one - other)
  }

  /**
   * Joins the cluster. Shards come later, as the others give them up.
   *
   * @throws ConfigurationError, ClusterUnreachableError
   */
  async start(signal?: AbortSignal): Promise<void> {
    const { store, self } = this.#options
    await store.join(
      { ...self, id: this.id },
      (notice) => {
        if ('settled' in notice) this.#wake(notice.settled, notice.outcome)
        else if ('waits' in notice) this.#options.heard(notice.waits)
        else if ('passes' in notice) this.#hearOfPass(notice.passes)
        else if ('leaves' in notice) this.#leavers.add(notice.leaves)
        else this.#take(notice.shard)
      },
      signal,
    )
    this.#lookNow()
  }

  /** Takes a task into the cluster, from any process. @throws what the engine has thrown last, when `signal` aborts */
  async submit(task: ClusterTask, signal?: AbortSignal): Promise<'fresh' | 'known' | 'conflict'> {
    this.#fresh.set(task.id, true)
    const held = this.#held.get(task.shard)
    const accepted = await this.#patiently(() => this.#options.store.submit(task, held?.log), signal)
    if (accepted === 'given') {
      if (held && this.#held.get(task.shard) === held) this.#settle(task.shard, held, { ...task, doubtful: false })
      return 'fresh'
    }
    if (accepted !== 'fresh') this.#fresh.delete(task.id)
    this.#take(task.shard)
    return accepted
  }

  /** Resolves with the outcome of a task that was accepted, whoever does it; with nothing where none has that id. */
  async outcome(id: string, signal?: AbortSignal): Promise<TaskOutcome | undefined> {
    for (;;) {
      const told = this.#told(id)
      try {
        if (!this.#fresh.delete(id)) {
          const state = await this.state(id, signal)
          if (!state || state.outcome) return state?.outcome
        }
        const outcome = await told.wait(signal)
        if (outcome) return outcome
      } finally {
        told.forget()
      }
    }
  }

  /** Calls back at each look at the cluster. Returns a function that ends this. */
  onLook(look: (view: ClusterView) => void): () => void {
    this.#lookers.add(look)
    return () => this.#lookers.delete(look)
  }

  /** Returns the state of a task as the engine has it; nothing where none has that id. */
  state(id: string, signal?: AbortSignal): Promise<TaskState | undefined> {
    return this.#patiently(() => this.#options.store.outcome(id), signal)
  }

  /**
   * Exchanges news of the engine with the others, each second: they may have found that it failed over when this
   * process still waits for the primary before. `ask` gives them to a member, and returns its own.
   */
  exchange(ask: (member: ClusterMember, news: string, signal: AbortSignal) => Promise<unknown>): void {
    const { store, clock } = this.#options
    const askOne = async (member: ClusterMember) => {
      if (store.news === undefined || member.id === this.id || member.address === undefined) return
      const theirs = await ask(member, store.news, AbortSignal.timeout(NEWS_MS)).catch(() => undefined) // it may be gone
      if (typeof theirs === 'string') store.hear?.(theirs)
    }
    // In a failover the two sides take each other for dead before either has news.
    const known = new Map<string, { readonly member: ClusterMember; readonly at: number }>()
    const askAll = async () => {
      const now = clock.monotonic()
      for (const member of this.view.members) known.set(member.id, { member, at: now })
      for (const [id, { at }] of known) if (now - at > KNOWN_MS) known.delete(id)
      await Promise.all(Array.from(known.values(), ({ member }) => askOne(member)))
      if (!this.#closing.signal.aborted) this.#news = clock.timer(NEWS_MS, () => void askAll(), 'background')
    }
    void askAll()
  }

  /** Takes the news of another process, and returns those of this one. */
  hear(news: unknown): string | undefined {
    const { store } = this.#options
    if (typeof news === 'string') store.hear?.(news)
    return store.news
  }

  /** Hands over its shards and leaves. Tasks under way go on at the next owner. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing.abort(new Error('the process leaves the cluster'))
    this.#look?.cancel()
    this.#news?.cancel()
    await this.#looking
    const leaves = () => {
      this.#options.store.tell({ leaves: this.id })
      this.#look = this.#options.clock.timer(LOOK_MS, leaves, 'background')
    }
    leaves()
    await Promise.all(this.shards.map((shard) => this.#release(shard)))
    await Promise.all(this.#settling)
    this.#look?.cancel()
    await this.#options.store.leave()
  }

  /** Tries again what the engine could not do, until it can, or the signal or the process ends the wait. */
  async #patiently<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await act()
      } catch (error) {
        if (error instanceof DramatisError || signal?.aborted || this.#closing.signal.aborted) throw error
        await this.#options.clock.sleep(PAUSE_MS, signal ?? this.#closing.signal)
      }
    }
  }

  #lookNow(): void {
    this.#looking = this.#sweep()
      .catch((error) => this.#warn('the engine of the cluster cannot be asked', error))
      .finally(() => {
        this.#looking = undefined
        if (this.#closing.signal.aborted) return
        this.#look = this.#options.clock.timer(LOOK_MS, () => this.#lookNow(), 'background')
      })
    for (const shard of this.#held.keys()) this.#take(shard)
    this.#looks += 1
    if (this.#looks % LOOKS_AN_ASK === 0) for (const id of this.#waiting.keys()) this.#wake(id)
  }

  /** Takes what is free, up to a fair share, or gives up what is beyond it. */
  async #sweep(): Promise<void> {
    const { store, self } = this.#options
    const before = new Set(this.#held.keys())
    const view = await store.view()
    const { members, free } = view
    this.view = view
    for (const look of [...this.#lookers]) look(view)
    for (const id of this.#leavers) if (!members.some((member) => member.id === id)) this.#leavers.delete(id)
    const stay = members.filter(({ id }) => !this.#leavers.has(id))
    const processes = Math.max(1, stay.length)
    this.#options.live(processes)
    const [most, least] = [Math.ceil, Math.floor].map((round) => round(this.#options.shards / processes))
    const isLacking = stay.some(({ id, shards }) => id !== this.id && shards.length < least!)
    // with the most for all, the last to come could have none; with the least, a shard would have nobody
    const share = isLacking ? least! : most!
    const kept = [...this.#held].flatMap(([shard, { leaving }]) => (leaving ? [] : [shard]))
    const room = share - kept.length - this.#opening.size
    const all = members.map(({ id }) => id).join()
    const there = free.filter((shard) => !this.#held.has(shard) && !this.#opening.has(shard))
    const wanted = there.filter((shard) => this.#isAble(shard))
    for (const shard of this.#unable) {
      if (this.#isAble(shard)) this.#unable.delete(shard)
      else if (free.includes(shard)) store.tell({ passes: `${shard} ${self?.version ?? ''}` })
    }
    // a claim of which it was not told, or a hand-over of which the engine was not: nobody else may take it
    const own = members.find(({ id }) => id === this.id)?.shards.filter((shard) => !before.has(shard)) ?? []
    const named = there.filter((shard) => own.includes(shard))
    const others = this.#shuffled(wanted.filter((shard) => !named.includes(shard)))
    const taken = [...named, ...others.slice(0, Math.max(0, room - named.length))]
    const passed = wanted.filter((shard) => this.#passed.has(shard))
    for (const shard of passed) this.#passed.delete(shard)
    if (passed.length > 0) {
      await Promise.all(passed.map((shard) => this.#open(shard, all)))
      return
    }
    await Promise.all(taken.map((shard) => this.#open(shard)))
    if (others.length > 0) return
    const beyond = kept.filter((shard) => this.#held.get(shard)?.beyond === all)
    const fair = kept.filter((shard) => !beyond.includes(shard)).sort((one, other) => one - other)
    for (const shard of fair.slice(Math.max(0, share - beyond.length))) void this.#release(shard)
  }

  /** Checks whether the code here can go on with a shard, or nobody with other code is there. */
  #isAble(shard: number): boolean {
    return !this.#unable.has(shard) || !this.#hasOthers
  }

  /** True if a process with another version of the code lives, and stays. */
  get #hasOthers(): boolean {
    const { self } = this.#options
    return this.view.members.some(({ id, version }) => version !== self?.version && !this.#leavers.has(id))
  }

  #hearOfPass(passes: string): void {
    const [shard = '', version = ''] = passes.split(/ (.*)/s)
    if (version !== (this.#options.self?.version ?? '')) this.#passed.add(Number(shard))
  }

  /** Passes a shard on to a process with other code, as long as there is one. */
  #passOn(number: number): void {
    if (!this.#hasOthers) return
    this.#unable.add(number)
    const text = `shard ${number} has runs that the code here (${this.#options.self?.version ?? 'no version'}) cannot go on with: a process with another version takes it`
    this.#options.logger.info({ member: this.id }, text)
    void this.#release(number)
  }

  /** Processes that look at once begin with different shards. */
  #shuffled(shards: readonly number[]): number[] {
    const { clock } = this.#options
    const keyed = shards.map((shard) => ({ shard, key: clock.random() }))
    return keyed.sort((one, other) => one.key - other.key).map(({ shard }) => shard)
  }

  async #open(number: number, beyond?: string): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#opening.add(number)
    let held: Held | undefined
    const log = this.#options.store.log(number, (error) => {
      this.#warn(`shard ${number} is lost`, error)
      if (held && this.#held.get(number) === held) this.#held.delete(number)
      shard.close().catch((failure) => this.#warn(`shard ${number} does not close`, failure))
    })
    const shard = this.#options.hold(log)
    try {
      await shard.start()
      if (log.lost !== undefined)
        this.#options.logger.warn(
          { member: this.id, shard: number, lostBytes: log.lost },
          `the engine has lost the end of the log of shard ${number} in a failover: runs that were under way then are told PAST_LOST, or repeat steps (cluster.onCut)`,
        )
      held = { shard, log, taking: undefined, again: false, tasks: new Set(), leaving: undefined, beyond }
      if (log.state !== 'open') return
      this.#held.set(number, held)
      this.#take(number)
    } catch (error) {
      if (!(error instanceof DramatisError) || error.code !== 'LOG_HELD')
        this.#warn(`shard ${number} cannot be opened`, error)
      await shard.close().catch(() => {})
    } finally {
      this.#opening.delete(number)
    }
  }

  async #release(number: number): Promise<void> {
    const held = this.#held.get(number)
    if (!held) return
    held.leaving ??= held.shard
      .close(this.#options.handOverMs)
      .catch((error) => this.#warn(`shard ${number} does not close`, error))
      .finally(() => {
        if (this.#held.get(number) === held) this.#held.delete(number)
      })
    await held.leaving
  }

  /** Takes the tasks of a shard that this process holds. */
  #take(number: number): void {
    const held = this.#held.get(number)
    if (!held || held.leaving) return
    held.again = true
    held.taking ??= this.#takeAll(number, held)
      .catch((error) => this.#warn(`the tasks of shard ${number} cannot be taken`, error))
      .finally(() => {
        held.taking = undefined
      })
  }

  async #takeAll(number: number, held: Held): Promise<void> {
    while (held.again && !held.leaving && this.#held.get(number) === held) {
      held.again = false
      const tasks = await this.#options.store.take(held.log)
      for (const task of tasks) this.#settle(number, held, task)
      held.again ||= tasks.length > 0
    }
  }

  /** An outcome is said only by who holds the shard: another owner has it, or will have it, from the log. */
  #settle(number: number, held: Held, task: TakenTask): void {
    const { id } = task
    if (held.tasks.has(id)) return
    held.tasks.add(id)
    const settled = async () => {
      const outcome = await held.shard.settle(task)
      if (outcome === 'elsewhere') return this.#passOn(number)
      if (!outcome || this.#held.get(number) !== held) return
      // the log has it: whoever waits need not wait for the engine too
      if (outcome.status === 'finished' && !this.#wake(id, outcome)) this.#options.store.tell({ settled: id, outcome })
      await this.#patiently(() => this.#options.store.settle(id, outcome))
      this.#wake(id)
    }
    const settling = settled()
      .catch((error) => {
        if (!this.#closing.signal.aborted) this.#warn(`the outcome of ${id} cannot be kept`, error)
      })
      .finally(() => {
        held.tasks.delete(id)
        this.#settling.delete(settling)
      })
    this.#settling.add(settling)
  }

  /** Begins a wait for a notice: an outcome is there, or it is time to look. */
  #told(id: string): { wait(signal?: AbortSignal): Promise<TaskOutcome | undefined>; forget(): void } {
    const { promise, resolve } = withResolvers<TaskOutcome | undefined>()
    const all = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, all.add(resolve))
    return {
      wait: (signal) => unlessAborted(signal ?? this.#closing.signal, promise),
      forget: () => {
        all.delete(resolve)
        if (all.size === 0) this.#waiting.delete(id)
      },
    }
  }

  /** Wakes those who wait for a task here. Returns whether any do. */
  #wake(id: string, outcome?: TaskOutcome): boolean {
    this.#fresh.delete(id)
    const waiting = this.#waiting.get(id)
    for (const wake of waiting ?? []) wake(outcome)
    return waiting !== undefined
  }

  #warn(what: string, error: unknown): void {
    this.#options.logger.warn({ member: this.id }, `${what}: ${describe(error)}`)
  }
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
