/**
 * The digest of a team as it happens. A line is made once for all who watch, at most ten times a second or when it has
 * 4,000 rows, and none is made while nobody watches.
 */

import type { Observable, Subscription } from 'rxjs'
import { systemClock, type Timer } from '../../shared/clock.ts'
import type { Batch } from '../log/records.ts'
import { type Digest, type DigestSnapshot, NONE, STATUSES, type Wait } from './digest-line.ts'
import type { DigestMaker, Looked } from './digest-maker.ts'

/** Lines that a slow reader may be behind: five seconds of a busy team. */
const MOST_LINES = 50

export class Watcher {
  /** True if it is to get the state of the team next: in the beginning, and when it has missed lines. */
  isBehind = true
  #lines: Digest[] = []
  #isOver = false
  #wake: (() => void) | undefined

  begin(state: Digest): void {
    this.isBehind = false
    this.#lines = [state]
  }

  push(line: Digest): void {
    if (this.isBehind) return
    if (this.#lines.length >= MOST_LINES) {
      this.#lines = []
      this.isBehind = true
    } else this.#lines.push(line)
    this.#wake?.()
  }

  end(): void {
    this.#isOver = true
    this.#wake?.()
  }

  /** Resolves to the lines that have come, or to none once it is over. */
  async next(): Promise<Digest[]> {
    while (this.#lines.length === 0 && !this.#isOver && !this.isBehind)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    return this.#lines.splice(0)
  }
}

interface Needs {
  readonly records$: Observable<Batch>
  maker(): DigestMaker
  /** Passes on what is logged and was not passed on yet: a snapshot counts it, so no later line may. */
  settle(): void
  snapshot(): DigestSnapshot
  agents(): Iterable<AgentFigures>
  waits(): Wait[]
  deadLetters(): number
  /** Epoch ms. */
  now(): number
  seq(): number
}

export type AgentFigures = Pick<
  DigestSnapshot['agents'][number],
  'name' | 'status' | 'queued' | 'inFlight' | 'restarts'
>

const LINE_MS = 100
export const MOST_ROWS = 4_000
/** Time between two looks at the agents and their waits. A look that takes long comes less often. */
const LOOK_MS = 250
const LOOK_SHARE = 50
/**
 * Time after the last record at which is looked once more: a turn that logs nothing is told as a wait after a second.
 */
const LAST_LOOK_MS = 1_100
const MOST_WAITS = 500
/** Names after which the table begins anew: runs have names too, and a service has many. */
const MOST_NAMES = 50_000

export class DigestFeed {
  readonly #needs: Needs
  readonly #watchers = new Set<Watcher>()
  #maker: DigestMaker | undefined
  #subscription: Subscription | undefined
  #timer: Timer | undefined
  /** Time of the machine from which on agents and waits may be looked at again. */
  #nextLook = 0
  /** Figures and waits that were told last. */
  readonly #told = new Map<string, string>()
  #toldWaits = '[]'
  /** Number of dead letters that watchers count by now; undefined if they may count differently. */
  #toldLetters: number | undefined
  /** True if agents or waits may have changed since they were looked at. */
  #mayLook = false
  /** The last look, as long as nothing more is logged. */
  #lastLook: Timer | undefined

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Yields a line with the state of the team, then what happens, until the team is closed or `signal` is aborted. */
  async *watch(signal?: AbortSignal): AsyncGenerator<Digest> {
    const watcher = new Watcher()
    const stop = () => watcher.end()
    if (signal?.aborted) return
    signal?.addEventListener('abort', stop, { once: true })
    this.#begin()
    this.#watchers.add(watcher)
    try {
      for (;;) {
        if (watcher.isBehind) {
          this.#needs.settle()
          this.#tell() // what was before is in the snapshot
          watcher.begin(this.#snapshot())
        }
        const lines = await watcher.next()
        if (lines.length === 0 && !watcher.isBehind) return
        yield* lines
      }
    } finally {
      signal?.removeEventListener('abort', stop)
      this.#watchers.delete(watcher)
      if (this.#watchers.size === 0) this.#end()
    }
  }

  #begin(): void {
    if (this.#subscription) return
    this.#maker = this.#needs.maker()
    this.#subscription = this.#needs.records$.subscribe({
      next: (batch) => this.#see(batch),
      complete: () => {
        this.#tell()
        for (const watcher of this.#watchers) watcher.end()
      },
    })
  }

  #end(): void {
    this.#subscription?.unsubscribe()
    this.#subscription = undefined
    this.#maker = undefined
    this.#timer?.cancel()
    this.#timer = undefined
    this.#lastLook?.cancel()
    this.#lastLook = undefined
    this.#told.clear()
    this.#toldWaits = '[]'
    this.#toldLetters = undefined
  }

