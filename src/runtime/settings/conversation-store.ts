/** Store of your own for conversations of threads: what a team with several processes shares. */

/**
 * Conversation of one agent with its model in a thread. `conversation` is JSON, to be given back as it was; it belongs
 * to the team. `version` counts its writes, from 1 on.
 */
export interface StoredConversation {
  agent: string
  version: number
  conversation: object
}

/**
 * Store of conversations. A team loads those of a thread when a run of it begins, and saves those that have changed
 * when the run ends. The signal is aborted when nobody waits any more.
 *
 * @example
 * const conversations: ConversationStore = {
 *   load: (threadId) => database.talksOf(threadId),
 *   save: (threadId, stored) => database.replaceIf(threadId, stored.agent, stored.version - 1, stored),
 * }
 */
export interface ConversationStore {
  /** Returns all conversations of a thread; an empty list if there is none. */
  load(threadId: string, signal: AbortSignal): Promise<readonly StoredConversation[]>
  /**
   * Writes a conversation if the version that is stored is the one before (none for version 1), in one step. Resolves
   * to false, and writes nothing, if it is another: then a run in another process was faster, and the team merges both.
   */
  save(threadId: string, stored: StoredConversation, signal: AbortSignal): Promise<boolean>
}
