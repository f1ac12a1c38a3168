/**
 * Conversations of agents by thread (`threadId`), across runs. An agent starts a run with the conversation that the
 * thread has when it first hears of the run. Each of its turns adds to the thread as it commits. So two concurrent runs
 * do not see each other. The next run sees both, in the order in which their turns ended.
 *
 * Conversations are kept in memory, up to the bounds below; beyond them the least recently used one is dropped. The
 * conversations of a removed agent are dropped too, and all of them with the team.
 */
import { hashesInMessages, lengthOf } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../actors/definition/model.ts'
import {
  bounded,
  type Conversation,
  charactersOf,
  historyOf,
  merged,
  NO_CONVERSATION,
  withTurn,
} from '../../actors/model/context/conversation.ts'
import type { Cell } from './cell.ts'
import type { PartStore } from './part-store.ts'
import type { RunState } from './run-state.ts'
import { ThreadOwners } from './thread-owners.ts'

const MOST = 1_000
const MOST_CHARACTERS = 2 ** 26

/** Id of the turn that stands for the messages which the caller of a run gives. */
export const HISTORY_TURN = '$history'

interface Kept {
  readonly agent: number
  readonly threadId: string
  readonly conversation: Conversation
  readonly characters: number
  /** Bytes of its large parts. */
  readonly stored: Map<string, Uint8Array>
}

export class Conversations {
  /** Conversations by agent and thread; the most recently used is last. */
  readonly #kept = new Map<string, Kept>()
  #characters = 0
  readonly #parts: PartStore | undefined
  /** Owners of the threads. A thread with a conversation is always among them. */
  readonly owners: ThreadOwners

  /** Without a store of parts, the bytes of large ones are not kept. `isInUse` keeps the owner of a thread. */
  constructor(parts?: PartStore, isInUse: (threadId: string) => boolean = () => false) {
    this.#parts = parts
    this.owners = new ThreadOwners(isInUse, (threadId) => this.#dropAll((kept) => kept.threadId === threadId))
  }

  /**
   * Gives the agent the conversation of its thread, or the messages of the run's caller, when it first hears of a run.
   */
  begin(cell: Cell, run: RunState): void {
    if (run.states.has(cell.index)) return
    const key = keyOf(cell, run)
    const kept = key === undefined ? undefined : this.#of(key)
    const conversation = key === undefined ? historyFor(cell, run) : kept?.conversation
    if (!conversation) return
    if (kept) this.#parts?.pass(kept, run)
    run.states.set(cell.index, conversation)
    run.unlogged.add(cell.index)
  }

  #of(key: string): Kept | undefined {
    const kept = this.#kept.get(key)
    if (!kept) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, kept)
    return kept
  }

  /** Adds a committed turn to the thread: it made `after` of the conversation `before` of its run. */
  committed(cell: Cell, run: RunState, before: Conversation, after: Conversation): void {
    const key = keyOf(cell, run)
    if (key !== undefined && run.threadId !== undefined) this.add(cell.index, run.threadId, before, after)
  }

  /** Adds to the conversation of an agent and a thread what has made `after` of `before`. */
  add(agent: number, threadId: string, before: Conversation, after: Conversation): void {
    const now = this.#of(`${agent} ${threadId}`)?.conversation
    this.keep(agent, threadId, now ? bounded(merged(now, before, after)) : after)
  }

  /** Keeps a conversation as that of an agent and a thread. */
  keep(agent: number, threadId: string, conversation: Conversation): void {
    const key = `${agent} ${threadId}`
    this.owners.begin(threadId, null)
    const characters = charactersOf(historyOf(conversation)) + (conversation.summary?.text.length ?? 0)
    const stored = new Map<string, Uint8Array>()
    for (const hash of this.#parts?.size ? hashesInMessages(historyOf(conversation)) : []) {
      const bytes = this.#parts?.get(hash)
      if (bytes) this.#parts?.hold({ stored }, hash, bytes)
    }
    this.#drop(key)
    this.#kept.set(key, { agent, threadId, conversation, characters, stored })
    this.#characters += characters
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MOST && this.#characters <= MOST_CHARACTERS) break
      this.#drop(oldest)
    }
  }

  /** Conversations that are kept, the least recently used one first. */
  all(): Iterable<Pick<Kept, 'agent' | 'threadId' | 'conversation'>> {
    return this.#kept.values()
  }

  /** Drops the conversations of an agent that has left. */
  forget(agent: number): void {
    this.#dropAll((kept) => kept.agent === agent)
  }

  #dropAll(isGone: (kept: Kept) => boolean): void {
    for (const [key, kept] of this.#kept) if (isGone(kept)) this.#drop(key)
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key)
    if (!kept) return
    this.#parts?.release(kept)
    this.#characters -= kept.characters
    this.#kept.delete(key)
  }
}

/** Returns the messages of the run's caller as the conversation of a model agent of the team. */
function historyFor({ settings, run: own }: Cell, { messages }: RunState): Conversation | undefined {
  if (messages.length === 0 || !settings.playedByModel || own) return undefined
  const { verbs, tools } = settings
  const hasTools = verbs.length + tools.inline.length + tools.modules.length > 0
  return withTurn(NO_CONVERSATION, HISTORY_TURN, hasTools ? messages : withoutToolCalls(messages))
}

/** Returns a conversation for a model without tools: some providers refuse calls of tools that they are not offered. */
function withoutToolCalls(messages: readonly ModelMessage[]): ModelMessage[] {
  return messages.flatMap(({ toolCalls, ...message }) => {
    if (message.role === 'tool') return []
    return toolCalls && lengthOf(message.content) === 0 ? [] : [message]
  })
}

/**
 * Returns undefined if the agent has no conversation, or the run no thread. An agent of one run keeps none: it ends
 * with its run.
 */
const keyOf = ({ index, settings, run: own }: Cell, { threadId }: RunState): string | undefined =>
  settings.playedByModel && !own && threadId !== undefined ? `${index} ${threadId}` : undefined
