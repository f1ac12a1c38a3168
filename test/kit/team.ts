/** Teams for the rules of supervision: agents are definitions in the test itself, in this thread, on a virtual clock. */
import type t from 'tap'
import { type AgentDefinition, type AgentHandlers, defineAgent } from '../../src/actors/definition/definition.ts'
import type { AgentRole } from '../../src/actors/definition/role.ts'
import type { Logger } from '../../src/actors/definition/tool.ts'
import type { OrchestratorContext, RuntimeEvent } from '../../src/index.ts'
import { HOST_ASLEEP } from '../../src/mailbox/team-memory.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/team.ts'
import { type TestTeam, testTeam, type VirtualClock, virtualClock } from '../../src/testing.ts'
import { imbalances, leftovers, watchAccounts } from './accounts.ts'

type Test = Pick<typeof t, 'teardown'>
export type Receive = AgentHandlers['receive']

/** By name: what each agent does with a message, or its whole definition. */
export type Cast = Readonly<Record<string, Receive | AgentDefinition>>

export type Script = (script: OrchestratorContext, query: string) => Promise<string>

export interface Extras extends Partial<Omit<MultiAgentPatternOptions, 'agents' | 'clock'>> {
  roles?: Readonly<Record<string, Omit<AgentRole, 'name'>>>
  seed?: number
  /** What a run does, in place of `orchestration`. */
  script?: Script
  /** The test ends while agents are at work: something is left over then. */
  unfinished?: boolean
  /** Its accounts are not looked at: what it costs is counted, or a thread of it forges them. */
  unwatched?: boolean
  /** Agents that are added later, or spawned. */
  later?: Cast
}

export const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** A team of `dramatis/testing`. A run asks the first agent, unless `orchestration` says otherwise. */
export function localTeam(
  t: Test,
  cast: Cast,
  { roles, seed = 1, later = {}, unfinished: _unfinished, ...options }: Extras = {},
): TestTeam<string> {
  const team = testTeam(optionsOf(cast, roles, options), { seed, modules: modulesOf(cast), later: modulesOf(later) })
  closeAfter(t, team)
  return team
}

/** Options first, and then the agents. */
export const given = (t: Test, extras: Extras) => ({
  team: (cast: Cast) => openTeam(t, cast, extras),
  testTeam: (cast: Cast) => localTeam(t, cast, extras),
})

/**
 * The same with its supervisor in sight. Its accounts have to balance with every record, and when the test ends nothing
 * may be left over: no room, permit, request or message.
 */
export function openTeam(
  t: Test,
  cast: Cast,
  { roles, seed = 1, later = {}, unfinished = false, unwatched = false, ...options }: Extras = {},
): OpenTeam {
  const definitions = new Map(Object.entries(modulesOf({ ...cast, ...later })))
  const team = new OpenTeam(optionsOf(cast, roles, options), definitions, seed)
  if (!unwatched) team.unbalanced = watchAccounts(team.host)
  closeAfter(t, team, () => (unwatched ? [] : team.wrong(unfinished)))
  return team
}

export class OpenTeam extends MultiAgentPattern<string> {
  readonly clock: VirtualClock
  unbalanced: readonly string[] = []

  constructor(options: MultiAgentPatternOptions, definitions: ReadonlyMap<string, AgentDefinition>, seed: number) {
    const clock = virtualClock({ seed })
    super({ ...options, clock }, { definitions })
    this.clock = clock
  }

  get host(): Supervisor {
    return this.supervisor
  }

  /** What did not add up so far, and what is left over now, unless agents are at work yet. */
  wrong(unfinished = false): string[] {
    return [...this.unbalanced, ...imbalances(this.host), ...(unfinished ? [] : leftovers(this.host))]
  }

  /** What a promise comes to when so much time has passed. */
  async within<T>(ms: number, promise: Promise<T>): Promise<T> {
    await this.clock.advance(ms)
    return promise
  }

  /** What the host knows of an agent. */
  agent(name: string): Agent {
    const agent = this.supervisor.directory.agent(name)
    if (!agent) throw new Error(`this team has no agent "${name}"`)
    return agent
  }

  /** Ends a life: as from outside, or by an error that the thread threw outside of any turn. */
  crash(agent: string, error?: Error): void {
    this.crashCell(this.supervisor.directory.agent(agent), error)
  }

