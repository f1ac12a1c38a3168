/**
 * Delegation: gives a task with the duty to do it to another agent, and returns its outcome. Source: document 002, 2.5.
 */
import type { DramatisError } from '../../errors.ts'
import type { AgentMessage, MessageType } from '../../mailbox/message.ts'
import { checkName, checkObject, checkText, priorityOf, reading, wrongArgument } from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import { handled } from '../definition/promises.ts'
import type { AgentTask, PendingTask, TaskInput } from '../definition/task.ts'

/** A task that has no id yet. The message that carries it gives it one. */
export type TaskOffer = Omit<AgentTask, 'id' | 'status' | 'result'>

/** The parts of a turn that the task verbs need. */
export interface TaskTurn {
  readonly agent: string
  /** The message of the turn; undefined if it has none. */
  readonly message: AgentMessage | undefined
  /** Id of the task that the turn works on; null if its message is no task. */
  readonly taskId: string | null
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
  /** Sends a request of that type. `onSent` receives its id once it is sent. */
  ask(
    to: string,
    content: string,
    options: RequestOptions,
    type: MessageType,
    onSent?: (id: string) => void,
  ): Promise<AgentMessage>
  report(content: string, data: object): Promise<void>
  /** Calls a verb that the host serves. */
  call(operation: string, args: object): Promise<unknown>
  /** Releases the turn from its duty to answer. */
  release(): void
  /** Returns the error, after reporting a refused message to the host as a dead letter. */
  told(error: unknown, to: string, content: string, options: RequestOptions): unknown
}

export function delegate(turn: TaskTurn, to: string, input: TaskInput, more: TaskMessageOptions = {}): PendingTask {
  let onSent = (_id: string) => {}
  const sent = new Promise<string>((resolve) => {
    onSent = resolve
  })
  const done = handled(doneBy(turn, to, input, more, onSent))
  // If the task ends before it is sent, the wait for its id ends too.
  const id = handled(Promise.race([sent, done.then((task) => task.id)]))
  return Object.assign(done, { id })
}

async function doneBy(
  turn: TaskTurn,
  to: string,
  input: TaskInput,
  more: TaskMessageOptions,
  onSent: (id: string) => void,
): Promise<AgentTask> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  const offer = offerFor(turn, to, input)
  const options = { ...messageOptions(offer), ...more }
  return doneTask(offer, await turn.ask(to, offer.description, options, 'delegate', onSent))
}

/** Returns the task offer for another agent. Invalid input leaves a dead letter. */
export function offerFor(turn: TaskTurn, to: string, input: TaskInput): TaskOffer {
  try {
    checkName(to, 'to')
    return offerOf(to, input, turn.taskId)
  } catch (error) {
    throw turn.told(error, to, descriptionOf(input), {})
  }
}

/** Returns the options of a task's message; its content is the description. */
export const messageOptions = (offer: TaskOffer): RequestOptions<TaskOffer> => ({
  structuredData: offer,
  priority: offer.priority,
})

/**
 * Returns the finished task once its answer is there. `assignedTo` is the sender, since the task may have been handed
 * off.
 */
export const doneTask = (
  offer: TaskOffer,
  { correlationId, sender, content, structuredData }: AgentMessage,
): AgentTask => ({
  ...offer,
  id: correlationId!,
  assignedTo: sender,
  status: 'completed',
  result: structuredData ?? content,
})

const FIELDS: ReadonlySet<string> = new Set<keyof AgentTask>([
  'id',
  'description',
  'requiredCapabilities',
  'assignedTo',
  'status',
  'priority',
  'deadline',
  'dependencies',
  'result',
  'parentTask',
])

/**
 * Builds the task offer for that agent.
 *
 * @throws MessageRejectedError if the input is no task.
 */
export function offerOf(to: string, input: TaskInput, parent: string | null): TaskOffer {
  return reading('task', () => offer(to, input, parent))
}

function offer(to: string, input: TaskInput, parent: string | null): TaskOffer {
  if (typeof input !== 'string') checkObject(input, 'task')
  const given = typeof input === 'string' ? { description: input } : input
  for (const key in given)
    if (!FIELDS.has(key))
      throw wrongArgument(
        `task.${key}`,
        Reflect.get(given, key),
        `a task has no such field; it has ${[...FIELDS].join(', ')}`,
      )
  checkText(given.description, 'task.description')
  return {
    description: given.description,
    requiredCapabilities: texts(given.requiredCapabilities, 'task.requiredCapabilities'),
    assignedTo: to,
    priority: priorityOf(given.priority, 'task.priority'),
    deadline: deadlineOf(given.deadline),
    dependencies: texts(given.dependencies, 'task.dependencies'),
    parentTask: parentOf(given.parentTask) ?? parent,
  }
}

/** Returns a text for the dead letter of an invalid task. */
const descriptionOf = (input: unknown): string => {
  try {
    const text: unknown = typeof input === 'string' ? input : Object(input).description
    return typeof text === 'string' ? text : ''
  } catch {
    return '' // a proxy that throws: the task is refused for it
  }
}

function texts(value: unknown, path: string): string[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) throw wrongArgument(path, value, 'a list of strings is needed')
  for (const [i, text] of value.entries()) checkText(text, `${path}[${i}]`)
  return [...value] as string[]
}

function deadlineOf(value: unknown): number | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw wrongArgument('task.deadline', value, 'a time in epoch ms is needed')
}

function parentOf(value: unknown): string | null {
  if (value === undefined || value === null) return null
  checkText(value, 'task.parentTask')
  return value as string
}
