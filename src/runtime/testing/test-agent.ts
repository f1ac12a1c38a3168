/** One agent in this thread, without a team: the real runtime around it, its partners played by the test. */
import { type AgentDefinition, defineAgent, type Reply } from '../../actors/definition.ts'
import type { ModelClient } from '../../actors/model.ts'
import type { RoleInfo } from '../../actors/role.ts'
import { unavailable } from '../../errors.ts'
import { type AgentMessage, ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import { LocalThread } from '../local-thread.ts'
import { settingsFrom } from '../settings.ts'
import { TeamRuntime } from '../team.ts'
import { historyOf } from '../trace.ts'
import { type VirtualClock, virtualClock } from './virtual-clock.ts'

type Types<D> =
  D extends AgentDefinition<infer In, infer Out, infer State> ? { input: In; output: Out; state: State } : never

export interface TestAgentOptions {
  role?: Partial<RoleInfo>
  model?: ModelClient
  clock?: VirtualClock
  tools?: Record<string, (input: unknown) => unknown>
  /** What its partners answer: a reply, a function of the message, or an error to fail with. */
  replies?: Record<string, Reply | ((message: AgentMessage) => Reply) | Error>
}

export interface TestAgent<D> {
  /** Sends it a request and waits for its reply. */
  request(content: string, data?: Types<D>['input']): Promise<AgentMessage<Types<D>['output']>>
  /** Gives it a message for `observe`: a broadcast unless `type` says otherwise. */
  observe(message: Partial<AgentMessage>): Promise<void>
  readonly state: Types<D>['state']
  /** Every message that it has sent, replies apart. */
  readonly sent: AgentMessage[]
  /** Ends its life as a crash would, and waits for the next one. */
  restart(): Promise<void>
}

/**
 * An agent under test.
 *
 * @example
 * const agent = testAgent(counter, { replies: { oracle: '42' } })
 * const reply = await agent.request('count', { by: 2 })
 * agent.state // { count: 2 }
 */
export function testAgent<D extends AgentDefinition>(definition: D, options: TestAgentOptions = {}): TestAgent<D> {
  if (options.model) throw unavailable('testAgent options.model')
  if (options.tools) throw unavailable('testAgent options.tools')
  return new Bench(definition, options)
}

class Bench<D extends AgentDefinition> extends TeamRuntime implements TestAgent<D> {
  readonly #name: string

  constructor(definition: D, { role = {}, clock, replies = {} }: TestAgentOptions) {
    const name = role.name ?? 'agent'
    const definitions = new Map<string, AgentDefinition>([[name, definition]])
    for (const [partner, reply] of Object.entries(replies)) definitions.set(partner, partnerThat(reply))
    const agents = [...definitions.keys()].map((key) => (key === name ? { ...role, name } : { name: key }))
    const settings = settingsFrom(
      { agents, enableBlackboard: true, clock: clock ?? virtualClock() },
      { modules: new Set(definitions.keys()) },
    )
    super(settings, { name: 'test', run: async () => '' }, { definitions })
    this.#name = name
  }

  async request(content: string, data?: Types<D>['input']): Promise<AgentMessage<Types<D>['output']>> {
    const reply = await this.sendMessage({
      recipient: this.#name,
      content,
      requiresResponse: true,
      ...(data !== undefined && { structuredData: data }),
    })
    return reply as AgentMessage<Types<D>['output']>
  }

  async observe(message: Partial<AgentMessage>): Promise<void> {
    const { type = 'broadcast', content = '', structuredData, metadata, sender } = message
    const recipient = type === 'broadcast' ? null : this.#name
    const told = {
      type: type === 'publish' ? ('report' as const) : type,
      recipient: type === 'publish' ? this.#name : recipient,
      content,
      ...(structuredData !== undefined && { structuredData }),
      ...(metadata && { metadata }),
      ...(sender && { sender }),
    }
    await this.sendMessage(told)
    while (
      this.supervisor.cell(this.#name)!.mailbox.handed.size + this.supervisor.cell(this.#name)!.mailbox.waiting >
      0
    )
      await new Promise((resolve) => setImmediate(resolve))
  }

  get state(): Types<D>['state'] {
    return this.supervisor.cell(this.#name)?.state as Types<D>['state']
  }

  get sent(): AgentMessage[] {
    const messages = [...this.supervisor.runs.values()].flatMap((run) => historyOf(run.log, this.supervisor))
    return messages.filter(
      ({ sender, type, recipient }) =>
        sender === this.#name && type !== 'response' && recipient !== USER && recipient !== ORCHESTRATOR,
    )
  }

  async restart(): Promise<void> {
    await this.start()
    const cell = this.supervisor.cell(this.#name)!
    const { life } = cell
    if (life?.thread instanceof LocalThread) life.thread.kill({ code: 1, error: undefined, outside: true })
    while (cell.life === life) await new Promise((resolve) => setImmediate(resolve))
    await this.supervisor.lives.ready(cell)
  }
}

function partnerThat(reply: Reply | ((message: AgentMessage) => Reply) | Error): AgentDefinition {
  return defineAgent({
    receive(message) {
      if (reply instanceof Error) throw reply
      return typeof reply === 'function' ? reply(message) : reply
    },
  })
}