  #see(batch: Batch): void {
    for (const entry of batch) {
      this.#maker?.see(entry)
      if (entry.kind === 'message.dead' && this.#toldLetters !== undefined) this.#toldLetters += 1
      if (this.#maker && this.#maker.rows >= MOST_ROWS) this.#tell()
    }
    this.#look()
    this.#lookLater()
  }

  #lookLater(): void {
    this.#lastLook?.cancel()
    this.#lastLook = systemClock.timer(LAST_LOOK_MS, () => this.#look())
  }

  #look(): void {
    this.#mayLook = true
    this.#timer ??= systemClock.timer(LINE_MS, () => this.#tick())
  }

  #tick(): void {
    this.#timer = undefined
    const { monotonic } = systemClock
    const leftMs = this.#nextLook - monotonic()
    if (!this.#mayLook || leftMs > 0) {
      this.#tell()
      if (this.#mayLook) this.#timer = systemClock.timer(leftMs, () => this.#tick())
      return
    }
    const beganAt = monotonic()
    this.#needs.settle() // a letter that is counted here is in this line's facts, or in those of an earlier one
    this.#mayLook = false
    const agent = this.#changedAgents()
    const waits = this.#changedWaits()
    const deadLetters = this.#changedLetters()
    const tookMs = monotonic() - beganAt
    this.#nextLook = beganAt + Math.max(LOOK_MS, tookMs * LOOK_SHARE)
    this.#tell({ ...(agent && { agent }), ...(waits && { waits }), ...(deadLetters !== undefined && { deadLetters }) })
  }

  /** Gives all watchers the line of what was seen. */
  #tell(looked: Looked = {}): void {
    const line = this.#maker?.take(looked, this.#needs.now())
    if (line) for (const watcher of this.#watchers) watcher.push(line)
    if (!this.#maker || this.#maker.names < MOST_NAMES) return
    this.#maker = this.#needs.maker()
    for (const watcher of this.#watchers) watcher.isBehind = true
  }

  #changedAgents(): Digest['agent'] {
    const changed: NonNullable<Digest['agent']> = { agent: [], status: [], queued: [], inFlight: [], restarts: [] }
    const gone = new Set(this.#told.keys())
    for (const { name, status, queued, inFlight, restarts } of this.#needs.agents()) {
      gone.delete(name)
      const figures = `${status} ${queued} ${inFlight} ${restarts}`
      if (this.#told.get(name) === figures) continue
      this.#told.set(name, figures)
      changed.agent.push(this.#maker!.placeOf(name))
      changed.status.push(STATUSES.indexOf(status))
      changed.queued.push(queued)
      changed.inFlight.push(inFlight)
      changed.restarts.push(restarts)
    }
    for (const name of gone) {
      this.#told.delete(name)
      changed.agent.push(this.#maker!.placeOf(name))
      for (const column of ['status', 'queued', 'inFlight', 'restarts'] as const) changed[column].push(NONE)
    }
    return changed.agent.length > 0 ? changed : undefined
  }

  #changedWaits(): Wait[] | undefined {
    const waits = this.#needs.waits().slice(0, MOST_WAITS)
    if (waits.some(({ loop }) => loop === 'busy')) this.#lookLater() // the next look tells whether its thread answers
    const told = JSON.stringify(waits)
    if (told === this.#toldWaits) return undefined
    this.#toldWaits = told
    return waits
  }

  #changedLetters(): number | undefined {
    const letters = this.#needs.deadLetters()
    if (letters === this.#toldLetters) return undefined
    this.#toldLetters = letters
    return letters
  }

  /**
   * Returns a line with the state of the team. It may be newer than what was told last, so the next look tells all:
   * else what is then as it was before would never be told to this watcher.
   */
  #snapshot(): Digest {
    for (const name of this.#told.keys()) this.#told.set(name, '')
    this.#toldWaits = ''
    this.#toldLetters = undefined
    const snapshot = this.#needs.snapshot()
    const names = this.#maker!.toldNames
    return { seq: this.#needs.seq() - 1, at: Math.round(this.#needs.now()), n: 0, names, snapshot }
  }
}
