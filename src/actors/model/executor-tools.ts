/**
 * Gives tasks to executors without a wait for them, and looks at how they stand. Source: document 003, the tools of the
 * orchestrator.
 */
import { ToolInputError } from '../../errors.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import { CONTEXT, type TaskStatus } from '../definition/task.ts'
import type { ThinkingTurn } from './thinking-turn.ts'

/** Statuses of tasks that go on. */
const OPEN: ReadonlySet<TaskStatus> = new Set(['pending', 'assigned', 'in_progress', 'blocked'])

export async function delegateToExecutor(
  turn: ThinkingTurn,
  { task, context, to }: Readonly<Record<string, unknown>>,
  optionsFor: (to: string) => Promise<TaskMessageOptions>,
): Promise<string> {
  const executor = to === undefined ? await theExecutor(turn) : String(to)
  const { metadata, ...options } = await optionsFor(executor)
  const told = context === undefined ? metadata : { ...metadata, [CONTEXT]: context }
  const pending = turn.delegate(executor, String(task), { ...options, ...(told && { metadata: told }) })
  const id = await turn.delegated.add(executor, pending)
  return `"${executor}" has the task ${id}, and works on it. Go on with what is left. get_executor_status says how far it is. If nothing else is left, answer: what came of it is told to you before your answer counts.`
}

/** Returns the only agent to which this one may give tasks. */
async function theExecutor(turn: ThinkingTurn): Promise<string> {
  const names = turn.role.canDelegateTo ?? (await turn.executors()).map(({ executor }) => executor)
  const [only, ...others] = names
  if (only !== undefined && others.length === 0) return only
  const needed = names.length === 0 ? 'there is no executor' : `"to" is missing; it may be ${names.join(', ')}`
  throw new ToolInputError(`The tool "delegate_to_executor": ${needed}.`, { tool: 'delegate_to_executor' })
}

/** Returns the executors with their tasks. What came of a task of this turn stands there once, when it has ended. */
export async function executorStatus(turn: ThinkingTurn, waits: boolean): Promise<object[]> {
  if (waits) await turn.delegated.ended()
  return Promise.all(
    (await turn.executors()).map(async ({ tasks, ...executor }) => ({
      ...executor,
      tasks: await Promise.all(
        tasks.map(async (task) => {
          const outcome = OPEN.has(task.status) ? undefined : await turn.delegated.outcome(task.id)
          return outcome === undefined ? task : { ...task, outcome }
        }),
      ),
    })),
  )
}
