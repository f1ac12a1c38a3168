/**
 * Answers of models, tools and steps that a run had, by who asked, for what, and how often the same was asked before. A
 * play with a tape asks none of them.
 */
import type { AgentHandlers } from '../../actors/definition/definition.ts'
import type { ModelAnswer, ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { REMOTE, type Verb } from '../../actors/definition/role.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import {
  type ErrorData,
  errorData,
  errorFrom,
  LivelockError,
  ModelError,
  StallError,
  TapeMissError,
} from '../../shared/errors.ts'
import { digestOf } from '../../shared/random.ts'
import { nextTurn } from '../../shared/timers.ts'
import type { TeamKit } from '../team/provision.ts'
import type { HostVerb } from '../verbs/calls.ts'
import { aroundTurns, type Fault, Faults, type Injected } from './faults.ts'
import { excerptsOf } from './mismatches.ts'
import { type Asked, askedBy, differenceOf, keyOf, type OldTurns } from './old-turns.ts'
import { type Recording, thrownBy, toolCall } from './old-world.ts'
import type { Stage } from './stage.ts'
import { type SteppedClock, settling } from './virtual-clock.ts'

/** Answer of a model or a tool, or of a step of code (`context.step`). */
export interface TapeEntry {
  readonly agent: string
  readonly kind: 'model' | 'tool' | 'step'
  /** Name in the team's `models`, or of the tool or step. */
  readonly name: string
  /** SHA-256 of the input, in which ids and times count as equal. */
  readonly digest: string
  /** Number of the ask among equal ones of the agent, from 1 on. */
  readonly place: number
  readonly input: unknown
  readonly answer?: unknown
  readonly error?: ErrorData
  /** Time of the answer since the begin of the case, in ms. */
  readonly atMs: number
}

const digestOfInput = (input: unknown): string => digestOf(keyOf(input))

const askOf = ({ agent, kind, name, digest }: Pick<TapeEntry, 'agent' | 'kind' | 'name' | 'digest'>): string =>
  JSON.stringify([agent, kind, name, digest])

/**
 * Returns what the models and tools have answered in a run, in the order in which they were asked. `clean`: takes
 * secrets out of data; `before`: entries of earlier runs of the case, which ended at `fromMs`.
 */
export function entriesOf(
  { turns }: OldTurns,
  clean: <T>(data: T) => T,
  { fromMs, before }: { fromMs: number; before: readonly TapeEntry[] },
): TapeEntry[] {
  const places = new Map(before.map((entry) => [askOf(entry), entry.place]))
  return turns.flatMap(({ agent, message, effects }) =>
    effects.flatMap(({ kind, name, input: given, outcome, settledAtMs }): TapeEntry[] => {
      if (kind === 'question' || !outcome) return []
      const input = clean(kind === 'step' ? inputOfStep(message) : given)
      const of = { agent, kind, name, digest: digestOfInput(input) }
      const place = (places.get(askOf(of)) ?? 0) + 1
      places.set(askOf(of), place)
      const answer = 'error' in outcome ? { error: errorData(outcome.error) } : { answer: outcome.value }
      return [{ ...of, place, input, ...clean(answer), atMs: fromMs + settledAtMs }]
    }),
  )
}

/** A step has no input of its own: what it does follows from the message of its turn. */
const inputOfStep = ({ content, structuredData }: TypedMessage) => ({ content, structuredData })

export interface TapeOptions {
  readonly entries: readonly TapeEntry[]
  /** Name of the tape, for errors. */
  readonly shown: string
  readonly clean: <T>(data: T) => T
  /**
   * True: an ask that the tape does not have gets the nearest answer of the same agent, kind and tool, and all answers
   * come at once. False: it is a miss, and answers come when they came.
   */
  readonly isLoose: boolean
  /** Called with the first miss of a tape that is not loose. */
  missed(error: TapeMissError): void
}

/** Field of a call of a model, and so of the request to its client: what the tape has for it. */
const ENTRY = Symbol('entry')

/** The models and tools of a play. */
class TapeWorld {
  readonly #stage: Stage
  readonly #clock: SteppedClock
  readonly #options: TapeOptions
  readonly #taken = new Set<TapeEntry>()
  /** Number of asks, and of those that the tape does not have. */
  asked = 0
  untaped = 0
  /** The first of these, in words. */
  first: string | null = null

  constructor(stage: Stage, options: TapeOptions) {
    this.#stage = stage
    this.#clock = stage.clock
    this.#options = options
  }

