/** Conversations of a run's thread: loaded before the run begins, and saved before its caller has the result. */
import { DramatisError, describe } from '../../errors.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import type { ConversationStore } from '../settings/conversation-store.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { ThreadStore } from './thread-store.ts'

type Needs = Pick<Supervisor, 'clock' | 'directory' | 'agentStates' | 'parts' | 'logger'>

export class RunConversations {
  readonly #threads: ThreadStore
  readonly #logger: Needs['logger']

  constructor({ clock, directory, agentStates, parts, logger }: Needs, store: ConversationStore) {
    this.#threads = new ThreadStore({ clock, directory, agentStates, parts, store })
    this.#logger = logger
  }

  /** Resolves to the error that the run cannot begin with. */
  async load(run: RunState): Promise<DramatisError | undefined> {
    try {
      await this.#threads.load(run)
      return undefined
    } catch (error) {
      if (error instanceof DramatisError) return error
      throw error
    }
  }

  /**
   * Begins a thread for a caller, unless somebody has. Resolves to whom it belongs; null: to nobody that is known.
   *
   * Rejects with `ConversationStoreError`.
   */
  begin(threadId: string, caller: string): Promise<string | null> {
    return this.#threads.begin(threadId, caller)
  }

  /** Saves what the run has changed. A failure is one of the run: it has its answer all the same. */
  async save(run: RunState): Promise<void> {
    try {
      await this.#threads.save(run)
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      this.#notSaved(run, error)
      run.failures.push({ agent: ORCHESTRATOR, error })
    }
  }

  /** Saves what has changed after the end of the run. Never rejects. */
  async saveLate(run: RunState): Promise<void> {
    if (run.threadId === undefined) return
    await this.#threads.save(run).catch((error: unknown) => this.#notSaved(run, error))
  }

  #notSaved(run: RunState, error: unknown): void {
    const fields = { runId: run.id, threadId: run.threadId, error: describe(error) }
    this.#logger.error(fields, 'the conversations of a thread could not be saved')
  }
}
