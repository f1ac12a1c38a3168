/** The context of a protocol script: an agent's context with access to the team. */

import { ACTING } from '../../mailbox/message.ts'
import { ConfigurationError, MessageRejectedError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import type { RosterEntry } from '../definition/assignment.ts'
import { checkKnown, checkName, checkObject, checkText, wrongArgument } from '../definition/checks.ts'
import type { AgentContext, OrchestratorContext, SyncResult } from '../definition/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { handled } from '../definition/promises.ts'
import { checkedConfig, protocolOf, type ScriptResult } from '../definition/protocol.ts'
import type { Candidate, CandidateOptions, PendingTask, RouteOptions, TaskInput } from '../definition/task.ts'
import { vote } from '../model/decisions.ts'
import { TurnContext } from './context.ts'
import { candidates, delegate, route } from './delegate.ts'
import { synced } from './host-calls.ts'
import type { Turn } from './turn.ts'

const DELEGATE_OPTIONS: ReadonlySet<string> = new Set(['as', 'metadata'])

export class ScriptContext extends TurnContext implements OrchestratorContext {
  readonly #turn: Turn
  readonly #roster: () => readonly RosterEntry[]

  constructor(turn: Turn, roster: () => readonly RosterEntry[]) {
    super(turn)
    this.#turn = turn
    this.#roster = roster
  }

  get agents(): readonly RosterEntry[] {
    return this.#turn.sees(this.#roster())
  }

  decide(question: string, choice: string, reason: string): void {
    this.#turn.assertOpen()
    for (const [path, value] of Object.entries({ question, choice, reason })) checkText(value, path)
    void this.#turn.call('decide', { question, choice, reason })
  }

  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean } {
    if (!Array.isArray(ballots)) throw wrongArgument('ballots', ballots, 'a list of { agent, value } is needed')
    const { agents } = this
    const names = agents.map(({ name }) => name)
    for (const [i, ballot] of ballots.entries()) this.#checkBallot(ballot, `ballots[${i}]`, names)
    return vote(ballots, Object.fromEntries(agents.map((agent) => [agent.name, agent.weight])))
  }

  #checkBallot(ballot: unknown, path: string, names: readonly string[]): void {
    checkObject(ballot, path)
    const { agent, weight } = ballot as { agent: unknown; weight?: unknown }
    checkName(agent, `${path}.agent`)
    if (weight !== undefined)
      throw wrongArgument(`${path}.weight`, weight, 'a ballot has none: the weight is the one of the role of its agent')
    const name = agent as string
    if (names.includes(name) || this.#turn.knows(name)) return
    const meant = nearest(name, names)
    const advice = meant === undefined ? '' : `; did you mean "${meant}"?`
    throw wrongArgument(`${path}.agent`, name, `the name of an agent of the team is needed${advice}`)
  }

  override delegate(
    to: string,
    task: TaskInput,
    options: { as?: string; metadata?: Record<string, unknown> } = {},
  ): PendingTask {
    checkKnown(options, DELEGATE_OPTIONS)
    const { as, metadata } = options
    if (as !== undefined) checkName(as, 'as')
    const acting = as === undefined ? metadata : { ...metadata, [ACTING]: as }
    return delegate(this.#turn, to, task, acting && { metadata: acting })
  }
  route(task: TaskInput, options: RouteOptions = {}): Promise<string | null> {
    return handled(route(this.#turn, this, task, options))
  }
  candidates(task: TaskInput, options: CandidateOptions = {}): Promise<Candidate[]> {
    return handled(candidates(this.#turn, task, options))
  }
  synced<T = unknown>(point: string): Promise<SyncResult<T>> {
    return handled(synced(this.#turn, point))
  }
}

type Script = (orchestrator: OrchestratorContext, query: string, speaker?: string) => Promise<ScriptResult>

/**
 * Returns agent handlers for a script: the query is the message, the script's result the reply. Entries that it has
 * subscribed to come as messages, and go to its callbacks alone.
 */
export const scriptHandlers = (run: Script): AgentHandlers => ({
  receive: ({ content, metadata }, context) =>
    run(scriptContext(context), content, typeof metadata.speaker === 'string' ? metadata.speaker : undefined),
  observe() {},
})

function scriptContext(context: AgentContext): ScriptContext {
  if (context instanceof ScriptContext) return context
  throw new MessageRejectedError('Only a protocol script can be asked to run a protocol.')
}

/**
 * Returns the handlers for the script that a module exports as its default, with its configuration. `shown` is the
 * module as shown in errors.
 */
export function moduleScript(exported: unknown, shown: string, config: object | undefined): AgentHandlers {
  const protocol = protocolOf(exported)
  if (!protocol)
    throw new ConfigurationError(
      `orchestration.module: the module has no protocol as its default export: ${shown}. Write: export default defineProtocol({ ... }).`,
      { path: 'orchestration.module', module: shown },
    )
  const checked = checkedConfig(protocol, config ?? {}, 'orchestration.config')
  return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query, checked))
}
