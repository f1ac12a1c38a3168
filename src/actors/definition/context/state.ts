/** The verbs about state: the turn's own, and what several agents read and change. */
import type { Immutable } from 'immer'
import type { Schema } from '../tool.ts'

/**
 * Whose a shared state is. 'agent_shared': one agent's, who writes it; others read it whose names are in its role's
 * `sharedWith`. 'team_shared': all agents of the team. 'persistent': the same, as long as the log store lasts. Source: document
 * 002, 2.4.1.
 */
export type SharedScope = 'agent_shared' | 'team_shared' | 'persistent'

/**
 * State that several agents read, and change one after the other: JSON values by keys of 1 to 256 characters, kept in the
 * host. A value may be as large as a message (`communication.maxMessageBytes`), and a state has up to 10,000 keys. What is read
 * is frozen. Both verbs are steps: a turn that is tried again reads what it read, and what it changed stays changed once.
 * Source: document 002, 2.4.1.
 */
export interface SharedState {
  /**
   * The value of a key; undefined where nobody has written it. With a schema: as the schema returns it. Rejects with
   * `MessageRejectedError` where it misses the schema, with `ConfigurationError` where this agent may not read it, and with
   * `UnknownAgentError` for an owner who is not there.
   */
  get<T = unknown>(key: string, schema?: Schema<unknown, T>): Promise<T | undefined>
  /**
   * Changes the value of a key and resolves to the new one. `change` is given the value as it stands (undefined: there is none)
   * and returns the new one, at once and without changing what it was given. Where another agent was faster it is called again
   * with what that one wrote, so no update is lost; let it depend on its argument alone. Await it: one that is still under way
   * when the handler fails, and is tried again (`onHandlerError`), may be made twice.
   *
   * Rejects with what `change` throws; with `MessageRejectedError` for what is no JSON value (undefined is none), for a wrong
   * key, for one key too many, and where others were faster 1,000 times in succession; with `ConfigurationError` for the state of
   * another agent.
   *
   * @example
   * const served = await context.shared('team_shared').update('served', (n: number = 0) => n + 1)
   */
  update<T>(key: string, change: (value: T | undefined) => T): Promise<T>
}

/** What a turn keeps, and what it shares with others. */
export interface StateContext<State, RunState> {
  /** The agent's, over all runs and restarts. A JSON value. */
  readonly state: Immutable<State>
  /**
   * Changes the state by a recipe over a draft. This turn sees it at once; it counts when the turn ends well, and is
   * dropped if it fails. Where a turn that ran within this one has committed meanwhile (`reentrancy: 'chain'`) the recipe is
   * run again on what that one left, so let it depend on its draft alone.
   *
   * @throws {MessageRejectedError} for what is no JSON value, with its path.
   */
  setState(recipe: (draft: State) => void): void
  /** This run's alone. */
  readonly runState: Immutable<RunState>
  /** The same for `runState`. */
  setRunState(recipe: (draft: RunState) => void): void
  /**
   * State that others may read or change, kept in the host over turns, runs and restarts.
   *
   * - `'agent_shared'`: this agent's own, or with `owner` that of another one, to read alone: where its role's `sharedWith`
   *   has this agent's name. It ends with its agent, like `state`. A protocol script reads everybody's, and has none itself.
   * - `'team_shared'`: all agents of the team and its protocol scripts read and write it. It ends with the team.
   * - `'persistent'`: the same, as long as the team's log store. In this version that is the memory of the team, so it ends
   *   with the team, too: nothing of it outlives `close()` or the process.
   *
   * @throws {MessageRejectedError} for another scope, or an `owner` of a state that is nobody's own.
   *
   * @example
   * await context.shared('agent_shared').update('draft', () => text)
   * const draft = await context.shared('agent_shared', 'writer').get<string>('draft')
   */
  shared(scope: SharedScope, owner?: string): SharedState
}
