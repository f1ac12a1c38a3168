/** Plans: their tasks, the order in which these run, and what keeps a plan from being carried out. */
import type { SubTaskResult } from '../mailbox/sub-task.ts'
import { type Ended, type RunIf, whySkipped } from './run-if.ts'

/** A task that begins when others are over. */
interface Ordered {
  /** From 1. */
  readonly number: number
  /** Numbers of the tasks whose results it gets. */
  readonly needs: readonly number[]
  /** Number of the task whose end it waits for, whatever came of that; 0 or left out: none. */
  readonly after?: number
  /** Condition on which it is run, when the task that it names is over. */
  readonly runIf?: RunIf | undefined
}

export interface PlannedTask extends Ordered {
  readonly description: string
  /** Agent that runs it, if the planner names one. The planner may also name the next three. */
  readonly agent?: string
  readonly tool?: string
  readonly input?: Record<string, unknown>
  /** Profile of API keys with which it is to be done. */
  readonly keys?: string
  /** Number of tasks that were planned in its place before, and have failed. */
  readonly replans?: number
}

/** Result of a task: `result` for programs, `words` as text, which is empty if the task was not completed. */
export interface Finished {
  readonly task: PlannedTask
  readonly result: SubTaskResult
  readonly words: string
}

export const isDone = ({ result }: Finished): boolean => result.status === 'COMPLETED'

/** Maximum number of tasks of a plan. A planner that gives more has made an error. */
export const MOST_TASKS = 100

/** A dependency that cannot be met: it names no task of the plan, or closes a circle. */
interface Unmet {
  readonly number: number
  readonly need: number
  /** Numbers of the tasks on the way round; undefined for what names no task. */
  readonly circle?: readonly number[]
}

/** Returns all dependencies that cannot be met. Without them a plan has no circle but by conditions. */
export function unmetNeeds(tasks: readonly Ordered[]): Unmet[] {
  const byNumber = new Map(tasks.map((task) => [task.number, task]))
  const walked = new Set<number>()
  const way: number[] = []
  const unmet: Unmet[] = []
  const walk = ({ number, needs }: Ordered) => {
    way.push(number)
    for (const need of new Set(needs)) {
      const needed = byNumber.get(need)
      const back = way.indexOf(need)
      if (back >= 0) unmet.push({ number, need, circle: [...way.slice(back), need] })
      else if (!needed) unmet.push({ number, need })
      else if (!walked.has(need)) walk(needed)
    }
    way.pop()
    walked.add(number)
  }
  for (const task of tasks) if (!walked.has(task.number)) walk(task)
  return unmet
}

/** Describes a circle in the answer of a planner, whose tasks are numbered from 1. */
export const circleAmong = (tasks: readonly { dependsOn: readonly number[]; runIf?: RunIf | undefined }[]) =>
  circleIn(tasks.map(({ dependsOn, runIf }, at) => ({ number: at + 1, needs: dependsOn, runIf })))

/** Describes the first circle of tasks that wait for each other, also by their conditions. */
export function circleIn(tasks: readonly Ordered[]): string | undefined {
  const waiting = tasks.map(({ number, needs, runIf }) => ({ number, needs: runIf ? [...needs, runIf.task] : needs }))
  const circle = unmetNeeds(waiting).find((unmet) => unmet.circle)?.circle
  return circle && `its tasks wait for each other in a circle, ${circle.join(' -> ')}`
}

interface Steps<Task, Result> {
  run: (task: Task, needed: Result[]) => Promise<Result>
  skip: (task: Task, reason: string) => Result
  ended: (result: Result) => Ended
}

/**
 * Runs or skips each task when those that it needs or waits for are over, and all others at once. Resolves to the
 * results in the order of the plan, which must have no circle; a need that names no task counts as met.
 */
export function runInOrder<Task extends Ordered, Result>(
  tasks: readonly Task[],
  { run, skip, ended }: Steps<Task, Result>,
): Promise<Result[]> {
  const begun = new Map<number, Promise<Result>>()
  const ends = new Map<number, Ended>()
  const byNumber = new Map(tasks.map((task) => [task.number, task]))
  const begin = (number: number): Promise<Result>[] => {
    const task = byNumber.get(number)
    if (!task) return []
    const result = begun.get(number) ?? whenOver(task)
    begun.set(number, result)
    return [result]
  }
  const whenOver = async (task: Task): Promise<Result> => {
    const others = [task.after ?? 0, task.runIf?.task ?? 0]
    const [needed] = await Promise.all([Promise.all(task.needs.flatMap(begin)), ...others.flatMap(begin)])
    const reason = whySkipped(task, ends)
    const result = reason === undefined ? await run(task, needed) : skip(task, reason)
    ends.set(task.number, ended(result))
    return result
  }
  return Promise.all(tasks.flatMap(({ number }) => begin(number)))
}
