/** Limits that a thread keeps itself, for one turn. It notifies the host of what waits for them. */

const OPTIONS = ['maxParallelToolCalls', 'orchestration.maxConcurrent', 'concurrency of requestAll'] as const

/** Name of such a limit, as `team.waits()` and the event `limit.reached` have it. */
export type KeptLimit = (typeof OPTIONS)[number]

export const isKeptLimit = (option: string): option is KeptLimit => (OPTIONS as readonly string[]).includes(option)

/** Notes how many things of a list wait; they are its last ones. */
export type NoteWaiting = (waiting: number) => void

/** Data of the first frame about a wait. `agents`: those that wait to be asked; absent if calls wait. */
export interface KeptLimitData {
  limit: number
  agents?: readonly string[]
}
