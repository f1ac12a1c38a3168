/**
 * Conversations of threads in a store of the user's, which several processes share. A run loads those of its thread
 * when it begins. It saves what it has changed when it ends, merged with what other processes have saved meanwhile.
 */
import { asJson, readableMessages } from '../../actors/definition/content.ts'
import { bounded, type Conversation, merged, NO_CONVERSATION, withMessages } from '../../actors/model/conversation.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { isObject } from '../../shared/checks.ts'
import { CancelledError, ConversationStoreError, DramatisError, describe, shown } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Agent } from '../host/agent.ts'
import { holderOf } from '../host/parts.ts'
import { callerIn, type RunState, readerOf } from '../host/run.ts'
import type { ConversationStore, StoredConversation } from '../settings/options.ts'
import type { Supervisor } from '../supervision/host.ts'

/** Conversation as the run had it when it was the same as in the store, and what the store has. */
interface Synced {
  before: Conversation
  stored: Conversation
  version: number
  /** Conversation that the run began with, and the states of agents that have been saved. */
  begun: Conversation
  states?: readonly Conversation[]
  owner: string | null
  speaker: string | undefined
}

/**
 * Agent whose row says whom a thread belongs to, and has the conversation that agents share, with who has spoken in it
 * last. It is no agent of a team: none has such a name.
 */
const THREAD = '$thread'
const LIMIT_MS = 30_000
/** Number of times that a conversation is merged with what others save at the same time. */
const MOST_CONFLICTS = 16

export class ThreadStore {
  readonly #supervisor: Supervisor
  readonly #store: ConversationStore
  readonly #synced = new WeakMap<RunState, Map<string, Synced>>()
  readonly #saving = new WeakMap<RunState, Promise<void>>()
  /** Writes that say whom a thread belongs to, by the run that has begun it. */
  readonly #beginning = new WeakMap<RunState, Promise<unknown>>()

  constructor(supervisor: Supervisor, store: ConversationStore) {
    this.#supervisor = supervisor
    this.#store = store
  }

  /**
   * Gives the agents the conversations of the run's thread.
   *
   * Rejects with `ConversationStoreError`.
   */
  async load(run: RunState): Promise<void> {
    const { threadId } = run
    if (threadId === undefined) return
    const found = await this.#load(threadId, run.ended)
    if (found.size === 0) {
      const begun = this.#begun(threadId, callerIn(run.metadata), found)
      begun.catch(() => {}) // told when the run is saved: it need not wait
      this.#beginning.set(run, begun)
    }
    const { conversations } = this.#supervisor.agentStates
    for (const [name, [agent]] of this.#holders(run)) {
      const { stored } = this.#sync(run, name, found)
      const keeper = this.#supervisor.parts.keeperFor(run)
      const kept = withMessages(stored, (messages) =>
        messages.map((message) => ({ ...message, content: asJson(message.content, keeper) })),
      )
      conversations.keep(holderOf(agent), threadId, kept)
    }
    const { speaker } = ofThread(found)
    const { owner = null } = conversations.owners.get(threadId) ?? {}
    if (speaker !== undefined) conversations.owners.set({ threadId, owner, speaker })
  }