  /** In place of every client: it says what the call under way was answered. */
  readonly client: ModelClient = { offline: true, complete: (request) => this.#pieces(request) }

  async *#pieces(request: ModelRequest & { [ENTRY]?: TapeEntry }): AsyncGenerator<ModelPiece> {
    const answer = (await this.#outcomeOf(request[ENTRY]!, request.signal)) as ModelAnswer
    const { text, parts, toolCalls, usage, finishReason } = answer
    for (const part of parts ?? [{ type: 'text' as const, text }]) {
      const more = 'providerData' in part && part.providerData && { providerData: part.providerData }
      if (part.type === 'text') yield { text: part.text, ...more }
      else if (part.type === 'reasoning') yield { reasoning: part.text, ...more }
    }
    for (const toolCall of toolCalls) yield { toolCall }
    yield { usage, finishReason }
  }

  /** Returns a verb of the host as it is in this world. */
  serve(verb: Verb, real: HostVerb, record: Recording): HostVerb {
    if (verb === 'tool.simulated') return () => true // so that the host is asked
    if (verb !== 'model' && verb !== 'tool' && verb !== REMOTE) return real
    return (args, caller, signal) => {
      const asked = askedBy(verb, Object(args))!
      const entry = this.#entryFor(caller.agent.name, asked)
      if (verb === 'model') return real({ ...Object(args), [ENTRY]: entry }, caller, signal)
      const began = this.#clock.monotonic()
      const tookMs = () => this.#clock.monotonic() - began
      const call = { callId: caller.callId, ...Object(args), ...asked }
      return toolCall(this.#outcomeOf(entry, signal), call, caller, { tookMs, record })
    }
  }

  /**
   * Returns the handlers of an agent. A step that reaches outside is refused there, and has what it had on the tape.
   * Others run, so that changed code is seen.
   */
  around(agent: string, handlers: AgentHandlers): AgentHandlers {
    const refusals = () => this.#stage.refusals.get(`agent "${agent}"`)
    return aroundTurns(handlers, (message, context, work) => {
      const step = context.step.bind(context)
      context.step = <T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }) => {
        const play = async (): Promise<T> => {
          const before = refusals()
          const [outcome] = await Promise.allSettled([new Promise<T>((resolve) => resolve(run()))])
          if (refusals() !== before) {
            const asked: Asked = { kind: 'step', name, input: inputOfStep(message) }
            return (await this.#outcomeOf(this.#entryFor(agent, asked), context.signal)) as T
          }
          if (outcome.status === 'rejected') throw outcome.reason
          return outcome.value
        }
        return step(name, play, options)
      }
      return work()
    })
  }

  async #outcomeOf({ kind, answer, error, atMs }: TapeEntry, signal: AbortSignal): Promise<unknown> {
    const waitMs = this.#options.isLoose ? 0 : Math.max(0, atMs - this.#clock.monotonic())
    await this.#clock.sleep(waitMs, signal)
    if (!error) return answer
    const thrown = errorFrom(error)
    if (kind === 'step') throw thrownBy(thrown)
    // The gateway says again whose model has failed, and has tried often enough by then.
    const words = thrown.message.replace(/^The model "[^"]*" has no answer for "[^"]*": /, '')
    throw kind === 'model' && thrown instanceof ModelError
      ? new ModelError(words, { ...thrown.details, retryable: false })
      : thrown
  }

  #entryFor(agent: string, { kind, name, input: given }: Asked): TapeEntry {
    const { entries, isLoose, clean, missed } = this.#options
    this.asked += 1
    const input = clean(given)
    const digest = digestOfInput(input)
    const near = entries.filter((each) => each.agent === agent && each.kind === kind && each.name === name)
    const equal = near.filter((each) => each.digest === digest).sort((a, b) => a.place - b.place)
    const next = equal.find((each) => !this.#taken.has(each)) ?? (isLoose ? equal.at(-1) : undefined)
    const found = next ?? this.#nearest(near, input)
    if (found) this.#taken.add(found)
    if (next) return next
    this.untaped += 1
    const error = this.#missOf({ agent, kind, name, input }, found, equal.length)
    this.first ??= error.message
    if (isLoose && found) return found
    if (!isLoose) missed(error)
    throw error
  }

  /** The one that begins to differ last; among equals one that is not taken. */
  #nearest(near: readonly TapeEntry[], input: unknown): TapeEntry | undefined {
    const key = keyOf(input)
    const lengths = near.map((each) => {
      const other = keyOf(each.input)
      let same = 0
      while (same < key.length && key[same] === other[same]) same += 1
      return 2 * same + (this.#taken.has(each) ? 0 : 1)
    })
    return near[lengths.indexOf(Math.max(...lengths))]
  }

