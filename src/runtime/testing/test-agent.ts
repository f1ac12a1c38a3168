/** Runs one agent in this thread without a team: inside the real runtime, with its partners played by the test. */

import { type AgentDefinition, defineAgent, initialStateOf, type Reply } from '../../actors/definition/definition.ts'
import type { ModelClient } from '../../actors/definition/model.ts'
import type { RoleInfo } from '../../actors/definition/role.ts'
import { defineTool, type ModelSchema, type Tool } from '../../actors/definition/tool.ts'
import { type AgentMessage, ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import { anyObject, type Check, rule, shape } from '../../shared/checks.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { nextTurn } from '../../shared/timers.ts'
import { checkClient } from '../providers/provider.ts'
import { settingsFrom } from '../settings/settings.ts'
import { TeamRuntime } from '../team/team.ts'
import { handlersFrom, LocalThread } from '../threads/local-thread.ts'
import { testClock, type VirtualClock, virtualClock, whileTimePasses } from './virtual-clock.ts'

/** Throws `ConfigurationError` for code whose name no agent has. */
export function checkModules(agents: readonly { name: string }[], modules: object = {}): void {
  for (const name of Object.keys(modules))
    if (!agents.some((agent) => agent.name === name))
      throw new ConfigurationError(`modules.${name}: no agent of this team is named "${name}".`, {
        path: `modules.${name}`,
      })
}

/** Types that a definition declares. */
type Types<D extends AgentDefinition> = NonNullable<D['~types']>

/** Options for the test of one agent. */
export interface TestAgentOptions {
  /** Role of the agent. Default name: 'agent'. */
  role?: Partial<RoleInfo>
  /** Model that answers in place of all models. */
  model?: ModelClient
  /** Clock of the agent: time passes only when it advances. Give one to an agent that sleeps, and advance it. */
  clock?: VirtualClock
  /** Replacements for the agent's tools, by name: each is given the input, and returns the output or throws. */
  tools?: Record<string, (input: unknown) => unknown>
  /** Answers of the agent's partners, by name: a reply, a function of the message, or an error to fail with. */
  replies?: Record<string, Reply | ((message: AgentMessage) => Reply) | Error>
}

const aFunction = rule('a function', (value) => typeof value === 'function')
const functions: Check = (value, path) => {
  anyObject(value, path)
  for (const [name, run] of Object.entries(Object(value))) aFunction(run, `${path}.${name}`)
}
const checkOptions = shape<TestAgentOptions>({
  role: anyObject,
  model: checkClient,
  clock: testClock,
  tools: functions,
  replies: anyObject,
})

/** An agent under test, with a blackboard of its own. */
export interface TestAgent<D extends AgentDefinition = AgentDefinition> {
  /** Sends the agent a request and waits for its reply. Rejects with the error that a caller would get. */
  request(content: string, data?: Types<D>['input']): Promise<AgentMessage<Types<D>['output']>>
  /**
   * Sends the agent a message, a broadcast unless `type` says otherwise, and waits until it is handled. Rejects if the
   * handler throws.
   */
  observe(message: Partial<AgentMessage>): Promise<void>
  /** Last committed state of the agent. */
  readonly state: Types<D>['state']
  /** Every message that the agent has sent, except replies. */
  readonly sent: AgentMessage[]
  /** Ends the agent's thread as a crash would, and waits until the next one is ready. */
  restart(): Promise<void>
}

/**
 * Makes an agent that runs in this thread without a team: inside the real runtime, with its partners played by the
 * test. At any sync point it is alone, and continues at once with its own contribution. Use `testTeam` to test agents
 * that meet.
 *
 * @example
 * const agent = testAgent(counter, { replies: { oracle: '42' } })
 * const reply = await agent.request('count', { by: 2 })
 * agent.state // { count: 2 }
 *
 * @throws {ConfigurationError} for a wrong option.
 */
export function testAgent<D extends AgentDefinition>(definition: D, options: TestAgentOptions = {}): TestAgent<D> {
  checkOptions(options, '')
  return new Bench(definition, options)
}

/**
 * Restarts without a delay, since no time passes by itself, and without a limit, so that a test may restart at will.
 */
const AT_ONCE = { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 } }

