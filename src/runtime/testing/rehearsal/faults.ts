/**
 * Injects the faults of a run, as its seed says. All faults come from here: around the handlers of the agents, and by
 * threads that are ended from outside.
 */
import type { AgentContext } from '../../../actors/definition/context/context.ts'
import type { AgentHandlers } from '../../../actors/definition/definition.ts'
import type { Scheduler } from '../../../clock.ts'
import { AgentCrashedError } from '../../../errors.ts'
import type { TypedMessage } from '../../../mailbox/message.ts'
import { onAbort } from '../../../on-abort.ts'
import { Dice } from '../../providers/seeded-random.ts'
import type { LocalThread } from '../../threads/local-thread.ts'
import type { Fault } from './plan.ts'

/** So few that no agent with the default `maxRestarts` is stopped for good by them alone. */
const MOST_FAULTS = 3
const ODDS = 0.6
const LATEST_STEP = 12
const LONGEST_DELAY_MS = 10_000

/** Fault that has been injected. */
export interface Injected {
  fault: Fault
  agent: string
  /** Epoch ms, by the clock of the run. */
  at: number
}

type Work<T> = () => T | Promise<T>

export class Faults {
  /** In their order. */
  readonly injected: Injected[] = []
  readonly #kinds: readonly Fault[]
  readonly #clock: Scheduler
  readonly #dice: Dice
  readonly #onTurn: (agent: string) => void
  #left: number
  /** A message that was hit is left alone when it comes again. */
  readonly #hit = new Set<string>()
  #hanging = 0

  /** `onTurn` is told whose turn begins. */
  constructor(seed: number, kinds: readonly Fault[], clock: Scheduler, onTurn: (agent: string) => void = () => {}) {
    this.#kinds = kinds
    this.#clock = clock
    this.#onTurn = onTurn
    this.#dice = new Dice(seed, 'faults')
    this.#left = kinds.length === 0 ? 0 : this.#dice.upTo(MOST_FAULTS + 1) // some runs have none
  }

  /** A turn hangs now because it was made to. */
  get hangs(): boolean {
    return this.#hanging > 0
  }

  /** The handlers of one life, with what goes wrong in it. */
  around(agent: string, handlers: AgentHandlers, life: LocalThread): AgentHandlers {
    const { receive, observe } = handlers
    const turn = <T>(message: TypedMessage, context: AgentContext, work: Work<T>) =>
      this.#turn(agent, life, message, context, work)
    return {
      ...handlers,
      receive: (message, context) => turn(message, context, () => receive.call(handlers, message, context)),
      ...(observe && {
        observe: (message, context) => turn(message, context, () => observe.call(handlers, message, context)),
      }),
    }
  }

  #turn<T>(
    agent: string,
    life: LocalThread,
    message: TypedMessage,
    context: AgentContext,
    work: Work<T>,
  ): T | Promise<T> {
    this.#onTurn(agent)
    const fault = this.#draw(message)
    if (fault === undefined) return work()
    this.#hit.add(message.id)
    this.#left -= 1
    this.injected.push({ fault, agent, at: this.#clock.now() })
    switch (fault) {
      case 'crash':
        this.#killSometime(agent, life)
        return work()
      case 'delay':
        return this.#delayed(context, work)
      case 'duplicate':
        return this.#cutOff(agent, life, work)
      case 'hang':
        return this.#hang(AbortSignal.any([context.signal, life.ended]))
      case 'refuse':
        throw context.refuse('the rehearsal let it refuse this task')
    }
  }

  #draw({ id, type }: TypedMessage): Fault | undefined {
    if (this.#left === 0 || this.#hit.has(id) || !this.#dice.chance(ODDS)) return undefined
    const fault = this.#dice.pick(this.#kinds)
    // Nobody hears of a refusal of what is no task.
    return fault === 'refuse' && type !== 'request' && type !== 'delegate' ? undefined : fault
  }

  /**
   * After some steps of the scheduler, or after some time: the agent may be at work, may wait, or may be done by then.
   */
  #killSometime(agent: string, life: LocalThread): void {
    const kill = () => this.#kill(agent, life)
    if (this.#dice.chance(0.25)) {
      const timer = this.#clock.timer(this.#anyTime(), kill)
      onAbort(life.ended, () => timer.cancel())
      return
    }
    const after = (steps: number): void => (steps === 0 ? kill() : this.#clock.defer(() => after(steps - 1)))
    after(Math.floor(LATEST_STEP * this.#dice.random() ** 2)) // most turns are short
  }

  /** From 1 ms on; short ones as often as long ones. */
  #anyTime(): number {
    return Math.ceil(LONGEST_DELAY_MS ** this.#dice.random())
  }

  async #delayed<T>(context: AgentContext, work: Work<T>): Promise<T> {
    const ms = this.#anyTime()
    const before = this.#dice.chance(0.5)
    if (before) await context.sleep(ms)
    const result = await work()
    if (!before) await context.sleep(ms)
    return result
  }

  /** All that the turn does is done, and the host never hears of its end. */
  async #cutOff<T>(agent: string, life: LocalThread, work: Work<T>): Promise<T> {
    const result = await work()
    this.#kill(agent, life)
    return result
  }

  #hang(end: AbortSignal): Promise<never> {
    this.#hanging += 1
    return new Promise((_, reject) => {
      const stop = () => {
        this.#hanging -= 1
        reject(end.reason)
      }
      if (end.aborted) stop()
      else onAbort(end, stop)
    })
  }

  #kill(agent: string, life: LocalThread): void {
    const error = new AgentCrashedError(`The rehearsal ended the life of agent "${agent}".`, { agent })
    life.kill({ code: 1, error, outside: true })
  }
}