  #missOf({ agent, kind, name, input }: Asked & { agent: string }, near: TapeEntry | undefined, equal: number) {
    const uses = kind === 'tool' ? 'calls the tool' : 'reaches outside in the step'
    const asks = kind === 'model' ? `asks its model (${name})` : `${uses} "${name}"`
    const begin = `Agent "${agent}" ${asks}, and the tape ${this.#options.shown} has no answer to that: `
    const advice = ' If that is meant, record the case again (--record).'
    const fields = { agent, kind, name, tape: this.#options.shown }
    if (!near) return new TapeMissError(`${begin}it has none of that agent for it.${advice}`, fields)
    if (equal > 0)
      return new TapeMissError(
        `${begin}the same is asked for the ${equal + 1}. time, and was ${equal} times.${advice}`,
        {
          ...fields,
          times: equal + 1,
        },
      )
    const { path, before, now } = differenceOf(near.input, input)!
    const [was, is] = excerptsOf(before, now)
    const at = positionOf(before, now)
    const where = `${placeOf(path, input)}${at === undefined ? '' : `, from character ${at + 1} on`}`
    return new TapeMissError(`${begin}the nearest differs in ${where}: it has ${was}, and now is ${is}.${advice}`, {
      ...fields,
      path,
      ...(at !== undefined && { at }),
      before: was,
      now: is,
    })
  }
}

function positionOf(before: unknown, now: unknown): number | undefined {
  if (typeof before !== 'string' || typeof now !== 'string') return undefined
  let at = 0
  while (at < before.length && before[at] === now[at]) at += 1
  return at
}

/** Returns a place in words: that of a message has its role. */
function placeOf(path: string, input: unknown): string {
  const [, at] = /^messages\[(\d+)\]/.exec(path) ?? []
  if (at === undefined) return path === '' ? 'the input' : path
  const messages = Object(input).messages as readonly { role: string }[]
  const role = messages[Number(at)]?.role
  return role === undefined ? path : `${path} (${role})`
}

export interface TapePart {
  readonly faults: readonly Fault[]
  readonly tape: Omit<TapeOptions, 'missed'>
}

export interface TapePlay<T> {
  readonly value: T
  readonly faults: readonly Injected[]
  readonly asked: number
  readonly untaped: number
  readonly first: string | null
}

/** Looks again so often for what begins without the clock. */
const LOOKS = 5

/**
 * Plays what `work` does with a team, whose models and tools answer from a tape. Rejects as `work` does; with
 * `TapeMissError` for what the tape does not have, and where the team gets nowhere.
 */
export async function playTape<Team, T>(
  seed: number,
  stage: Stage,
  makeTeam: (kit: TeamKit) => Team,
  { faults: kinds, tape }: TapePart,
  work: (team: Team, signal: AbortSignal) => Promise<T>,
): Promise<TapePlay<T>> {
  const { clock } = stage
  const faults = new Faults(seed, kinds, clock, (agent) => stage.turn(agent))
  const ending = new AbortController()
  const world = new TapeWorld(stage, { ...tape, missed: (error) => ending.abort(error) })
  const client = faults.aroundModel(world.client)
  const team = makeTeam({
    definitions: new Map(),
    models: { standIn: client, around: () => client },
    realTools: false,
    load: (code, thread) => stage.load(code, thread),
    recorded: (agent, handlers) => world.around(agent, handlers),
    around: (agent, handlers, thread) => faults.around(agent, handlers, thread),
    serve: (verb, real, record) => world.serve(verb, real, record),
  })
  try {
    const working = work(team, ending.signal)
    const isSettled = settling(working)
    for (let looks = LOOKS; !isSettled() && looks > 0; looks--) {
      const how = await clock.runUntil(() => isSettled() || stage.broken !== undefined)
      if (stage.broken) ending.abort(stage.broken)
      if (how === 'endless') throw new LivelockError('The agents are busy without end while no time passes.', {})
      await nextTurn()
    }
    if (!isSettled()) throw new StallError('Nothing was left in the play that could go on.', {})
    const value = await working
    if (ending.signal.aborted) throw ending.signal.reason
    const { asked, untaped, first } = world
    return { value, faults: faults.injected, asked, untaped, first }
  } finally {
    stage.close()
  }
}
