/** Delegation: a task for another agent, with the duty to do it, and what came of it. Source: document 002, 2.5. */
import type { DramatisError } from '../../errors.ts'
import type { AgentMessage, MessageType } from '../../mailbox/message.ts'
import { checkName, checkObject, checkText, priorityOf, wrongArgument } from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import { handled } from '../definition/promises.ts'
import type { AgentTask, PendingTask, TaskInput } from '../definition/task.ts'

/** A task on its way: the message that carries it gives it its id. */
export type TaskOffer = Omit<AgentTask, 'id' | 'status' | 'result'>

/** What the verbs about tasks need of their turn. */
export interface TaskTurn {
  readonly agent: string
  /** What the turn was asked; undefined where it was nothing. */
  readonly message: AgentMessage | undefined
  /** The task that the turn itself is at; null: its message is none. */
  readonly taskId: string | null
  /** Why no verb works any more, if none does. */
  refusal(): DramatisError | undefined
  /** A request of that type. `onSent` is given its id when it is on its way. */
  ask(
    to: string,
    content: string,
    options: RequestOptions,
    type: MessageType,
    onSent?: (id: string) => void,
  ): Promise<AgentMessage>
  report(content: string, data: object): Promise<void>
  /** A verb that the host serves. */
  call(operation: string, args: object): Promise<unknown>
  /** Nobody waits for its answer any more. */
  release(): void
  /** The error; of what it refuses something remains for the dead letters. */
  told(error: unknown, to: string, content: string, options: RequestOptions): unknown
}

export function delegate(turn: TaskTurn, to: string, input: TaskInput, more: TaskMessageOptions = {}): PendingTask {
  let onSent = (_id: string) => {}
  const sent = new Promise<string>((resolve) => {
    onSent = resolve
  })
  const done = handled(doneBy(turn, to, input, more, onSent))
  // What ends before it is on its way ends the wait for its id.
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

/** The task as the turn gives it away. What is none leaves a dead letter. */
export function offerFor(turn: TaskTurn, to: string, input: TaskInput): TaskOffer {
  try {
    checkName(to, 'to')
    return offerOf(to, input, turn.taskId)
  } catch (error) {
    throw turn.told(error, to, descriptionOf(input), {})
  }
}

/** What the message of a task carries beside its description. */
export const messageOptions = (offer: TaskOffer): RequestOptions<TaskOffer> => ({
  structuredData: offer,
  priority: offer.priority,
})

/** The task when its answer is there; it may have been handed off to somebody else. */
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

/** The task as it is given to that agent. Throws `MessageRejectedError` for what is none. */
export function offerOf(to: string, input: TaskInput, parent: string | null): TaskOffer {
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

/** For the dead letter of what is no task. */
const descriptionOf = (input: unknown): string => {
  const text: unknown = typeof input === 'string' ? input : Object(input).description
  return typeof text === 'string' ? text : ''
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
