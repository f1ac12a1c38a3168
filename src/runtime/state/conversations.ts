/**
 * The conversations of agents by thread (`threadId`), from one run to the next. An agent begins a run of a thread with what the
 * thread has when it first hears of the run; each of its turns adds to the thread as it commits. So of two runs at once neither
 * hears the other, and the next one has both, in the order in which their turns ended.
 *
 * They are kept in memory, up to these bounds; then the one that was used longest ago goes. So do those of an agent that is
 * removed, and all with the team.
 */
import { bounded, type Conversation, charactersOf, historyOf, merged } from '../../actors/model/context/conversation.ts'
import type { Cell } from './cell.ts'
import type { RunState } from './run-state.ts'

const MOST = 1_000
const MOST_CHARACTERS = 2 ** 26

interface Kept {
  readonly agent: number
  readonly conversation: Conversation
  readonly characters: number
}

export class Conversations {
  /** By agent and thread; what was used last is last. */
  readonly #kept = new Map<string, Kept>()
  #characters = 0

  /** The agent hears of a run: it goes on from there. */
  begin(cell: Cell, run: RunState): void {
    const key = keyOf(cell, run)
    const conversation = key !== undefined && !run.states.has(cell.index) ? this.#of(key) : undefined
    if (conversation) run.states.set(cell.index, conversation)
  }

  #of(key: string): Conversation | undefined {
    const kept = this.#kept.get(key)
    if (!kept) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, kept)
    return kept.conversation
  }

  /** A turn of the agent has made `after` of what its run had before. */
  committed(cell: Cell, run: RunState, before: Conversation, after: Conversation): void {
    const key = keyOf(cell, run)
    if (key === undefined) return
    const now = this.#of(key)
    const conversation = now ? bounded(merged(now, before, after)) : after
    const characters = charactersOf(historyOf(conversation)) + (conversation.summary?.text.length ?? 0)
    this.#drop(key)
    this.#kept.set(key, { agent: cell.index, conversation, characters })
    this.#characters += characters
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MOST && this.#characters <= MOST_CHARACTERS) break
      this.#drop(oldest)
    }
  }

  /** The agent has left. */
  forget(agent: number): void {
    for (const [key, kept] of this.#kept) if (kept.agent === agent) this.#drop(key)
  }

  #drop(key: string): void {
    this.#characters -= this.#kept.get(key)?.characters ?? 0
    this.#kept.delete(key)
  }
}

/** undefined: the agent has no conversation, or the run no thread. Agents of one run go with it. */
const keyOf = ({ index, settings, run: own }: Cell, { threadId }: RunState): string | undefined =>
  settings.playedByModel && !own && threadId !== undefined ? `${index} ${threadId}` : undefined
