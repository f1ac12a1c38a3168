/** `dramatis/testing`: a virtual clock, one agent alone, a whole team in this thread, and many runs of it. */
// Loaded later by a team of its own, which virtual time could not wait for.
import './json-schema/foreign-schema.ts'
import './mailbox/parse-message.ts'
import './protocols/forms.ts'
import './protocols/manager.ts'
import './runtime/providers/json-sample.ts'
import type { Content } from './actors/definition/content.ts'
import type { AgentDefinition } from './actors/definition/definition.ts'
import type { ModelClient } from './actors/definition/model.ts'
import { checkClient } from './runtime/providers/provider.ts'
import type { MultiAgentResult } from './runtime/runs/result.ts'
import type { RunOptions } from './runtime/runs/run.ts'
import type { CloseOptions } from './runtime/team/start-stop.ts'
import { checkModules } from './runtime/testing/test-agent.ts'
import { testClock, type VirtualClock, virtualClock, whileTimePasses } from './runtime/testing/virtual-clock.ts'
import { LocalThread } from './runtime/threads/local-thread.ts'
import { anyObject, finite, shape } from './shared/checks.ts'
import { AgentCrashedError, UnknownAgentError } from './shared/errors.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from './team.ts'

export {
  type Fault,
  type OldRunPlan,
  type OldRunRehearsal,
  type OutcomeKind,
  type Rehearsal,
  type RehearsalPlan,
  type RehearsedWords,
  type RunMismatch,
  rehearse,
  rehearseRun,
  type SeedOutcome,
  type UnknownAsked,
} from './rehearsal.ts'
export { rehearsalModel } from './runtime/providers/rehearsal-model.ts'
export { type Script, type ScriptedModel, scriptedModel } from './runtime/testing/scripted-model.ts'
export { type TestAgent, type TestAgentOptions, testAgent } from './runtime/testing/test-agent.ts'
export { type VirtualClock, virtualClock } from './runtime/testing/virtual-clock.ts'

/** Replacements for the parts of a team in a test. */
export interface TestKit<Name extends string> {
  /**
   * In place of all models: it plays every role that has no code. A call that fails in a way that passes is made again,
   * as in life; the pauses between take no time.
   */
  model?: ModelClient
  /** A new one by default. */
  clock?: VirtualClock
  /** Seed of the clock that is made by default. Another seed gives another order of what happens at one time. */
  seed?: number
  /** Code for the roles, in place of their modules. */
  modules?: Partial<Record<Name, AgentDefinition>>
  /** The same for agents that come later, by the names that they will have. */
  later?: Readonly<Record<string, AgentDefinition>>
}

const checkKit = shape<TestKit<string>>({
  model: checkClient,
  clock: testClock,
  seed: finite,
  modules: anyObject,
  later: anyObject,
})

/** A team under test. */
export type TestTeam<Name extends string = string> = MultiAgentPattern<Name> & {
  readonly clock: VirtualClock
  /** Ends an agent's life as a crash would. Throws `UnknownAgentError` if no agent of that name is alive. */
  crash(agent: Name): void
}

/**
 * A team whose agents all run in this thread, under a virtual clock: the same supervisor, deterministic. Time passes
 * only by `clock.advance` and `clock.runToIdle`. So where a team waits for time (`context.sleep`, a deadline), begin
 * the run, let time pass, and then await the result. An agent's own blocking code or `process.exit` would hit the test.
 *
 * @throws {ConfigurationError} as `createTeam` does.
 *
 * @example
 * const options = { agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' } } as const
 * const team = testTeam(options, { modules: { a: agent } })
 * const result = await team.execute('go')
 * await team.close()
 */
export function testTeam<const Name extends string>(
  options: MultiAgentPatternOptions<Name>,
  kit: TestKit<Name> = {},
): TestTeam<Name> {
  checkKit(kit, 'kit')
  const clock = kit.clock ?? virtualClock({ seed: kit.seed ?? 1 })
  checkModules(options.agents, kit.modules)
  const definitions = new Map(Object.entries(kit.modules ?? {}) as [string, AgentDefinition][])
  for (const [name, definition] of Object.entries(kit.later ?? {})) definitions.set(name, definition)
  return new LocalTeam({ ...options, clock }, definitions, clock, kit.model)
}

const GRACE_STEP_MS = 1_000

class LocalTeam<const Name extends string> extends MultiAgentPattern<Name> {
  readonly clock: VirtualClock

  constructor(
    options: MultiAgentPatternOptions<Name>,
    definitions: ReadonlyMap<string, AgentDefinition>,
    clock: VirtualClock,
    model: ModelClient | undefined,
  ) {
    super(options, { definitions, ...(model && { model }) })
    this.clock = clock
  }

  override execute<T = undefined>(query: string | Content, options?: RunOptions<T>): Promise<MultiAgentResult<T>> {
    return whileTimePasses(super.execute(query, options), {
      clock: this.clock,
      isAsking: () => this.questions().length > 0,
      warn: (text) => this.supervisor.logger.warn({}, text),
    })
  }

  /** A handler that ignores its signal would hold it up for ever, since no time passes by itself. */
  override close(options: CloseOptions = {}): Promise<void> {
    const closed = super.close(options)
    if (!options?.drainMs) void this.#passGrace(closed)
    return closed
  }

  async #passGrace(closed: Promise<void>): Promise<void> {
    let open = true
    const done = () => {
      open = false
    }
    closed.then(done, done)
    for (let ms = 0; open; ms = GRACE_STEP_MS) await this.clock.advance(ms)
  }

  crash(agent: Name): void {
    const life = this.supervisor.directory.agent(agent)?.incarnation
    if (!life) throw new UnknownAgentError(`No agent "${agent}" is alive in this team.`, { agent })
    const error = new AgentCrashedError(`The test ended the life of agent "${agent}".`, { agent })
    if (life.thread instanceof LocalThread) life.thread.kill({ code: 1, error, outside: true })
  }
}
