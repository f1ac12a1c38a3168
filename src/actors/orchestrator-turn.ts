/** The turn of a protocol script: a turn like any other, with the team in sight. */
import { ConfigurationError, MessageRejectedError, unavailable } from '../errors.ts'
import type { RosterEntry } from './assignment.ts'
import type { OrchestratorContext, SyncResult } from './context.ts'
import type { AgentHandlers } from './definition.ts'
import { checkedConfig, protocolOf, type ScriptResult } from './protocol.ts'
import { Turn } from './turn.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'
import { vote } from './vote.ts'

export class OrchestratorTurn extends Turn implements OrchestratorContext {
  readonly #roster: () => readonly RosterEntry[]

  constructor(loop: TurnHost, start: TurnStart, roster: () => readonly RosterEntry[]) {
    super(loop, start)
    this.#roster = roster
  }

  get agents(): readonly RosterEntry[] {
    return this.#roster()
  }

  decide(question: string, choice: string, reason: string): void {
    for (const [path, value] of Object.entries({ question, choice, reason })) {
      if (typeof value !== 'string')
        throw new MessageRejectedError(`decide: ${path} is a ${typeof value}; a text is needed.`, {
          path,
          got: typeof value,
        })
    }
    void this.call('decide', { question, choice, reason })
  }

  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean } {
    return vote(ballots, Object.fromEntries(this.agents.map((agent) => [agent.name, agent.weight])))
  }

  route(): Promise<never> {
    return Promise.reject(unavailable('orchestrator.route'))
  }
  synced<T>(): Promise<SyncResult<T>> {
    return Promise.reject(unavailable('orchestrator.synced'))
  }
}

/** A script as the handlers of an agent: the query is its message, its result the reply. */
export function scriptHandlers(
  run: (orchestrator: OrchestratorContext, query: string) => Promise<ScriptResult>,
): AgentHandlers {
  return {
    async receive(message, context) {
      if (!(context instanceof OrchestratorTurn))
        throw new MessageRejectedError('Only a protocol script can be asked to run a protocol.')
      return run(context, message.content)
    },
  }
}

/** The script that a module exports as its default, with its configuration. `shown` is the module, for the error. */
export function moduleScript(exported: unknown, shown: string, config: object | undefined): AgentHandlers {
  const protocol = protocolOf(exported)
  if (!protocol)
    throw new ConfigurationError(
      `The protocol module has no protocol as its default export: ${shown}. Write: export default defineProtocol({ ... }).`,
      { module: shown },
    )
  const checked = checkedConfig(protocol, config ?? {}, 'orchestration.config')
  return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query, checked))
}
