/** The turn of a protocol script: a turn like any other, with the team in sight. */
import { checkCallback } from '../../blackboard/check-write.ts'
import type { Blackboard, BlackboardEntry } from '../../blackboard/entry.ts'
import { compilePattern } from '../../blackboard/pattern.ts'
import { type EntryCallback, Subscriptions } from '../../blackboard/subscriptions.ts'
import { ConfigurationError, describe, MessageRejectedError } from '../../errors.ts'
import { vote } from '../decisions/vote.ts'
import type { RosterEntry } from '../definition/assignment.ts'
import { checkObject, checkText, wrongArgument } from '../definition/checks.ts'
import type { AgentContext, OrchestratorContext, SyncResult } from '../definition/context/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { handled, quiet } from '../definition/promises.ts'
import { checkedConfig, protocolOf, type ScriptResult } from '../definition/protocol.ts'
import type { Candidate, CandidateOptions, RouteOptions } from '../definition/routing.ts'
import type { TaskInput } from '../definition/task.ts'
import { candidates, route } from './route.ts'
import { Turn } from './turn.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'

export class OrchestratorTurn extends Turn implements OrchestratorContext {
  readonly #roster: () => readonly RosterEntry[]
  #listeners: Listeners | undefined
  #board: Blackboard | undefined

  constructor(loop: TurnHost, start: TurnStart, roster: () => readonly RosterEntry[]) {
    super(loop, start)
    this.#roster = roster
  }

  get agents(): readonly RosterEntry[] {
    return this.#roster()
  }

  /** A script has no `observe` of its own, whatever the runtime passes on to its blackboard. */
  protected override get hears(): boolean {
    return false
  }

  /** As an agent's, and in the host with `subscribe`: a callback cannot be lent to a thread, and would not outlive it. */
  override get blackboard(): Blackboard {
    const board = super.blackboard
    const listeners = this.#listeners
    if (!listeners) return board
    this.#board ??= { ...board, subscribe: (pattern, callback) => handled(listeners.add(pattern, callback)) }
    return this.#board
  }

  /** Lets the script subscribe: what its run's board tells the orchestrator has to be given to `tell`. */
  listen(): { tell(entry: BlackboardEntry): void } {
    this.#listeners ??= new Listeners(this)
    return this.#listeners
  }

  decide(question: string, choice: string, reason: string): void {
    this.assertOpen()
    for (const [path, value] of Object.entries({ question, choice, reason })) checkText(value, path)
    void this.call('decide', { question, choice, reason })
  }

  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean } {
    if (!Array.isArray(ballots)) throw wrongArgument('ballots', ballots, 'a list of { agent, value } is needed')
    for (const [i, ballot] of ballots.entries()) checkObject(ballot, `ballots[${i}]`)
    return vote(ballots, Object.fromEntries(this.agents.map((agent) => [agent.name, agent.weight])))
  }

  route(task: TaskInput, options: RouteOptions = {}): Promise<string | null> {
    return handled(route(this, task, options))
  }
  candidates(task: TaskInput, options: CandidateOptions = {}): Promise<Candidate[]> {
    return handled(candidates(this, task, options))
  }
  synced<T = unknown>(point: string): Promise<SyncResult<T>> {
    return handled(this.#synced(point))
  }
  async #synced<T>(point: string): Promise<SyncResult<T>> {
    checkText(point, 'point')
    return (await this.call('synced', { point })) as SyncResult<T>
  }
}

/** The callbacks of one script. Its run's board is subscribed to once, whatever they want of it. */
class Listeners {
  readonly #turn: OrchestratorTurn
  readonly #subscriptions: Subscriptions
  #subscribed: Promise<void> | undefined

  constructor(turn: OrchestratorTurn) {
    this.#turn = turn
    this.#subscriptions = new Subscriptions((error, { key }) =>
      turn.log.error({ key, error: describe(error) }, 'a subscriber of the blackboard threw'),
    )
  }

  async add(pattern: string, callback: EntryCallback): Promise<() => void> {
    const wants = compilePattern(pattern)
    checkCallback(callback)
    this.#subscribed ??= this.#turn.call('subscribe', { pattern: '**' }).then(quiet)
    await this.#subscribed
    return this.#subscriptions.add(wants, callback)
  }

  tell(entry: BlackboardEntry): void {
    this.#subscriptions.deliver(entry)
  }
}

type Script = (orchestrator: OrchestratorContext, query: string) => Promise<ScriptResult>

/** A script in the host as the handlers of an agent: the query is its message, its result the reply. */
export function scriptHandlers(run: Script): AgentHandlers {
  const open = new Map<string, { tell(entry: BlackboardEntry): void }>()
  return {
    async receive(message, context) {
      const turn = scriptTurn(context)
      open.set(turn.runId, turn.listen())
      try {
        return await run(turn, message.content)
      } finally {
        open.delete(turn.runId)
      }
    },
    observe({ type, structuredData }, { runId }) {
      if (type === 'publish') open.get(runId)?.tell(structuredData as BlackboardEntry)
    },
  }
}

function scriptTurn(context: AgentContext): OrchestratorTurn {
  if (context instanceof OrchestratorTurn) return context
  throw new MessageRejectedError('Only a protocol script can be asked to run a protocol.')
}

/** The script that a module exports as its default, with its configuration. `shown` is the module, for the error. */
export function moduleScript(exported: unknown, shown: string, config: object | undefined): AgentHandlers {
  const protocol = protocolOf(exported)
  if (!protocol)
    throw new ConfigurationError(
      `orchestration.module: the module has no protocol as its default export: ${shown}. Write: export default defineProtocol({ ... }).`,
      { path: 'orchestration.module', module: shown },
    )
  const checked = checkedConfig(protocol, config ?? {}, 'orchestration.config')
  return { receive: ({ content }, context) => protocol.run(scriptTurn(context), content, checked) }
}
