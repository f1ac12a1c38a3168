/** The turn of a protocol script: a turn like any other, with the team in sight. */
import { ConfigurationError, MessageRejectedError, unavailable } from '../errors.ts'
import type { RosterEntry } from './assignment.ts'
import type { OrchestratorContext, SyncResult } from './context.ts'
import type { AgentHandlers } from './definition.ts'
import { rejected } from './handled.ts'
import { checkedConfig, protocolOf, type ScriptResult } from './protocol.ts'
import { Turn } from './turn.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'
import { checkObject, checkText, wrongArgument } from './verb-checks.ts'
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
    this.assertOpen()
    for (const [path, value] of Object.entries({ question, choice, reason })) checkText(value, path)
    void this.call('decide', { question, choice, reason })
  }

  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean } {
    if (!Array.isArray(ballots)) throw wrongArgument('ballots', ballots, 'a list of { agent, value } is needed')
    for (const [i, ballot] of ballots.entries()) checkObject(ballot, `ballots[${i}]`)
    return vote(ballots, Object.fromEntries(this.agents.map((agent) => [agent.name, agent.weight])))
  }

  route(): Promise<never> {
    return rejected(unavailable('orchestrator.route'))
  }
  synced<T>(): Promise<SyncResult<T>> {
    return rejected(unavailable('orchestrator.synced'))
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
      `orchestration.module: the module has no protocol as its default export: ${shown}. Write: export default defineProtocol({ ... }).`,
      { path: 'orchestration.module', module: shown },
    )
  const checked = checkedConfig(protocol, config ?? {}, 'orchestration.config')
  return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query, checked))
}
