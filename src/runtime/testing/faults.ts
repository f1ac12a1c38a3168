/** Faults of a rehearsal: how they are put into turns, and its options. */
import { YES } from '../../actors/definition/approval.ts'
import type { AgentContext, Outcome } from '../../actors/definition/context.ts'
import type { AgentDefinition, AgentHandlers } from '../../actors/definition/definition.ts'
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { AgentCrashedError, ConfigurationError, ModelError, shown } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { Dice } from '../../shared/random.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { LocalThread } from '../threads/local-thread.ts'
import type { Answerer } from '../verbs/approvals.ts'

/*
 * Injects the faults of a run, which its seed determines. All faults come from here: they wrap the handlers of agents,
 * or end threads from outside.
 */

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
type Around = <T>(message: TypedMessage, context: AgentContext, work: Work<T>) => T | Promise<T>

/** Returns handlers whose turns are called by `around`. */
export function aroundTurns(handlers: AgentHandlers, around: Around): AgentHandlers {
  const { receive, observe } = handlers
  return {
    ...handlers,
    receive: (message, context) => around(message, context, () => receive.call(handlers, message, context)),
    ...(observe && {
      observe: (message, context) => around(message, context, () => observe.call(handlers, message, context)),
    }),
  }
}

export class Faults {
  readonly injected: Injected[] = []
  readonly #kinds: readonly TurnFault[]
  /** True if models fail, too. */
  readonly #models: boolean
  /** True if people may be late. */
  readonly #people: boolean
  readonly #clock: Scheduler
  readonly #dice: Dice
  readonly #modelDice: Dice
  readonly #personDice: Dice
  readonly #onTurn: (agent: string) => void
  #left: number
  /** Ids of messages that had a fault. A redelivery of such a message gets no other fault. */
  readonly #hit = new Set<string>()
  #hanging = 0

  /** `onTurn` is called at the begin of each turn, with the agent's name. */
  constructor(seed: number, kinds: readonly Fault[], clock: Scheduler, onTurn: (agent: string) => void = () => {}) {
    this.#kinds = kinds.filter(isOfTurn)
    this.#models = kinds.includes('model')
    this.#people = kinds.includes('late')
    this.#clock = clock
    this.#onTurn = onTurn
    this.#dice = new Dice(seed, 'faults')
    this.#modelDice = new Dice(seed, 'models')
    this.#personDice = new Dice(seed, 'late people')
    this.#left = kinds.length === 0 ? 0 : this.#dice.upTo(MOST_FAULTS + 1) // some runs have none
  }

