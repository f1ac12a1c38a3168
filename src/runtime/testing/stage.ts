/** World of one run: its clock, its randomness, and a sandbox for each thread of each agent. */

import { toolParts } from '../../actors/definition/content.ts'
import {
  type AgentHandlers,
  agentRef,
  defineAgent,
  type Exports,
  exportsOfRequired,
} from '../../actors/definition/definition.ts'
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { defineProtocol } from '../../actors/definition/protocol.ts'
import { defineTool, type Logger } from '../../actors/definition/tool.ts'
import { systemClock } from '../../shared/clock.ts'
import * as errors from '../../shared/errors.ts'
import { ConfigurationError, describe, ModelError } from '../../shared/errors.ts'
import { onAbort, unlessAborted } from '../../shared/on-abort.ts'
import { Dice } from '../../shared/random.ts'
import { picked } from '../../shared/values.ts'
import { piecesOf } from '../providers/collect.ts'
import type { RehearsedModels } from '../providers/models.ts'
import { keepWhole, RETRY_POLICY } from '../providers/provider-clients.ts'
import { rehearsalModel } from '../providers/rehearsal-model.ts'
import type { LocalCode } from '../team/provision.ts'
import type { LocalThread } from '../threads/local-thread.ts'
import { type Outside, Reach } from './reach.ts'
import { diedOf, type Fetch, Sandbox } from './sandbox.ts'
import { recordingSteps, type Scripts, type StepAnswers, type TeamFile } from './script.ts'
import { SteppedClock } from './virtual-clock.ts'

const BEAT_MS = 1_000

/** Pieces of an answer before its end, and the error with which it failed, if it did. */
interface Told {
  readonly pieces: readonly ModelPiece[]
  readonly failure?: { readonly error: unknown }
}

/** `beat`: called while the client works, so that the thread does not look stuck. */
function inRealTime(client: ModelClient, outside: Outside, beat: () => void): ModelClient {
  return {
    async *complete(request) {
      const { pieces, failure } = await outside(told(client, request, beat))
      yield* pieces
      if (failure) throw failure.error
    },
  }
}

async function told(client: ModelClient, request: ModelRequest, beat: () => void): Promise<Told> {
  request.signal.throwIfAborted()
  const pieces: ModelPiece[] = []
  const end = new AbortController()
  const detach = onAbort(request.signal, () => end.abort(request.signal.reason))
  const beats = setInterval(beat, BEAT_MS)
  const { deadlineMs } = RETRY_POLICY
  const late = `The model "${request.model}" has not answered within ${deadlineMs} ms of real time.`
  const deadline = systemClock.timer(deadlineMs, () => end.abort(new ModelError(late, { retryable: false })), true)
  try {
    const asked = piecesOf(client, { ...request, clock: systemClock, signal: end.signal })
    await unlessAborted(end.signal, keepWhole(asked, pieces))
    return { pieces }
  } catch (error) {
    return { pieces, failure: { error } }
  } finally {
    detach()
    clearInterval(beats)
    deadline.cancel()
  }
}

const START_AT = Date.UTC(2025, 0, 1)
const MOST_STEPS = 100_000

/** Exports of `dramatis` in an agent's sandbox; the same as in its thread. */
const THREAD_API = new Map<symbol, unknown>([
  [Symbol.for('dramatis.thread'), { ...errors, agentRef, defineAgent, defineProtocol, defineTool, toolParts }],
])

export interface Theatre {
  scripts: Scripts
  fetch: Fetch
  /** Modules that the team's own code imports, by name. */
  modules: Readonly<Record<string, object>>
  logger: Logger
  /** Store for the results of steps that reach outside; if it is left out, no step may. */
  steps?: StepAnswers
  /**
   * Maximum number of scheduler steps that a run may take without time passing. Default: 100,000. A message takes about
   * six.
   */
  mostSteps?: number
  /** Asks the team's own models. By default the rehearsal model answers in their place. */
  realModels?: boolean
  /** Runs all tools. By default only tools run that are `readOnly` and do not work outside. */
  realTools?: boolean
  /** Sign of life for the code that watches this thread. */
  pulse?: Pulse
}

/** Signs of life. */
export interface Pulse {
  /** Called at each step of the clock, and while a real model works. */
  beat(): void
  /** A turn of that agent begins. */
  turn(agent: string): void
}

