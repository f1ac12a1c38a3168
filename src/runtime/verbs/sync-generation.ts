/**
 * Generations of one sync point in one run, one after the other. A generation is open from its first arrival until all
 * required agents have arrived, or until it ends without some of them, as the point's `onTimeout` says.
 *
 *   ann, bob -> complete: everybody gets the result --------------------\
 *   ann alone -> time is up, bob is gone for ever, or it is given up:    -> the next arrival opens the next generation;
 *                the result or an error, as `onTimeout` says -----------/   bob's next is late: an error, once
 */
import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { Scheduler, Timer } from '../../clock.ts'
import { type DramatisError, MessageRejectedError, SyncPointTimeoutError } from '../../errors.ts'
import { LOG_ONLY, SEND } from '../../mailbox/frame.ts'
import { onAbort } from '../../on-abort.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { SyncPointSettings } from '../settings/sync-points.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell, Waiter } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import { fateOf, missingAt, type OpenGeneration, resultOf } from './sync-rules.ts'

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
}

interface Settling {
  resolve(result: SyncResult): void
  reject(error: DramatisError): void
}

interface Arrival extends Waiter, Settling {
  readonly attempt: number
  readonly data: unknown
}

/** Generation that has ended. */
export interface Closed {
  readonly result: SyncResult
  /** Epoch ms. */
  readonly at: number
  /** Error that all waiting turns were rejected with. */
  readonly error: DramatisError | undefined
}

/** Reason why a generation ends without some agents. */
interface Why {
  readonly text: string
  readonly advice: string
  readonly cause?: DramatisError
}

export class SyncGenerations implements OpenGeneration {
  readonly run: RunState
  readonly point: SyncPointSettings
  /** Number of the generation that is open, or that the next arrival opens. */
  generation = 1
  readonly #needs: Needs
  readonly #arrivals = new Map<string, Arrival>()
  readonly #watchers = new Set<Waiter & Settling>()
  /**
   * Agents that were missing when a generation ended, with the last such generation. The map is by agent, not by name:
   * a later agent may have the same name.
   */
  readonly #late = new Map<Cell, Closed>()
  /** Generation that ended last, if the script has not received it. */
  #news: Closed | undefined
  #timer: Timer | undefined
  /** Sync points with a turn that waits. */
  readonly #open: Set<SyncGenerations>

  constructor(needs: Needs, run: RunState, point: SyncPointSettings, open: Set<SyncGenerations>) {
    this.#needs = needs
    this.run = run
    this.point = point
    this.#open = open
  }

