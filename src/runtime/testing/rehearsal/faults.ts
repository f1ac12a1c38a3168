/**
 * Injects the faults of a run, which its seed determines. All faults come from here: they wrap the handlers of agents,
 * or end threads from outside.
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

/** Maximum number of faults per run: too few to stop an agent with the default `maxRestarts` for good by themselves. */
const MOST_FAULTS = 3
const ODDS = 0.6
const LATEST_STEP = 12
const LONGEST_DELAY_MS = 10_000

/** A fault that has been injected. */
export interface Injected {
  fault: Fault
  agent: string
  /** Epoch ms, by the clock of the run. */
  at: number
}

type Work<T> = () => T | Promise<T>

export class Faults {
  /** Faults in the order of their injection. */
  readonly injected: Injected[] = []
  readonly #kinds: readonly Fault[]
  readonly #clock: Scheduler
  readonly #dice: Dice
  readonly #onTurn: (agent: string) => void
  #left: number
  /** Ids of messages that had a fault. A redelivery of such a message gets no other fault. */
  readonly #hit = new Set<string>()
  #hanging = 0

  /** `onTurn` is called at the begin of each turn, with the agent's name. */
  constructor(seed: number, kinds: readonly Fault[], clock: Scheduler, onTurn: (agent: string) => void = () => {}) {
    this.#kinds = kinds
    this.#clock = clock
    this.#onTurn = onTurn
    this.#dice = new Dice(seed, 'faults')
    this.#left = kinds.length === 0 ? 0 : this.#dice.upTo(MOST_FAULTS + 1) // some runs have none
  }

  /** True while a turn hangs because of an injected fault. */
  get hangs(): boolean {
    return this.#hanging > 0
  }

  /** Returns the handlers for one thread of the agent, with faults injected. */
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
    // A refusal has an effect only for a task, so other messages get no such fault.
    return fault === 'refuse' && type !== 'request' && type !== 'delegate' ? undefined : fault
  }

  /**
   * Ends the thread after some steps of the scheduler, or after some time. By then the agent may work, wait or be done.
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

  /**
   * Returns a random delay in ms, from 1 on, on a logarithmic scale, so that short delays are as likely as long ones.
   */
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

  /** Runs the whole turn, then ends the thread before the host learns of the turn's end. */
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
