/**
 * Conversations of agents by thread (`threadId`), across runs. An agent starts a run with the conversation that the
 * thread has when it first hears of the run. Each of its turns adds to the thread as it commits. So two concurrent runs
 * do not see each other. The next run sees both, in the order in which their turns ended.
 *
 * Conversations are kept in memory, up to the bounds below; beyond them the least recently used one is dropped. The
 * conversations of a removed agent are dropped too, and all of them with the team.
 */

import { applyPatches, enablePatches, type Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import { hashesInMessages, lengthOf, type PartKeeper } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../actors/definition/model.ts'
import {
  bounded,
  type Conversation,
  charactersOf,
  historyOf,
  merged,
  NO_CONVERSATION,
  withTurn,
} from '../../actors/model/conversation.ts'
import { hashOf, referenceTo } from '../../mailbox/stored-parts.ts'
import { PartLostError } from '../../shared/errors.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import type { Agent } from './agent.ts'
import { ORCHESTRATOR_INDEX, ThreadOwners } from './directory.ts'
import type { Journal } from './journal.ts'
import type { RunState, RunTable } from './run.ts'

const MOST = 1_000
const MOST_CHARACTERS = 2 ** 26

/** Id of the turn that stands for the messages which the caller of a run gives. */
export const HISTORY_TURN = '$history'

interface KeptConversation {
  readonly agent: number
  readonly threadId: string
  readonly conversation: Conversation
  readonly characters: number
  readonly stored: Map<string, Uint8Array>
}

export class Conversations {
  /** Conversations by agent and thread; the most recently used is last. */
  readonly #kept = new Map<string, KeptConversation>()
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
  begin(agent: Agent, run: RunState): void {
    if (run.states.has(agent.index)) return
    const key = keyOf(agent, run)
    const kept = key === undefined ? undefined : this.#of(key)
    const conversation = kept && !isEmpty(kept.conversation) ? kept.conversation : historyFor(agent, run)
    if (!conversation) return
    if (kept) this.#parts?.pass(kept, run)
    run.states.set(agent.index, conversation)
    run.unlogged.add(agent.index)
  }

  #of(key: string): KeptConversation | undefined {
    const kept = this.#kept.get(key)
    if (!kept) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, kept)
    return kept
  }

  /** Adds a committed turn to the thread: it made `after` of the conversation `before` of its run. */
  committed(agent: Agent, run: RunState, before: Conversation, after: Conversation): void {
    const key = keyOf(agent, run)
    if (key !== undefined && run.threadId !== undefined) this.add(holderOf(agent), run.threadId, before, after)
  }

  add(agent: number, threadId: string, before: Conversation, after: Conversation): void {
    const now = this.#of(`${agent} ${threadId}`)?.conversation
    this.keep(agent, threadId, now ? bounded(merged(now, before, after)) : after)
  }

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
  all(): Iterable<Pick<KeptConversation, 'agent' | 'threadId' | 'conversation'>> {
    return this.#kept.values()
  }

  forget(agent: number): void {
    this.#dropAll((kept) => kept.agent === agent)
  }

  #dropAll(isGone: (kept: KeptConversation) => boolean): void {
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

const isEmpty = ({ turns, summary }: Conversation): boolean => turns.length === 0 && !summary