  get arrived(): Iterable<Waiter> {
    return this.#arrivals.values()
  }
  get watchers(): Iterable<Waiter> {
    return this.#watchers
  }
  get missing(): readonly string[] {
    return missingAt(this.point, this.#arrivals)
  }

  /**
   * Registers the arrival of a required agent's turn, in that attempt, and waits for the others; `signal` withdraws the
   * arrival. `passedMs`: time for which it has waited in earlier processes.
   */
  arrive(
    { passedMs, ...waiter }: Waiter & { passedMs: number },
    attempt: number,
    data: unknown,
    signal: AbortSignal,
  ): Promise<SyncResult> {
    const { cell, turn } = waiter
    const late = this.#late.get(cell)
    if (late) {
      this.#late.delete(cell)
      throw tooLate(cell.name, this, late)
    }
    const former = this.#arrivals.get(cell.name)
    // An attempt after a crash that brings something else replaces the arrival of the earlier attempt.
    if (former && (former.turn !== turn || former.attempt >= attempt)) throw twice(cell.name, this)
    return new Promise((resolve, reject) => {
      const arrival: Arrival = { ...waiter, attempt, data, resolve, reject }
      this.#arrivals.set(cell.name, arrival)
      onAbort(signal, () => {
        if (this.#arrivals.get(cell.name) === arrival) this.#arrivals.delete(cell.name)
        this.judge()
      })
      const leftMs = Math.max(0, this.point.timeoutMs - passedMs)
      this.#timer ??= this.#needs.clock.timer(leftMs, () => this.#timeIsUp())
      this.judge()
    })
  }

  /**
   * Waits, for the script, for the result of the last generation that it has not received, or of the next one; `signal`
   * ends the wait.
   */
  watch(waiter: Waiter, signal: AbortSignal): Promise<SyncResult> {
    return new Promise((resolve, reject) => {
      const news = this.#news
      this.#news = undefined
      if (news) return settle([{ resolve, reject }], news)
      const watcher = { ...waiter, resolve, reject }
      this.#watchers.add(watcher)
      onAbort(signal, () => {
        this.#watchers.delete(watcher)
        this.judge()
      })
      this.judge()
    })
  }

  giveUp(reason: DramatisError): void {
    if (this.#open.has(this)) this.#end({ text: reason.message, advice: '', cause: reason })
  }

  /** Ends the open generation if its time has come: an agent has arrived or left, or is gone permanently. */
  judge(): void {
    if (this.#arrivals.size === 0) this.#stopTimer()
    if (this.#arrivals.size + this.#watchers.size === 0) {
      this.#open.delete(this)
      return
    }
    this.#open.add(this)
    const fate = fateOf(this.point, this.#arrivals, (name) => this.#isGone(name))
    if (fate === 'complete') this.#end(undefined)
    else if (fate === 'lost') {
      const gone = this.missing.filter((name) => this.#isGone(name))
      this.#end({ text: `${gone.join(', ')} ${are(gone)} gone for good.`, advice: ' The log says why.' })
    }
  }

  #isGone(name: string): boolean {
    const cell = this.#needs.directory.cell(name, this.run)
    return !cell || cell.removed || cell.gone !== undefined
  }

  #timeIsUp(): void {
    const { missing } = this
    const { timeoutMs } = this.point
    const text = `${missing.join(', ')} did not arrive within ${timeoutMs} ms of the first arrival.`
    this.#end({ text, advice: " Raise the point's timeoutMs, or look at what the missing were at." })
  }

  #stopTimer(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Ends the open generation. `why` is given if it ends without some agents. */
  #end(why: Why | undefined): void {
    const { point, run } = this
    const result = resultOf(point, this.generation, this.#arrivals)
    const error = why && point.onTimeout === 'abort' ? aborted(this, result, why) : undefined
    const closed: Closed = { result, at: this.#needs.clock.now(), error }
    const waiting: Settling[] = [...this.#arrivals.values(), ...this.#watchers]
    this.#news = this.#watchers.size > 0 ? undefined : closed
    this.#arrivals.clear()
    this.#watchers.clear()
    this.#stopTimer()
    this.#open.delete(this)
    this.generation += 1
    this.#noteLate(closed)
    this.#needs.journal.record(run, { kind: 'sync', point: point.name, result, ...(error && { error }) })
    if (why && point.onTimeout === 'notify') this.#report(result, why)
    settle(waiting, closed)
  }

  #noteLate(closed: Closed): void {
    for (const name of closed.result.missing) {
      const cell = this.#needs.directory.cell(name, this.run)
      if (cell) this.#late.set(cell, closed)
    }
  }

  // ---- what an earlier process has done

  restore(closed: Closed, isHeard: boolean): void {
    this.generation = closed.result.generation + 1
    this.#news = isHeard ? undefined : closed
    this.#noteLate(closed)
  }

  came(cell: Cell): void {
    this.#late.delete(cell)
  }

  heard(): void {
    this.#news = undefined
  }

  /** Writes a report into the log, where a script reads it. Nothing is delivered. */
  #report({ generation, arrived, missing, timedOut }: SyncResult, { text }: Why): void {
    const point = this.point.name
    const { memory, bytes } = this.#needs.frames.make({
      kind: SEND,
      type: 'report',
      step: LOG_ONLY,
      recipient: ORCHESTRATOR_INDEX,
      run: this.run.index,
      content: `Generation ${generation} of sync point "${point}" went on without ${missing.join(', ')}: ${text}`,
      data: JSON.stringify({ event: 'sync', point, generation, arrived, missing, timedOut }),
    })
    this.#needs.journal.appendOwned(this.run, memory, bytes)
  }
}

function settle(waiting: readonly Settling[], { result, error }: Closed): void {
  for (const { resolve, reject } of waiting) {
    if (error) reject(error)
    else resolve(result)
  }
}

const are = (names: readonly string[]) => (names.length === 1 ? 'is' : 'are')
const listed = (names: readonly string[]) => names.join(', ') || 'nobody'

function aborted({ point, run }: OpenGeneration, result: SyncResult, why: Why): SyncPointTimeoutError {
  const { generation, arrived, missing } = result
  return new SyncPointTimeoutError(
    `Generation ${generation} of sync point "${point.name}" was aborted: ${why.text} Arrived: ${listed(arrived)}; missing: ${listed(missing)}.${why.advice}`,
    { point: point.name, generation, runId: run.id, arrived, missing, timeoutMs: point.timeoutMs },
    why.cause,
  )
}

function tooLate(
  agent: string,
  { point, run, generation: next }: OpenGeneration,
  closed: Closed,
): SyncPointTimeoutError {
  const { generation, arrived } = closed.result
  const when = new Date(closed.at).toISOString()
  return new SyncPointTimeoutError(
    `Agent "${agent}" came too late to sync point "${point.name}": generation ${generation} was closed at ${when} without it; arrived: ${listed(arrived)}. If it comes again it arrives in generation ${next}.`,
    { agent, point: point.name, generation, runId: run.id, closedAt: closed.at, arrived, next },
  )
}

const twice = (agent: string, { point, generation }: OpenGeneration) =>
  new MessageRejectedError(
    `Agent "${agent}" waits at sync point "${point.name}" already (generation ${generation}); it can arrive once in each. Await that before it arrives again.`,
    { agent, point: point.name, generation },
  )