export class Stage {
  readonly clock: SteppedClock
  /** Real input or output that was refused, each once. */
  readonly refused = new Set<string>()
  /** How often that was, by the agent in words. */
  readonly refusals = new Map<string, number>()
  readonly simulated = new Set<string>()
  standsInFor: readonly string[] = []
  broken: Error | undefined
  readonly #seed: number
  readonly #theatre: Theatre
  readonly #lives = new Map<string, number>()
  readonly #sandboxes: Sandbox[] = []

  constructor(seed: number, theatre: Theatre, startAt = START_AT) {
    this.#seed = seed
    this.#theatre = theatre
    this.clock = new SteppedClock(seed, startAt, theatre.mostSteps ?? MOST_STEPS, theatre.pulse?.beat)
  }

  /** A turn of that agent begins. */
  turn(agent: string): void {
    this.#theatre.pulse?.turn(agent)
  }

  get models(): RehearsedModels {
    const { realModels = false, pulse } = this.#theatre
    if (!realModels) return { standIn: rehearsalModel(this.#seed) }
    const outside: Outside = (work) => this.clock.outside(work)
    return { clock: systemClock, reach: (client) => inRealTime(client, outside, () => pulse?.beat()) }
  }

  get realTools(): boolean {
    return this.#theatre.realTools ?? false
  }

  /** Runs the work of a tool while virtual time stands still. */
  async outside<T>(tool: string, work: () => Promise<T>): Promise<T> {
    const reach = new Reach(this.clock, `tool ${tool}`)
    reach.begin()
    try {
      return await reach.run(work)
    } finally {
      reach.end()
    }
  }

  /** Returns the handlers of an agent; their steps are recorded if the rehearsal has a store for steps. */
  recorded(agent: string, handlers: AgentHandlers): AgentHandlers {
    const { steps } = this.#theatre
    return steps ? recordingSteps(agent, handlers, this.clock, steps) : handlers
  }

  /** Returns the default export of a team file, which runs in a sandbox as its agents do. */
  async teamFile(file: TeamFile): Promise<unknown> {
    const script = await this.#theatre.scripts.teamFile(file)
    const { modules, logger } = this.#theatre
    const sandbox = this.#sandbox('the team file', 'team file', process.env, {
      modules,
      print: (line) => logger.info({}, line),
      died: (_code, error) => {
        this.broken ??= error ?? new Error('The team file ended the process.')
      },
    })
    return exportsOfRequired(sandbox.run(script)).default
  }

  /** Returns the exports of a module, in a sandbox that ends with the agent's thread. */
  async load({ agent, specifier, from, option, env }: LocalCode, thread: LocalThread): Promise<Exports> {
    const script = await this.clock.outside(this.#theatre.scripts.agent(specifier, from, option))
    const number = (this.#lives.get(agent) ?? 0) + 1
    this.#lives.set(agent, number)
    const granted = picked(process.env, env)
    const sandbox = this.#sandbox(`agent "${agent}"`, `${agent} ${number}`, granted, {
      symbols: THREAD_API,
      modules: this.#theatre.modules,
      print: (line) => this.#theatre.logger.info({ agent }, line),
      died: (code, error) => thread.kill({ code, error: error && diedOf(agent, error) }),
    })
    onAbort(thread.ended, () => sandbox.close())
    try {
      return exportsOfRequired(sandbox.run(script))
    } catch (error) {
      if (error instanceof ConfigurationError) throw error
      const text = `${option}: the module of "${agent}" throws when it is imported: ${describe(error)}`
      throw new ConfigurationError(text, { path: option, agent }, error)
    }
  }

  #sandbox(
    who: string,
    purpose: string,
    env: Readonly<Record<string, string | undefined>>,
    rest: Pick<ConstructorParameters<typeof Sandbox>[0], 'print' | 'died' | 'modules' | 'symbols'>,
  ): Sandbox {
    const sandbox = new Sandbox({
      who,
      clock: this.clock,
      dice: new Dice(this.#seed, purpose),
      env,
      fetch: this.#theatre.fetch,
      refused: (error) => {
        this.refused.add(error.message)
        this.refusals.set(who, (this.refusals.get(who) ?? 0) + 1)
      },
      ...rest,
    })
    this.#sandboxes.push(sandbox)
    return sandbox
  }

  close(): void {
    for (const sandbox of this.#sandboxes) sandbox.close()
  }
}
