/** A manager's plan: tasks for workers, of which some need what others come to. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'

export interface Plan {
  tasks: { worker: string; task: string; dependsOn: number[] }[]
  reasoning: string
}

const MOST_SHOWN = 5

/**
 * For each task of the plan those that go before it, by their places from 0. A dependency on what is not there, or that closes
 * a circle, cannot be met: it is left out, and the trace says so.
 */
export function orderOf({ tasks }: Plan, orchestrator: Pick<OrchestratorContext, 'decide'>): number[][] {
  const order: number[][] = []
  const open = new Set<number>()
  const left: string[] = []
  const visit = (at: number, { dependsOn }: Plan['tasks'][number]) => {
    if (order[at]) return
    open.add(at)
    order[at] = [...new Set(dependsOn)].flatMap((number) => {
      const task = tasks[number - 1]
      if (task && !open.has(number - 1)) {
        visit(number - 1, task)
        return number - 1
      }
      left.push(`${at + 1} on ${number}`)
      return []
    })
    open.delete(at)
  }
  for (const [at, task] of tasks.entries()) visit(at, task)
  if (left.length > 0) {
    const shown = left.slice(0, MOST_SHOWN).join(', ') + (left.length > MOST_SHOWN ? ', and others' : '')
    const reason = `They close a circle, or name no task of the plan: ${shown}.`
    orchestrator.decide('How many dependencies of the plan are left out?', `${left.length}`, reason)
  }
  return order
}

/** Runs each task when those before it are done, all that can at once; what they come to, in the order of the plan. */
export function inOrder<Task, Result>(
  tasks: readonly Task[],
  order: readonly (readonly number[])[],
  run: (task: Task, earlier: Result[]) => Promise<Result>,
): Promise<Result[]> {
  const begun: Promise<Result>[] = []
  const begin = (place: number): Promise<Result> => {
    begun[place] ??= Promise.all((order[place] ?? []).map(begin)).then((earlier) => run(tasks[place]!, earlier))
    return begun[place]
  }
  return Promise.all(tasks.map((_task, place) => begin(place)))
}
