/** The tasks of a plan, what comes of them, and what keeps a plan from being carried out. */
import type { SubTaskResult } from './sub-task.ts'

/** One task of a plan. */
export interface PlannedTask {
  /** From 1. */
  readonly number: number
  readonly description: string
  /** The numbers of those whose results it builds on. */
  readonly needs: readonly number[]
  /** The number of the task that it is to wait for whatever came of that; 0: none. */
  readonly after: number
  /** Who is to do it, by what, if the planner says so. */
  readonly agent?: string
  readonly tool?: string
  readonly input?: Record<string, unknown>
}

/** What came of a task: for programs, and in words, which are empty where it failed. */
export interface Finished {
  readonly task: PlannedTask
  readonly result: SubTaskResult
  readonly words: string
}

export const isDone = ({ result }: Finished): boolean => result.status === 'COMPLETED'

/** More tasks than anybody plans: a planner that gives more has lost its way. */
export const MOST_TASKS = 100

/** A circle of tasks that wait for each other, in words. */
export function circleIn(tasks: readonly Pick<PlannedTask, 'number' | 'needs'>[]): string | undefined {
  const needs = new Map(tasks.map((task) => [task.number, task.needs]))
  const done = new Set<number>()
  const walk = (number: number, way: readonly number[]): readonly number[] | undefined => {
    const back = way.indexOf(number)
    if (back >= 0) return [...way.slice(back), number]
    if (done.has(number)) return undefined
    for (const next of needs.get(number) ?? []) {
      const circle = walk(next, [...way, number])
      if (circle) return circle
    }
    done.add(number)
    return undefined
  }
  for (const { number } of tasks) {
    const circle = walk(number, [])
    if (circle) return `its tasks wait for each other in a circle, ${circle.join(' -> ')}`
  }
  return undefined
}
