/**
 * Measures how a thread spent the time since its last sign of life: it ran, it slept (or was blocked), or it waited for
 * a processor. Only the first two count against it. Time that is neither known to be sleep nor known to be a wait is in
 * doubt: it counts as a wait, up to a limit.
 */
import type { ThreadTimes } from './thread-times.ts'

/**
 * In the end doubt counts too, at that many times the limit: no thread is silent for ever because nothing is known of
 * it.
 */
const DOUBT = 10

export class Silence {
  readonly beat: number
  /** All of it, as the host saw it; late looks of the host are cut. */
  totalMs = 0
  cpuMs = 0
  blockedMs = 0
  waitedMs = 0
  #doubtMs = 0
  #last: ThreadTimes | undefined

  constructor(beat: number) {
    this.beat = beat
  }

  /** `passedMs` since the last look, of which at most `mostMs` were seen: the host itself may have been late. */
  add(passedMs: number, mostMs: number, now: ThreadTimes | undefined): void {
    this.totalMs += Math.min(passedMs, mostMs)
    if (!now)
      this.blockedMs = this.totalMs // nothing is known but the time
    else if (this.#last) this.#account(passedMs, mostMs, this.#last, now)
    this.#last = now
  }

  #account(passedMs: number, mostMs: number, last: ThreadTimes, now: ThreadTimes): void {
    const ranMs = Math.max(0, now.cpuMs - last.cpuMs)
    const waitedMs = Math.max(0, now.waitedMs - last.waitedMs)
    this.cpuMs += ranMs
    this.waitedMs += waitedMs
    const restMs = Math.min(passedMs - ranMs - waitedMs, mostMs)
    // A wait is told when it is over: until then it is in doubt, and less than nothing is left when it is told.
    if (now.runnable || restMs < 0) this.#doubtMs = Math.max(0, this.#doubtMs + restMs)
    else this.blockedMs += restMs
  }

  isStuck(limitMs: number): boolean {
    return this.cpuMs + this.blockedMs >= limitMs || this.isDoubtful(limitMs)
  }

  /**
   * Checks whether the thread has been silent for so long that it must end, although a lack of processor time may be
   * the only reason.
   */
  isDoubtful(limitMs: number): boolean {
    const surelyMs = this.cpuMs + this.blockedMs
    return surelyMs < limitMs && surelyMs + this.#doubtMs >= DOUBT * limitMs
  }

  /** For people. */
  get words(): string {
    const [all, cpu, blocked] = [this.totalMs, this.cpuMs, this.blockedMs].map(Math.round)
    const waited = Math.round(this.waitedMs + this.#doubtMs)
    return this.#last
      ? `${all} ms: it used ${cpu} ms of processor time, was blocked for ${blocked} ms and waited ${waited} ms for a processor`
      : `${all} ms`
  }
}