  /** Draws whether the person whom an agent asks answers when the time is up, if there is such a time. */
  readonly isLate = ({ agent, answerBy }: Question): boolean => {
    if (!this.#people || answerBy === undefined || this.#left === 0 || !this.#personDice.chance(LATE_ODDS)) return false
    this.#left -= 1
    this.injected.push({ fault: 'late', agent, at: this.#clock.now() })
    return true
  }

  get hangs(): boolean {
    return this.#hanging > 0
  }

  around(agent: string, handlers: AgentHandlers, thread: LocalThread): AgentHandlers {
    return aroundTurns(handlers, (message, context, work) => this.#turn(agent, thread, message, context, work))
  }

  #turn<T>(
    agent: string,
    thread: LocalThread,
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
        this.#killSometime(agent, thread)
        return work()
      case 'delay':
        return this.#delayed(context, work)
      case 'duplicate':
        return this.#cutOff(agent, thread, work)
      case 'hang':
        return this.#hang(AbortSignal.any([context.signal, thread.ended]))
      case 'refuse':
        throw context.refuse('the rehearsal let it refuse this task')
    }
  }

  /** Returns a client whose calls fail now and then, by the fault `model`. */
  readonly aroundModel = (client: ModelClient): ModelClient => {
    if (!this.#models) return client
    const complete = (request: ModelRequest) => this.#call(client, request)
    return { ...named(client), complete }
  }

  async *#call(client: ModelClient, request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { agent = '', model } = request
    if (this.#left === 0 || !this.#modelDice.chance(MODEL_ODDS)) return yield* client.complete(request)
    this.#left -= 1
    this.injected.push({ fault: 'model', agent, at: this.#clock.now() })
    const how = this.#modelDice.pick(MODEL_FAILURES)
    const words = `The rehearsal let the model "${model}" fail`
    if (how === 'filtered')
      throw new ModelError(`${words}: it withholds its answer.`, { reason: how, retryable: false })
    if (how === 'rate_limit') {
      const retryAfterMs = 1_000 * (1 + this.#modelDice.upTo(60))
      throw new ModelError(`${words}: it is asked too often.`, {
        reason: how,
        status: 429,
        retryable: true,
        retryAfterMs,
      })
    }
    for await (const piece of client.complete(request)) {
      if (piece.finishReason !== undefined || piece.toolCall || this.#modelDice.chance(0.3)) break
      yield piece
    }
    const failing = { reason: 'unreachable', code: 'broken_off', retryable: true }
    throw new ModelError(`${words}: its answer has no end.`, failing)
  }

  #draw({ id, type }: TypedMessage): TurnFault | undefined {
    if (this.#kinds.length === 0 || this.#left === 0 || this.#hit.has(id) || !this.#dice.chance(ODDS)) return undefined
    const fault = this.#dice.pick(this.#kinds)
    // A refusal has an effect only for a task, so other messages get no such fault.
    return fault === 'refuse' && type !== 'request' && type !== 'delegate' ? undefined : fault
  }

  /**
   * Ends the thread after some steps of the scheduler, or after some time. By then the agent may work, wait or be done.
   */
  #killSometime(agent: string, thread: LocalThread): void {
    const kill = () => this.#kill(agent, thread)
    if (this.#dice.chance(0.25)) {
      const timer = this.#clock.timer(this.#anyTime(), kill)
      onAbort(thread.ended, () => timer.cancel())
      return
    }
    const after = (steps: number): void => (steps === 0 ? kill() : this.#clock.defer(() => after(steps - 1)))
    after(Math.floor(LATEST_STEP * this.#dice.random() ** 2)) // most turns are short
  }

  /** On a logarithmic scale, so that short delays are as likely as long ones. */
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
  async #cutOff<T>(agent: string, thread: LocalThread, work: Work<T>): Promise<T> {
    const result = await work()
    this.#kill(agent, thread)
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

  #kill(agent: string, thread: LocalThread): void {
    const error = new AgentCrashedError(`The rehearsal ended the life of agent "${agent}".`, { agent })
    thread.kill({ code: 1, error, outside: true })
  }
}

/*
 * Simulated person of a rehearsal, who answers the questions of agents after a delay: with one of the choices, or with
 * a text that is marked as a rehearsal answer.
 */

type Question = Extract<RuntimeEvent, { type: 'question' }>

const LONGEST_THOUGHT_MS = 10_000
/** Odds that somebody of several who have to agree says it twice. */
const DOUBLE = 0.25
/** Odds that who began the run agrees to a call in it. */
const OWN = 0.25
/** Odds that somebody is late. */
const LATE_ODDS = 0.5

/**
 * `answer`: `by` is one of those whom an approval is for; undefined for whoever is asked. `isLate`: checks whether a
 * question is answered when its time is up. `caller`: of the run, who tries to agree to what he has asked for himself.
 */
export function person(
  seed: number,
  clock: Scheduler,
  answer: (questionId: string, text: string, by: Answerer | undefined) => Promise<void>,
  isLate: (question: Question) => boolean = () => false,
  caller?: string,
) {
  const dice = new Dice(seed, 'person')
  const ownDice = new Dice(seed, 'caller')
  const open = new Set<Timer>()
  const later = (questionId: string, words: string, by?: Answerer, notBefore = 0, thinks = dice) => {
    const timer = clock.timer(notBefore + thinks.upTo(LONGEST_THOUGHT_MS), () => {
      open.delete(timer)
      answer(questionId, words, by).catch(() => {}) // it was withdrawn meanwhile, or takes no more of him
    })
    open.add(timer)
  }
  return {
    asked(question: Question): void {
      const { questionId, kind, text, choices, by: whose, groups = [], quorum = 1, answerBy = 0 } = question
      const lateMs = isLate(question) ? Math.max(0, answerBy - clock.now()) + 1 : 0
      const words = () => (choices ? dice.pick(choices) : `[rehearsal] an answer to: ${text}`)
      const isOwn = whose === 'caller' && caller !== undefined
      if (kind === 'approval' && caller !== undefined && !isOwn && ownDice.chance(OWN))
        later(questionId, YES, { id: caller, groups }, 0, ownDice)
      if (isOwn) return later(questionId, words(), { id: caller, groups }, lateMs)
      if (groups.length === 0 && quorum === 1) return later(questionId, words(), undefined, lateMs)
      for (let n = 1; n <= quorum; n++) {
        const by = { id: `rehearsal-${n}`, groups }
        const said = words()
        later(questionId, said, by, lateMs)
        if (dice.chance(DOUBLE)) later(questionId, said, by) // people press a button twice
      }
    },
    leave(): void {
      for (const timer of open) timer.cancel()
    },
  }
}

/*
 * Words of a rehearsed person to a run while it works. The plan says what and after what, the seed when exactly.
 */

/** Words of a plan: see `RehearsalPlan.steer`. */
export interface RehearsedWords {
  text: string
  after: 'model' | number
  to?: string
  when?: 'next' | 'interrupt'
}

/** Odds that words come behind one call of a model, and not behind a later one. */
const BEHIND_ODDS = 0.6

/** `say`: rejects for a run that has ended. */
export function speaking(
  seed: number,
  clock: Scheduler,
  plan: readonly RehearsedWords[],
  say: (words: RehearsedWords) => Promise<unknown>,
) {
  const dice = new Dice(seed, 'words')
  const open = new Set<Timer>()
  const said = (words: RehearsedWords) => void say(words).catch(() => {}) // it came too late
  const soon = (words: RehearsedWords, steps: number): void =>
    steps === 0 ? said(words) : clock.defer(() => soon(words, steps - 1))
  const behindModels = new Set(plan.filter(({ after }) => after === 'model'))
  return {
    /** The run has begun. */
    begun(): void {
      for (const words of plan) {
        if (words.after === 'model') continue
        const timer = clock.timer(Math.floor(2 * words.after * dice.random()), () => {
          open.delete(timer)
          said(words)
        })
        open.add(timer)
      }
    },
    /** A model has answered. */
    called(): void {
      for (const words of behindModels) {
        if (!dice.chance(BEHIND_ODDS)) continue
        behindModels.delete(words)
        soon(words, dice.upTo(LATEST_STEP))
      }
    },
    leave(): void {
      for (const timer of open) timer.cancel()
    },
  }
}

/** Returns the words of a plan. Throws `ConfigurationError` for what are none. */
export function wordsOf(steer: unknown = []): RehearsedWords[] {
  const accepted = "a list of { text, after: 'model' or a number of ms, to?, when? }"
  if (Array.isArray(steer) && steer.every(isRehearsed)) return steer
  throw new ConfigurationError(`steer: ${shown(steer)}; accepted: ${accepted}.`, {
    path: 'steer',
    got: steer,
    accepted,
  })
}

const MOMENTS: readonly unknown[] = [undefined, 'next', 'interrupt']

function isRehearsed(words: unknown): words is RehearsedWords {
  const { text, after, to, when, ...others } = Object(words) as Record<string, unknown>
  const isTime = after === 'model' || (typeof after === 'number' && after >= 0 && after < 2 ** 30)
  const isMeant = (to === undefined || typeof to === 'string') && MOMENTS.includes(when)
  return typeof text === 'string' && text !== '' && isTime && isMeant && Object.keys(others).length === 0
}

export const FAULTS = ['crash', 'delay', 'duplicate', 'hang', 'refuse', 'model', 'late'] as const

type TurnFault = Exclude<Fault, 'model' | 'late'>

const isOfTurn = (fault: Fault): fault is TurnFault => fault !== 'model' && fault !== 'late'

/** Ways in which a call of a model fails. */
const MODEL_FAILURES = ['rate_limit', 'broken_off', 'filtered'] as const
const MODEL_ODDS = 0.3

/** Returns the names by which the runtime knows a client. */
function named({ rehearsal, offline, provider, modelId }: ModelClient): Omit<ModelClient, 'complete'> {
  return {
    ...(rehearsal !== undefined && { rehearsal }),
    ...(offline !== undefined && { offline }),
    ...(provider !== undefined && { provider }),
    ...(modelId !== undefined && { modelId }),
  }
}

/** See `RehearsalPlan.faults`. */
export type Fault = (typeof FAULTS)[number]

/** Plan of a rehearsal. */
export interface RehearsalPlan {
  query: string
  /** `caller`, `tenant`: whom the runs are for, as in `RunOptions`. */
  caller?: string
  tenant?: string
  /** Number of schedules, which are those of the seeds 1 to `seeds`; or a list of seeds, from 0 up to 2^32 - 1. */
  seeds: number | readonly number[]
  /**
   * Faults, of which up to three are injected in a run: an agent dies at any moment (`crash`); a turn begins, or its
   * answer leaves, up to ten seconds late (`delay`); a turn is cut off after all its actions and is tried again
   * (`duplicate`); a turn does nothing until its signal is aborted, by a deadline for example (`hang`); the agent
   * refuses the task (`refuse`); a call of a model meets a limit of its provider, breaks off or is filtered (`model`);
   * a person answers when the time of the question is up (`late`). Default: none.
   */
  faults?: readonly Fault[]
  /**
   * Words that somebody says to the run while it works, as by `run.steer`: behind a call of a model, or after that many
   * ms. The seed moves them: to another call, by some steps, to any time up to twice as late. Default: none.
   */
  steer?: readonly RehearsedWords[]
  /**
   * Checks the outcome of each run: the answer of the protocol as a message, or the error. If it throws, the run counts
   * as failed.
   */
  check?(outcome: Outcome): void | Promise<void>
  /**
   * Asks the models that the team has. Default: false. By default the rehearsal model answers in place of every model
   * that is not offline: those of `models`, with or without keys, and that of the environment. A client with `offline:
   * true`, as of `scriptedModel`, stays. Answers of real models are not recorded, so the same seed may give another
   * run.
   */
  realModels?: boolean
  /**
   * Runs all tools. Default: false. By default only tools run that say `readOnly: true` and do not work `outside`; the
   * others are answered in their place, from their `output` schema. `rehearsal: { realTools: true }` of the team does
   * the same.
   */
  realTools?: boolean
  /**
   * Code for the roles, in place of their modules. Its own time and randomness stay real, so use those of its context.
   */
  modules?: Readonly<Record<string, AgentDefinition>>
  /**
   * File for the answers of `fetch`, and for the results of steps (`context.step`) that reach outside. The first time
   * they are real; from then on they come from that file.
   */
  record?: string
}

const MOST_SEEDS = 1_000_000
const LARGEST_SEED = 2 ** 32 - 1

/** Returns the seeds of a plan. Throws `ConfigurationError` for an invalid value. */
export function seedsOf(seeds: unknown, path = 'seeds'): number[] {
  const accepted = `a whole number from 1 to ${MOST_SEEDS}, or a list of seeds from 0 to ${LARGEST_SEED}`
  if (Array.isArray(seeds) && seeds.length > 0 && seeds.length <= MOST_SEEDS && seeds.every(isSeed)) return [...seeds]
  if (isSeed(seeds) && seeds >= 1 && seeds <= MOST_SEEDS) return Array.from({ length: seeds }, (_, i) => i + 1)
  throw new ConfigurationError(`${path}: ${shown(seeds)}; accepted: ${accepted}.`, { path, got: seeds, accepted })
}

const isSeed = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= LARGEST_SEED

/** Returns the faults of a plan, each once, in a fixed order. Throws `ConfigurationError` for an unknown fault. */
export function faultsOf(faults: unknown = [], path = 'faults'): Fault[] {
  const accepted = FAULTS.join(', ')
  const isFault = (value: unknown) => FAULTS.some((fault) => fault === value)
  const wrong = Array.isArray(faults) ? faults.find((fault) => !isFault(fault)) : faults
  if (Array.isArray(faults) && faults.every(isFault)) return FAULTS.filter((fault) => faults.includes(fault))
  throw new ConfigurationError(`${path}: there is no fault ${shown(wrong)}; there are ${accepted}.`, {
    path,
    got: wrong,
    accepted,
  })
}

export function checkQuery(query: unknown): void {
  if (typeof query === 'string') return
  throw new ConfigurationError(`query: ${shown(query)}; accepted: the text that the team is asked.`, {
    path: 'query',
    got: query,
  })
}

export function checkFlag(flag: unknown, path: string): void {
  if (flag === undefined || typeof flag === 'boolean') return
  throw new ConfigurationError(`${path}: ${shown(flag)}; accepted: true or false.`, { path, got: flag })
}