/** Returns the messages of the run's caller as the conversation of a model agent of the team. */
function historyFor({ settings, run: own }: Agent, { messages }: RunState): Conversation | undefined {
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
const keyOf = (agent: Agent, { threadId }: RunState): string | undefined =>
  agent.settings.playedByModel && !agent.run && threadId !== undefined ? `${holderOf(agent)} ${threadId}` : undefined

/** Returns the index under which the conversation of an agent is kept: that of the script, if agents share it. */
export const holderOf = ({ index, settings }: Agent): number => (settings.floor ? ORCHESTRATOR_INDEX : index)

/*
 * States that turns leave when they commit: per agent, per agent and run, and conversations that continue across runs.
 */

enablePatches()

export class AgentStates {
  readonly conversations: Conversations

  constructor(parts: PartStore, runs: RunTable) {
    this.conversations = new Conversations(parts, (threadId) => runs.isOpen(threadId))
  }

  /** Applies a patch to the state of an agent. Throws if the patch does not fit that state. */
  applyPatch(agent: Agent, run: RunState, notice: PatchNotice): void {
    const patches = notice.patches as Patch[]
    if (notice.scope === 'agent') agent.state = applyPatches(agent.state ?? {}, patches)
    else {
      const { base } = notice as { base?: object }
      // The host's own value first: what others have of it is the same object, so nothing is compared or merged.
      const before = run.states.get(agent.index) ?? base ?? {}
      const after = patches.length > 0 ? applyPatches(before, patches) : (base ?? before)
      run.states.set(agent.index, after)
      if (notice.base !== undefined) run.unlogged.delete(agent.index)
      this.conversations.committed(agent, run, before as Conversation, after as Conversation)
    }
  }
}

/*
 * Bytes of the large parts of messages, each once for the whole team, whoever has sent it. They stay as long as a run
 * that the team has in memory refers to them, or a conversation that it keeps.
 */

/** Owner of references to stored bytes. `stored`: those bytes, by their hashes. */
export interface PartHolder {
  readonly stored: Map<string, Uint8Array>
}

interface KeptPart {
  readonly bytes: Uint8Array
  holders: number
}

export class PartStore {
  readonly #journal: Journal
  readonly #limits: LimitNotices
  readonly #limit: number
  readonly #kept = new Map<string, KeptPart>()
  bytes = 0

  /** `limit`: maximum number of bytes at a time. */
  constructor(journal: Journal, limits: LimitNotices, limit = Number.POSITIVE_INFINITY) {
    this.#journal = journal
    this.#limits = limits
    this.#limit = limit
  }

  get size(): number {
    return this.#kept.size
  }

  get(hash: string): Uint8Array | undefined {
    return this.#kept.get(hash)?.bytes
  }

  /**
   * Keeps bytes for a run, in memory of their own. Returns their hash.
   *
   * @throws PartLostError if there is no room for them.
   */
  put(run: RunState, bytes: Uint8Array): string {
    const hash = hashOf(bytes)
    if (run.stored.has(hash)) return hash
    if (!this.#kept.has(hash)) this.#assertRoom(run, bytes.length)
    this.#journal.keepPart(run, hash, this.hold(run, hash, bytes))
    return hash
  }

  #assertRoom(run: RunState, bytes: number): void {
    const limit = this.#limit
    if (this.bytes + bytes <= limit) return
    const reached = { option: 'maxStoredBytes', limit, runId: run.id }
    this.#limits.reached(reached, `no room for a part of ${bytes} bytes`)
    const text = `A part of ${bytes} bytes has no room: the team stores ${this.bytes} bytes of parts for the runs that it has in memory, and at most ${limit} (maxStoredBytes). Give its URL, wait until other runs have ended, or raise the limit.`
    throw new PartLostError(text, { bytes, stored: this.bytes, limit, runId: run.id })
  }

  /** Lets a holder refer to bytes with that hash. A copy of them is made if they are new. */
  hold({ stored }: PartHolder, hash: string, bytes: Uint8Array): Uint8Array {
    const known = stored.get(hash)
    if (known) return known
    let kept = this.#kept.get(hash)
    if (!kept) {
      kept = { bytes: bytes.slice(), holders: 0 }
      this.#kept.set(hash, kept)
      this.bytes += bytes.length
    }
    kept.holders += 1
    stored.set(hash, kept.bytes)
    return kept.bytes
  }

  /** Lets a run refer to what another holder refers to, as far as the run names it. */
  pass(from: PartHolder, to: RunState): void {
    for (const [hash, bytes] of from.stored) {
      if (to.stored.has(hash)) continue
      this.hold(to, hash, bytes)
      this.#journal.keepPart(to, hash, bytes)
    }
  }

  /** Gives up what a holder refers to. Bytes that nobody else refers to go. */
  release({ stored }: PartHolder): void {
    for (const hash of stored.keys()) {
      const kept = this.#kept.get(hash)
      if (!kept) continue
      kept.holders -= 1
      if (kept.holders > 0) continue
      this.#kept.delete(hash)
      this.bytes -= kept.bytes.length
    }
    stored.clear()
  }

  /** Returns what keeps the parts that come from outside of the agents, for a run. */
  keeperFor(run: RunState): PartKeeper {
    return {
      knowsAll: true,
      has: (hash) => run.stored.has(hash),
      keep: (bytes) => referenceTo({ hash: this.put(run, bytes), bytes: bytes.length }),
    }
  }
}
