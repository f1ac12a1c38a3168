/**
 * New entries of the blackboard within the turn in which a model subscribes to them: they stand in its next prompt.
 * Entries that come after that turn arrive at `observe`, and so in the conversation.
 */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { compilePattern } from '../../blackboard/pattern.ts'
import type { AgentContext } from '../definition/context/context.ts'
import { userContent } from './prompt.ts'

export class BoardNews {
  readonly #context: Pick<AgentContext, 'blackboard' | 'role' | 'subscribe'>
  readonly #wanted: ((key: string) => boolean)[] = []
  readonly #seen = new Set<string>()

  constructor(context: Pick<AgentContext, 'blackboard' | 'role' | 'subscribe'>) {
    this.#context = context
  }

  /** Subscribes to entries whose key fits the pattern. Entries that exist are not new. Rejects as the verb does. */
  async subscribe(pattern: string): Promise<void> {
    if (!this.isWanted) await this.#unseen()
    await this.#context.subscribe(pattern)
    this.#wanted.push(compilePattern(pattern))
  }

  /** True once it has subscribed to something. */
  get isWanted(): boolean {
    return this.#wanted.length > 0
  }

  /** Returns the entries that are new since the last call, each as the model reads it. Its own are not among them. */
  async read(): Promise<string[]> {
    const { name } = this.#context.role
    const news = await this.#unseen()
    return news.filter(({ key, author }) => author !== name && this.#wanted.some((fits) => fits(key))).map(entryContent)
  }

  async #unseen(): Promise<BlackboardEntry[]> {
    const entries = await this.#context.blackboard.query()
    return entries.filter(({ key, version }) => {
      const id = `${version} ${key}`
      return !this.#seen.has(id) && this.#seen.add(id)
    })
  }
}

/** Returns an entry as the message with which it arrives at `observe` says it. */
const entryContent = (entry: BlackboardEntry): string =>
  userContent({ type: 'publish', sender: entry.author, content: entry.key, structuredData: entry, metadata: {} })
