/** News of the tools of an MCP server, for any number of readers: nothing is kept for one that does not read. */
import { isDeepStrictEqual } from 'node:util'
import { onAbort } from '../shared/on-abort.ts'
import type { OfferedTool } from './loose.ts'
import type { ToolChanges } from './offer.ts'

type Named = ReadonlyMap<string, OfferedTool>

export class Changes implements AsyncIterable<ToolChanges> {
  readonly #now: () => Named
  readonly #ended: AbortSignal
  readonly #watch: (until: AbortSignal) => void
  readonly #waiting = new Set<() => void>()
  #readers = 0
  #unwatched = new AbortController()

  /** `watch` has the list followed, as long as somebody reads. */
  constructor(now: () => Named, ended: AbortSignal, watch: (until: AbortSignal) => void) {
    this.#now = now
    this.#ended = ended
    this.#watch = watch
  }

  [Symbol.asyncIterator](): AsyncGenerator<ToolChanges> {
    return this.#read(this.#now())
  }

  /** Has readers look at the list. */
  look(): void {
    for (const wake of this.#waiting) wake()
  }

  async *#read(first: Named): AsyncGenerator<ToolChanges> {
    let seen = first
    if (this.#readers++ === 0) {
      this.#unwatched = new AbortController()
      this.#watch(this.#unwatched.signal)
    }
    try {
      while (!this.#ended.aborted) {
        const now = this.#now()
        const change = between(seen, now)
        seen = now
        if (change) yield change
        else await this.#news()
      }
    } finally {
      this.#readers -= 1
      if (this.#readers === 0) this.#unwatched.abort()
    }
  }

  async #news(): Promise<void> {
    let forget = () => {}
    let wake = () => {}
    await new Promise<void>((resolve) => {
      wake = resolve
      this.#waiting.add(wake)
      forget = onAbort(this.#ended, wake)
    })
    this.#waiting.delete(wake)
    forget()
  }
}

function between(before: Named, now: Named): ToolChanges | undefined {
  const [was, is] = [[...before.keys()], [...now.keys()]]
  const change = {
    added: is.filter((name) => !before.has(name)),
    removed: was.filter((name) => !now.has(name)),
    changed: is.filter((name) => before.has(name) && !isDeepStrictEqual(before.get(name), now.get(name))),
  }
  return Object.values(change).some(({ length }) => length > 0) ? change : undefined
}
