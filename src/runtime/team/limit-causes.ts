/** Says why a limit is reached: what those do that have its places. */
import { doingWords } from '../digest/slow.ts'
import type { Wait } from '../digest/wait.ts'
import type { LimitWait } from '../logging/limit-notices.ts'

/** Kinds in which a turn waits for another one, which says more. */
const FOR_OTHERS: ReadonlySet<string> = new Set(['request', 'delegate', 'dependency'])

/** Those that have the places of a limit, out of all that is done now. */
interface Holders {
  /** Key of what has the places: limits with one key have one cause. */
  readonly key: string
  readonly of: 'runs' | 'turns' | 'calls'
  has(doing: Wait): boolean
}

export class LimitCauses {
  readonly #doings: readonly Wait[]
  readonly #known = new Map<string, string | undefined>()

  constructor(doings: readonly Wait[]) {
    this.#doings = doings
  }

  /** Returns the cause in words: `61 of 100 runs: model "gpt-5"`; undefined if nothing is known of it. */
  of(wait: LimitWait): string | undefined {
    const holders = holdersOf(wait)
    if (!this.#known.has(holders.key)) this.#known.set(holders.key, this.#causeOf(holders))
    return this.#known.get(holders.key)
  }

  #causeOf({ of, has }: Holders): string | undefined {
    const all = this.#doings.filter(has)
    const own = all.filter(({ kind }) => !FOR_OTHERS.has(kind))
    const idOf = ({ runId, turn, agent }: Wait) => (of === 'runs' ? runId : `${runId} ${agent} ${turn}`)
    const byWords = new Map<string, Set<string>>()
    for (const doing of own.length > 0 ? own : all) {
      const words = doingWords(doing)
      byWords.set(words, (byWords.get(words) ?? new Set()).add(idOf(doing)))
    }
    const [most] = [...byWords].sort(([, one], [, other]) => other.size - one.size)
    return most && `${most[1].size} of ${new Set(all.map(idOf)).size} ${of}: ${most[0]}`
  }
}

function holdersOf({ option, runId, agent, messageId }: LimitWait): Holders {
  const named = /^(?:concurrency|instances) of "(.*)"$/.exec(option)?.[1]
  if (named !== undefined) return { key: option, of: 'turns', has: (doing) => doing.agent === named }
  if (option === 'maxConcurrentRuns') return { key: option, of: 'runs', has: () => true }
  if (option === 'threads.max') return { key: option, of: 'turns', has: ({ agent: name }) => !isRuntimes(name) }
  if (option === 'threads.tools') return { key: option, of: 'calls', has: ({ kind }) => kind === 'tool' }
  const isOthers = (doing: Wait) =>
    doing.turn !== (messageId ?? null) && !(doing.runId === runId && doing.agent === agent)
  if (option === 'maxParallelToolCalls') {
    const isOwn = (doing: Wait) => !isOthers(doing) && doing.kind === 'tool'
    return { key: `${option} ${runId} ${agent}`, of: 'calls', has: isOwn }
  }
  if (/^(?:models\.|budget\.|rate limit)/.test(option))
    return {
      key: `${option} ${runId} ${agent}`,
      of: 'calls',
      has: (doing) => doing.kind === 'model' && isOthers(doing),
    }
  const isInRun = (doing: Wait) => doing.runId === runId && !isRuntimes(doing.agent) && isOthers(doing)
  return { key: `${option} ${runId} ${agent}`, of: 'turns', has: isInRun }
}

const isRuntimes = (name: string | null) => name?.startsWith('$') ?? true
