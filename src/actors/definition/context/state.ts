/** Verbs for state: the turn's own state, and state that several agents read and change. */
import type { Immutable } from 'immer'
import type { Schema } from '../tool.ts'

/**
 * Owner of a shared state. 'agent_shared': one agent, which writes it; agents that its role's `sharedWith` names may
 * read it. 'team_shared': all agents of the team. 'persistent': the same, as long as the log or file exists. Source:
 * document 002, 2.4.1.
 */
export type SharedScope = 'agent_shared' | 'team_shared' | 'persistent'

/**
 * State that several agents read, and change one after the other: JSON values by keys of 1 to 256 characters, kept in
 * the host. A value may be as large as a message (`communication.maxMessageBytes`), and a state has up to 10,000 keys.
 * Read values are frozen. Both verbs are steps: a redelivered turn reads the same value again, and does not repeat its
 * change. Source: document 002, 2.4.1.
 */
export interface SharedState {
  /**
   * Returns the value of a key, undefined if nobody has written it; with a schema, the value that the schema returns.
   * Rejects with `MessageRejectedError` if the value misses the schema, with `ConfigurationError` if this agent may not
   * read it, and with `UnknownAgentError` for an owner that does not exist.
   */
  get<T = unknown>(key: string, schema?: Schema<unknown, T>): Promise<T | undefined>
  /**
   * Changes the value of a key and resolves to the new one. `change` gets the current value (undefined: there is none)
   * and returns the new one, synchronously and without changing its argument. If another agent was faster, `change` is
   * called again with that agent's value, so no update is lost. So let `change` depend on its argument alone. Await the
   * update: one that is still open when the handler fails and runs again (`onHandlerError`) may be made twice.
   *
   * Rejects with the error that `change` throws; with `MessageRejectedError` for a value that is not JSON (undefined is
   * none), for a wrong key, for one key too many, and if others were faster 1,000 times in succession; with
   * `ConfigurationError` for the state of another agent.
   *
   * @example
   * const served = await context.shared('team_shared').update('served', (n: number = 0) => n + 1)
   */
  update<T>(key: string, change: (value: T | undefined) => T): Promise<T>
}

/** State that a turn keeps, and state that it shares with other agents. */
export interface StateContext<State, RunState> {
  /** The agent's state, over all runs and restarts. A JSON value. */
  readonly state: Immutable<State>
  /**
   * Changes the state by a recipe over a draft. This turn sees the change at once. The change is kept when the turn
   * ends well, and dropped if it fails. If a turn within this one has committed meanwhile (`reentrancy: 'chain'`), the
   * recipe runs again on the state that it left, so let the recipe depend on its draft alone.
   *
   * @throws {MessageRejectedError} for what is no JSON value, with its path.
   */
  setState(recipe: (draft: State) => void): void
  /** The agent's state in this run only. */
  readonly runState: Immutable<RunState>
  /** Changes `runState` as `setState` changes `state`. */
  setRunState(recipe: (draft: RunState) => void): void
  /**
   * Returns state that others may read or change, kept in the host over turns, runs and restarts.
   *
   * - `'agent_shared'`: this agent's own. With `owner` that of another agent, read-only, if that agent's role names
   *   this one in `sharedWith`. It ends with its agent, like `state`. A protocol script may read that of every agent,
   *   and has none itself.
   * - `'team_shared'`: all agents of the team and its protocol scripts read and write it. It ends with the team. A team
   *   with `stateManagement` goes on in the next process, unless `endsWithSession` says otherwise.
   * - `'persistent'`: the same, as long as the log of `stateManagement` or the file of `persistentFile`. Without both
   *   it ends with the team. With a file an update resolves when the file is written, and both verbs reject with
   *   `ConfigurationError` if the file cannot be read or written.
   *
   * @throws {MessageRejectedError} for another scope, or an `owner` for a state that has no single owner.
   *
   * @example
   * await context.shared('agent_shared').update('draft', () => text)
   * const draft = await context.shared('agent_shared', 'writer').get<string>('draft')
   */
  shared(scope: SharedScope, owner?: string): SharedState
}