class Bench<D extends AgentDefinition> extends TeamRuntime implements TestAgent<D> {
  readonly #name: string
  readonly #initialState: () => unknown
  readonly #clock: VirtualClock
  readonly sent: AgentMessage[] = []

  constructor(definition: D, { role = {}, model, clock = virtualClock(), tools = {}, replies = {} }: TestAgentOptions) {
    const name = role.name ?? 'agent'
    const definitions = new Map<string, AgentDefinition>([[name, definition]])
    for (const [partner, reply] of Object.entries(replies)) definitions.set(partner, partnerThat(reply))
    const played = Object.entries(tools).map(
      ([tool, run]): Tool =>
        defineTool({ name: tool, description: 'Played by a test.', input: ANYTHING, run: (input) => run(input) }),
    )
    const agents = [...definitions.keys()].map((key) =>
      key === name ? { ...role, name, tools: played } : { name: key },
    )
    const settings = settingsFrom(
      { agents, enableBlackboard: true, clock, supervision: AT_ONCE },
      { modules: new Set(definitions.keys()) },
    )
    super(settings, { name: 'test', run: async () => '' }, { definitions, ...(model && { model }) })
    this.#name = name
    this.#clock = clock
    this.supervisor.syncPoints.declareFor(name)
    const handlers = handlersFrom(definition, name)
    this.#initialState = () => structuredClone(initialStateOf(handlers, settings.agents[0]!.info) ?? {})
    this.events.subscribe((event) => {
      if (event.type === 'message' && isSent(event.message, name)) this.sent.push(event.message)
    })
  }

  async request(content: string, data?: Types<D>['input']): Promise<AgentMessage<Types<D>['output']>> {
    const reply = this.sendMessage({
      recipient: this.#name,
      content,
      requiresResponse: true,
      ...(data !== undefined && { structuredData: data }),
    })
    return whileTimePasses(reply as Promise<AgentMessage<Types<D>['output']>>, {
      clock: this.#clock,
      isAsking: () => false, // nobody is asked outside of a run
      warn: (text) => this.supervisor.logger.warn({}, text),
    })
  }

  async observe(message: Partial<AgentMessage>): Promise<void> {
    const {
      id: _id,
      sentAt: _sentAt,
      runId: _runId,
      ...given
    } = { type: 'broadcast' as const, content: '', ...message }
    const { deadLetters } = this.supervisor.journal
    const before = deadLetters.total
    await this.getAgent(this.#name)!.receiveMessage({ ...given, recipient: this.#name } as AgentMessage)
    const { mailbox } = this.supervisor.directory.agent(this.#name)!
    while (!mailbox.empty) await nextTurn()
    const died = before === deadLetters.total ? [] : deadLetters.list().slice(before - deadLetters.total)
    for (const { reason, errors } of died) if (reason === 'failed' && errors.length > 0) throw errors[0]
  }

  get state(): Types<D>['state'] {
    return this.supervisor.directory.agent(this.#name)?.state ?? this.#initialState()
  }

  async restart(): Promise<void> {
    await this.start()
    const agent = this.supervisor.directory.agent(this.#name)!
    const { incarnation } = agent
    if (incarnation?.thread instanceof LocalThread)
      incarnation.thread.kill({ code: 1, error: undefined, outside: true })
    while (agent.incarnation === incarnation) await nextTurn()
    await this.supervisor.lifecycle.ready(agent)
  }
}

const isSent = ({ type, sender, recipient }: AgentMessage, name: string) =>
  sender === name && type !== 'response' && recipient !== USER && (recipient !== ORCHESTRATOR || type === 'report')

const ANYTHING: ModelSchema = {
  '~standard': {
    version: 1,
    vendor: 'dramatis',
    validate: (value) => ({ value }),
    jsonSchema: { input: () => ({ type: 'object' }), output: () => ({}) },
  },
}

function partnerThat(reply: Reply | ((message: AgentMessage) => Reply) | Error): AgentDefinition {
  return defineAgent({
    receive(message) {
      if (reply instanceof Error) throw reply
      return typeof reply === 'function' ? reply(message) : reply
    },
  })
}
