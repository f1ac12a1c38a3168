/**
 * Whether this process's loop of events was blocked: its main thread worked for longer than a bound and had no turn for its timers.
 * Processor time is measured, so a machine whose processors others have is no block; and of each gap the time is taken off for
 * which a process that does nothing was held up as well, by whatever that was.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { type Gap, watchGaps } from './loop-gaps.ts'

const control = new URL('../fixtures/hostile/loop-control.js', import.meta.url)

export interface Block {
  /** On the machine's own clock. */
  from: number
  to: number
  /** Without what the control was held up for, in ms. */
  ms: number
}

export class LoopWatch {
  readonly #child: ChildProcess
  readonly #controls: Gap[] = []
  readonly #gaps: Gap[] = []
  readonly #mostMs: number
  #end = () => {}
  /** Of all gaps the most: at work, and asleep while a timer was due. In ms. */
  longest = { worked: 0, slept: 0 }

  private constructor(mostMs: number) {
    this.#mostMs = mostMs
    this.#child = fork(control, { stdio: 'ignore', execArgv: [] })
    this.#child.on('message', (said: Gap | string) => {
      if (typeof said === 'object') this.#controls.push(said)
      else this.#child.emit('answer')
    })
  }

  static async start(t: Pick<Test, 'teardown'>, mostMs: number): Promise<LoopWatch> {
    const watch = new LoopWatch(mostMs)
    t.teardown(() => watch.close())
    await once(watch.#child, 'answer')
    watch.resume()
    return watch
  }

  pause(): void {
    this.#end()
  }

  resume(): void {
    this.#end = watchGaps(
      (gap) => {
        const { worked, slept } = this.longest
        this.longest = { worked: Math.max(worked, gap.worked), slept: Math.max(slept, gap.own - gap.worked) }
        return gap.worked > this.#mostMs
      },
      (gap) => void this.#gaps.push(gap),
    )
  }

  /** The blocks since it was asked last. */
  async blocks(): Promise<Block[]> {
    const answer = once(this.#child, 'answer')
    this.#child.send('and?')
    await answer
    const controls = this.#controls.splice(0)
    return this.#gaps.splice(0).flatMap(({ from, to, worked }) => {
      const held = controls.filter((gap) => gap.from < to && gap.to > from).map(({ own }) => own)
      const ms = worked - Math.max(0, ...held)
      return ms > this.#mostMs ? [{ from, to, ms }] : []
    })
  }

  async close(): Promise<void> {
    this.pause()
    await ended(this.#child)
  }
}

/** Ends a program that ends when nobody listens to it any more; twice is fine. */
export async function ended(child: ChildProcess): Promise<void> {
  if (!child.connected) return
  const gone = once(child, 'exit')
  child.disconnect()
  await gone
}