  /**
   * Begins a thread for a caller, unless somebody has. Resolves to whom it belongs; null: to nobody that is known.
   *
   * Rejects with `ConversationStoreError`.
   */
  async begin(threadId: string, caller: string): Promise<string | null> {
    return ofThread(await this.#begun(threadId, caller, await this.#load(threadId))).owner
  }

  /** Resolves to the agent that has spoken last in a thread, null if there is none; undefined: no such thread. */
  async speakerOf(threadId: string): Promise<string | null | undefined> {
    const found = await this.#load(threadId)
    return found.size === 0 ? undefined : (ofThread(found).speaker ?? null)
  }

  /** Returns what a thread has. One that nobody has begun begins now: of all processes that try it, one does. */
  async #begun(
    threadId: string,
    owner: string | null,
    found: ReadonlyMap<string, StoredConversation>,
  ): Promise<ReadonlyMap<string, StoredConversation>> {
    let stored = found
    for (let tries = 0; tries < MOST_CONFLICTS; tries += 1) {
      if (stored.size > 0) return stored
      const row = { agent: THREAD, version: 1, conversation: { ...NO_CONVERSATION, owner } }
      if (await this.#write(threadId, row)) return new Map([[THREAD, row]])
      stored = await this.#load(threadId)
    }
    throw tooManyConflicts(THREAD, threadId)
  }

  /**
   * Saves what the run has changed.
   *
   * Rejects with `ConversationStoreError`.
   */
  save(run: RunState): Promise<void> {
    const { threadId } = run
    if (threadId === undefined) return Promise.resolve()
    const before = this.#saving.get(run) ?? Promise.resolve()
    const saved = before.catch(() => {}).then(() => this.#saveAll(run, threadId))
    this.#saving.set(run, saved)
    return saved
  }

  /** Saves what the run has changed, as it ends. A failure is one of the run: it has its answer all the same. */
  async saveAtEnd(run: RunState): Promise<void> {
    try {
      await this.save(run)
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      this.#notSaved(run, error)
      run.failures.push({ agent: ORCHESTRATOR, error })
    }
  }

  /** Saves what has changed after the end of the run. Never rejects. */
  async saveLate(run: RunState): Promise<void> {
    await this.save(run).catch((error: unknown) => this.#notSaved(run, error))
  }

  #notSaved(run: RunState, error: unknown): void {
    const fields = { runId: run.id, threadId: run.threadId, error: describe(error) }
    this.#supervisor.logger.error(fields, 'the conversations of a thread could not be saved')
  }
  async #saveAll(run: RunState, threadId: string): Promise<void> {
    for (const [name, agents] of this.#holders(run)) {
      const states = agents.flatMap(({ index }) => (run.states.get(index) as Conversation | undefined) ?? [])
      const synced = this.#synced.get(run)?.get(name)
      const known = synced?.states ?? [synced?.before]
      const [first, ...others] = states
      if (!first || states.every((state) => known.includes(state))) continue
      if (name === THREAD) await this.#beginning.get(run)
      const now = others.reduce((all, each) => merged(all, synced?.begun ?? NO_CONVERSATION, each), first)
      await this.#saveOne(run, threadId, name, now)
      this.#synced.get(run)!.get(name)!.states = states
    }
    await this.#beginning.get(run)
  }

  async #saveOne(run: RunState, threadId: string, agent: string, now: Conversation): Promise<void> {
    // A run of an earlier process has not loaded what it began with.
    let synced = this.#synced.get(run)?.get(agent) ?? this.#sync(run, agent, await this.#load(threadId), now)
    for (let tries = 0; tries < MOST_CONFLICTS; tries += 1) {
      const version = synced.version + 1
      const conversation = bounded(merged(synced.stored, synced.before, now))
      const fields = agent === THREAD ? { owner: synced.owner, speaker: run.spoken ?? synced.speaker } : {}
      const stored = { agent, version, conversation: { ...withBytes(conversation, run), ...fields } }
      if (await this.#write(threadId, stored))
        return void Object.assign(synced, { before: now, stored: conversation, version })
      const { before, begun } = synced
      synced = Object.assign(this.#sync(run, agent, await this.#load(threadId)), { before, begun })
    }
    throw tooManyConflicts(agent, threadId)
  }

  /** Resolves to false if another process was faster. */
  async #write(threadId: string, stored: StoredConversation): Promise<boolean> {
    const isSaved = await this.#ask('save', (signal) => this.#store.save(threadId, stored, signal))
    if (typeof isSaved !== 'boolean') throw wrong(`save resolved to ${shown(isSaved)}; true or false is needed`)
    return isSaved
  }

  /** Notes what the store has. `now`: conversation of a run that has begun without it. */
  #sync(run: RunState, name: string, found: ReadonlyMap<string, StoredConversation>, now?: Conversation): Synced {
    const { version, conversation } = found.get(name) ?? { version: 0, conversation: NO_CONVERSATION }
    const {
      owner: _,
      speaker: __,
      ...stored
    } = conversation as Conversation & Partial<Record<'owner' | 'speaker', unknown>>
    const isSummarized = now?.summary !== undefined && now.summary.text === stored.summary?.text
    const begun = isSummarized ? { ...NO_CONVERSATION, summary: now.summary } : NO_CONVERSATION
    const before = now ? begun : stored
    const synced: Synced = { before, begun: before, stored, version, ...ofThread(found) }
    const all = this.#synced.get(run) ?? new Map<string, Synced>()
    this.#synced.set(run, all.set(name, synced))
    return synced
  }

