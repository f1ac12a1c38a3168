/** How much may be under way at once, held against what the agents say that they are at. */
import type { Seen } from './seen.ts'
import type { Truth, Work } from './truth.ts'

/** Rule 19; and of each thread: turns of as many runs as `concurrency` says, and one of each at work. What does not hold now that `work` goes on. */
export function overdone(truth: Truth, work: Work, limit: number, seen: Seen): string[] {
  if (!truth.alive(work)) return []
  const found: string[] = []
  const { living } = truth
  const busy = new Set(
    living.filter(({ wait, runId }) => !wait && runId === work.runId).map(({ incarnation }) => incarnation),
  ).size
  if (busy > limit) found.push(`${busy} turns of ${work.runId} are under way`)
  const beside = living.filter(({ incarnation }) => incarnation === work.incarnation)
  const runs = new Set(beside.map(({ runId }) => runId)).size
  if (runs > work.concurrency) found.push(`${work.name} has turns of ${runs} runs open`)
  if (runs > 1) seen.interleaved += 1
  if (living.some(({ name, incarnation }) => name === work.name && incarnation !== work.incarnation)) seen.beside += 1
  const own = beside.filter(({ runId }) => runId === work.runId)
  if (own.length === 1) return found
  seen.nested += 1
  if (work.agent.settings.reentrancy === 'none') found.push(`${work.name} has two turns of one run open`)
  if (own.some((other) => other !== work && !other.wait)) found.push(`${work.name} is at two turns of one run`)
  return found
}