  /** The same, and the host has seen it. */
  async dies(agent: string, error?: Error): Promise<void> {
    this.crash(agent, error)
    await this.clock.advance(0)
  }

  crashCell(agent: Agent | undefined, error?: Error): void {
    const thread = agent?.incarnation?.thread
    if (thread instanceof LocalThread) thread.kill({ code: 1, error, outside: error === undefined })
  }

  /** Ends a life as `process.exit(0)` in its thread would. */
  exit(agent: string): void {
    const thread = this.supervisor.directory.agent(agent)?.incarnation?.thread
    if (thread instanceof LocalThread) thread.kill({ code: 0, error: undefined })
  }
}

/** From now on the host hears no thread until one of its timers comes: it is busy. */
export const beBusy = ({ host }: OpenTeam) => Atomics.store(host.team.words, HOST_ASLEEP, 0)

function optionsOf(
  cast: Cast,
  roles: Extras['roles'] = {},
  { script, ...options }: Omit<Extras, 'roles' | 'seed' | 'later' | 'unfinished' | 'unwatched'>,
): MultiAgentPatternOptions {
  const names = Object.keys(cast)
  const first: Script = async (script, query) => (await script.request(names[0]!, query)).content
  return {
    orchestration: { strategy: 'custom', run: first },
    logger: silent,
    ...options,
    ...(script && { orchestration: { strategy: 'custom', run: script } }),
    agents: names.map((name) => ({ ...roles[name], name })),
  }
}

function modulesOf(cast: Cast): Record<string, AgentDefinition> {
  const definitions = Object.entries(cast).map(([name, role]) => [
    name,
    typeof role === 'function' ? defineAgent({ receive: role }) : role,
  ])
  return Object.fromEntries(definitions)
}

/** Handlers that ignore their signal need the grace to pass. */
function closeAfter(
  t: Test,
  team: MultiAgentPattern<string> & { clock: VirtualClock },
  wrong = (): string[] => [],
): void {
  t.teardown(async () => {
    const found = wrong()
    const closed = team.close()
    await team.clock.runToIdle()
    await closed
    if (found.length > 0) throw new Error(`left over when the test had ended: ${found.join('; ')}`)
  })
}

/** A run asks all agents at once. */
export const askAll: OrchestrationConfig = {
  strategy: 'custom',
  async run(script, query) {
    const names = script.agents.map(({ name }) => name)
    const outcomes = await script.requestAll(names, query)
    return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(' ')
  },
}

/** What an agent answers. */
export async function ask(
  team: MultiAgentPattern<string>,
  agent: string,
  content = 'go',
  fields: { priority?: number; responseTimeoutMs?: number } = {},
): Promise<string> {
  const response = await team.sendMessage({ recipient: agent, content, requiresResponse: true, ...fields })
  return response!.content
}

/** The content of an answer, or the code of why there is none. */
export const answerOf = (asked: Promise<{ content: string }>): Promise<string> =>
  asked.then(
    ({ content }) => content,
    ({ code }) => code,
  )

/** What became of a promise, for a test that lets time pass before it looks. */
export function outcomeOf<T>(promise: Promise<T>): { value?: T; error?: DramatisError; settled: boolean } {
  const outcome: { value?: T; error?: DramatisError; settled: boolean } = { settled: false }
  promise.then(
    (value) => Object.assign(outcome, { value, settled: true }),
    (error: unknown) => Object.assign(outcome, { error, settled: true }),
  )
  return outcome
}

/** A promise that somebody else settles. */
export function gate(): { opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

export const numbers = (count: number) => Array.from({ length: count }, (_, i) => `${i}`)

export const never = new Promise<never>(() => {})

type Events = Pick<MultiAgentPattern<string>, 'events'>

/** What is made of each event of that type from now on. */
export function heard<T extends RuntimeEvent['type'], Made>(
  team: Events,
  type: T,
  made: (event: Extract<RuntimeEvent, { type: T }>) => Made,
): Made[] {
  const list: Made[] = []
  team.events.subscribe((event) => {
    if (event.type === type) list.push(made(event as Extract<RuntimeEvent, { type: T }>))
  })
  return list
}

/** The statuses that an agent has from now on. */
export function statusesOf(team: Events, agent: string): string[] {
  const list: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === agent) list.push(event.status)
  })
  return list
}