  /**
   * Model agents of the team by the names of the rows that have their conversations: of those that share one, the row
   * of the thread. An agent of one run ends with it.
   */
  #holders(run: RunState): Map<string, [Agent, ...Agent[]]> {
    const holders = new Map<string, [Agent, ...Agent[]]>()
    for (const agent of this.#supervisor.directory.agents(run)) {
      const { name, settings, run: own } = agent
      if (!settings.playedByModel || own) continue
      const row = settings.floor ? THREAD : name
      holders.set(row, [...(holders.get(row) ?? []), agent] as [Agent, ...Agent[]])
    }
    return holders
  }

  async #load(threadId: string, signal?: AbortSignal): Promise<Map<string, StoredConversation>> {
    const found: unknown = await this.#ask('load', (ending) => this.#store.load(threadId, ending), signal)
    if (!Array.isArray(found)) throw wrong(`load resolved to ${shown(found)}; a list is needed`)
    return new Map(found.map((stored: unknown) => [checked(stored).agent, checked(stored)]))
  }

  /** Calls the store. Its code is the user's: it may throw, or never settle. */
  #ask<T>(what: 'load' | 'save', call: (signal: AbortSignal) => Promise<T>, outer?: AbortSignal): Promise<T> {
    const ending = new AbortController()
    const { clock } = this.#supervisor
    return new Promise<T>((resolve, reject) => {
      const end = (error: DramatisError) => {
        ending.abort(error)
        reject(error)
      }
      const late = () => end(wrong(`${what} did not settle within ${LIMIT_MS} ms`))
      const timer = clock.timer(LIMIT_MS, late, true)
      const detach = outer && onAbort(outer, () => end(new CancelledError('The run has ended.', {}, outer.reason)))
      const failed = (error: unknown) => reject(wrong(`${what} failed: ${describe(error)}`, error))
      const asked = async () => call(ending.signal)
      asked()
        .finally(() => {
          timer.cancel()
          detach?.()
        })
        .then(resolve, failed)
    })
  }
}

/** Returns what the store knows of a thread besides the conversation. */
function ofThread(found: ReadonlyMap<string, StoredConversation>): Pick<Synced, 'owner' | 'speaker'> {
  const { owner, speaker } = Object(found.get(THREAD)?.conversation) as Partial<Record<'owner' | 'speaker', unknown>>
  return {
    owner: typeof owner === 'string' ? owner : null,
    speaker: typeof speaker === 'string' ? speaker : undefined,
  }
}

/** Returns a conversation whose large parts have their bytes: the store may be that of other processes. */
const withBytes = (conversation: Conversation, { stored }: RunState): Conversation =>
  withMessages(conversation, (messages) => readableMessages(messages, ({ hash }) => readerOf(stored, hash)))

function checked(stored: unknown): StoredConversation {
  const { agent, version, conversation } = Object(stored) as Partial<Record<keyof StoredConversation, unknown>>
  if (typeof agent !== 'string') throw wrong(`load gave ${shown(stored)}; { agent, version, conversation } is needed`)
  if (!Number.isSafeInteger(version) || Number(version) < 1)
    throw wrong(`load gave version ${shown(version)} for "${agent}"; an integer from 1 on is needed`)
  const turns: unknown = isObject(conversation) && Reflect.get(conversation, 'turns')
  const isWhole = Array.isArray(turns) && turns.every((turn) => Array.isArray(Object(turn).messages))
  if (!isWhole)
    throw wrong(`load gave ${shown(conversation)} as the conversation of "${agent}"; give it back as it was`)
  return stored as StoredConversation
}

const tooManyConflicts = (agent: string, threadId: string) =>
  wrong(`save resolved to false ${MOST_CONFLICTS} times for "${agent}" in thread ${shown(threadId)}`)

const wrong = (what: string, cause?: unknown) =>
  new ConversationStoreError(`The store of conversations (conversations): ${what}.`, {}, cause)
