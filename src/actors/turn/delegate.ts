/** Delegation: gives a task with the duty to do it to another agent, and returns its outcome. */

import type { AgentMessage } from '../../mailbox/message.ts'
import { asSubTask, dataOfResult, headIn, SUB_TASK } from '../../mailbox/sub-task.ts'
import { DramatisError } from '../../shared/errors.ts'
import {
  checkName,
  checkObject,
  checkReadable,
  checkText,
  priorityOf,
  reading,
  wrongArgument,
} from '../definition/checks.ts'
import type { EscalationOutcome, OrchestratorContext, RequestOptions } from '../definition/context.ts'
import type { TaskMessageOptions } from '../definition/conversation.ts'
import { handled } from '../definition/promises.ts'
import type {
  AgentTask,
  Candidate,
  CandidateOptions,
  PendingTask,
  RouteOptions,
  TaskInput,
} from '../definition/task.ts'
import type { Heard } from '../model/conversation.ts'
import { AUCTION_TERMS, BID_WANTED, bidsFor, reasonFor } from '../model/decisions.ts'
import type { Turn } from './turn.ts'

/** A task that has no id yet. The message that carries it gives it one. */
export type TaskOffer = Omit<AgentTask, 'id' | 'status' | 'result'>

export function delegate(turn: Turn, to: string, input: TaskInput, more: TaskMessageOptions = {}): PendingTask {
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
  turn: Turn,
  to: string,
  input: TaskInput,
  more: TaskMessageOptions,
  onSent: (id: string) => void,
): Promise<AgentTask> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  const offer = offerFor(turn, to, input)
  const parentTaskId = turn.start.message?.parentTaskId
  const metadata = { ...more.metadata, ...(parentTaskId !== undefined && asSubTask(parentTaskId, to)) }
  const options = { ...messageOptions(offer), ...more, ...(SUB_TASK in metadata && { metadata }) }
  const answer = await turn.ask(to, offer.description, options, 'delegate', onSent)
  const done = doneTask(offer, answer)
  return SUB_TASK in metadata ? { ...done, result: dataOfResult(answer.structuredData, answer.sender) } : done
}

/** Returns the task offer for another agent. Invalid input leaves a dead letter. */
function offerFor(turn: Turn, to: string, input: TaskInput): TaskOffer {
  try {
    checkName(to, 'to')
    return offerOf(to, input, turn.taskId)
  } catch (error) {
    throw turn.messages.told(error, to, descriptionOf(input), {})
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

/*
 * Escalation: an agent that cannot continue asks its manager. It uses requests and reports only, so each action is a
 * step.
 */

/** Content of `metadata.escalation` in the request to the manager. */
interface Escalation {
  from: string
  reason: string
  details: object
  /** Descriptions of what the turn has done so far. */
  done: string[]
  /** The task or question of the turn; `id` is set for a task of the task board. */
  task: { id: string | null; description: string; structuredData: unknown }
  /** Managers at lower levels who passed the escalation on. */
  passedBy: string[]
}

/** The host's answer to the query for the managers. */
export interface EscalationView {
  managers: string[]
  done: string[]
  /** True if a model has words of people still to read. */
  isSteered?: true
}

/** Arguments of the host call after a manager has given the task to another agent. */
export interface ReassignRequest {
  by: string
  to: string
  description: string
  data: unknown
  metadata: object
  priority: number
}

const DECISIONS = ['guidance', 'reassign', 'take_over', 'escalate']

export async function escalate(turn: Turn, reason: string, details: object = {}): Promise<EscalationOutcome> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  checkText(reason, 'reason')
  checkObject(details, 'details')
  const { taskId } = turn
  const agent = turn.role.name
  const { content = '', structuredData = null } = turn.start.message ?? {}
  const task = { id: taskId, description: content, structuredData }
  const { managers, done, isSteered } = (await turn.call('managers', {})) as EscalationView
  if (isSteered) return { kind: 'guidance', guidance: '' } // people have said what to do
  const escalation: Escalation = { from: agent, reason, details, done, task, passedBy: [] }
  for (const manager of managers) {
    const outcome = await decided(turn, manager, escalation)
    if (outcome) return outcome
    escalation.passedBy.push(manager)
  }
  await turn.report(`Agent "${agent}" cannot go on: ${reason}`, { escalation })
  return unresolved(`${nobody(agent, escalation.passedBy)} What it escalated: ${reason}`)
}

const nobody = (agent: string, passedBy: readonly string[]) =>
  passedBy.length === 0
    ? `Agent "${agent}" has no manager (escalateTo), so nobody was asked.`
    : `"${passedBy.at(-1)}" passed it on, and has no manager (escalateTo) that was not asked.`

const unresolved = (reason: string): EscalationOutcome => ({ kind: 'unresolved', reason })

/** Asks one manager and returns the outcome; undefined if the manager passes the escalation on. */
async function decided(turn: Turn, manager: string, escalation: Escalation): Promise<EscalationOutcome | undefined> {
  const text = `Agent "${escalation.from}" cannot go on: ${escalation.reason}`
  const answer = await answerOf(turn, turn.ask(manager, text, { metadata: { escalation } }, 'request'))
  if (typeof answer === 'string') return unresolved(`"${manager}" was asked in vain: ${answer}`)
  const { decision, to } = Object(answer.structuredData) as { decision?: unknown; to?: unknown }
  switch (decision) {
    case undefined:
    case 'guidance':
      if (answer.content === '') return unresolved(`"${manager}" answered nothing.`)
      return { kind: 'guidance', guidance: answer.content }
    case 'take_over':
      return { kind: 'taken_over', to: manager, result: answer }
    case 'reassign':
      return reassigned(turn, manager, to, answer.content, escalation)
    case 'escalate':
      return undefined
    default:
      return unresolved(`"${manager}" answered with a decision that is none of ${DECISIONS.join(', ')}.`)
  }
}

/** Gives the task to another agent unchanged: a board task with its task fields, a question with its data. */
async function reassigned(
  turn: Turn,
  by: string,
  to: unknown,
  guidance: string,
  { from, reason, task }: Escalation,
): Promise<EscalationOutcome> {
  if (typeof to !== 'string' || to === '' || to === from)
    return unresolved(`"${by}" reassigned the task, but to nobody else: its structuredData needs { decision, to }.`)
  const data = taskFor(turn, to, task)
  const parentTaskId = headIn(data) ? undefined : turn.start.message?.parentTaskId
  const request: ReassignRequest = {
    by,
    to,
    description: task.description,
    data,
    metadata: {
      reassigned: { from, by, reason, guidance },
      ...(parentTaskId !== undefined && asSubTask(parentTaskId, to)),
    },
    priority: turn.start.message?.priority ?? 0,
  }
  const answer = turn.call('reassign', request) as Promise<AgentMessage>
  const result = await answerOf(turn, parentTaskId === undefined ? answer : answer.then(withPlainData))
  if (typeof result === 'string') return unresolved(`"${by}" reassigned the task to "${to}", in vain: ${result}`)
  return { kind: 'reassigned', to, result }
}

/** Returns the answer to a task of that agent's own: not its result, but the data that its words do not say. */
function withPlainData(answer: AgentMessage): AgentMessage {
  const data = dataOfResult(answer.structuredData, answer.sender)
  return { ...answer, structuredData: data === answer.content ? null : data }
}

/**
 * Returns the data for the new owner. Those of a sub-task have its name; those of a plain question stay unchanged,
 * because the new owner needs them to understand it.
 */
function taskFor({ start, taskId }: Turn, to: string, { description, structuredData }: Escalation['task']): unknown {
  const isTask = start.message?.type === 'delegate'
  if (headIn(structuredData)) return { ...Object(structuredData), assignedAgentRole: to }
  if (structuredData !== null && !isTask) return structuredData
  const offer = isTask ? Object(structuredData) : offerOf(to, description, null)
  return { ...offer, assignedTo: to, parentTask: taskId ?? Object(offer).parentTask }
}

async function answerOf(turn: Turn, answer: Promise<AgentMessage>): Promise<AgentMessage | string> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof DramatisError) || turn.refusal()) throw error
    return error.message
  }
}

/*
 * The handoff: the duty to answer moves to another agent. The host performs it as one step of the turn; see
 * handoffs.ts.
 */

/** Arguments of the host call. */
export interface HandoffRequest extends Partial<Heard> {
  to: string
  description: string
  priority: number
  /** The whole task, as `structuredData` of the message that hands it over. */
  offer: object
  /** The task as the source agent gave it. */
  task: object
  summary?: string
}

export async function handoff(
  turn: Turn,
  to: string,
  input: AgentTask | TaskInput,
  summary: string | undefined,
  heard?: Heard,
): Promise<void> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  if (summary !== undefined) checkText(summary, 'summary')
  const offer = offerFor(turn, to, input)
  const request: HandoffRequest = {
    to,
    description: offer.description,
    priority: offer.priority,
    offer: { ...offer, parentTask: turn.taskId ?? offer.parentTask },
    task: typeof input === 'string' ? { description: input } : input,
    ...(summary !== undefined && { summary }),
    ...heard,
  }
  await turn.call('handoff', request)
  turn.release()
}

/** Description of a task for the host. */
export interface RoutedTask {
  text: string
  assignedTo: string | null
  requiredCapabilities: string[]
}

/** The agent that the host has chosen, or the bidders of an auction that must choose one. */
export type Routed = { agent: string | null } | { bidders: Candidate[] }

export async function route(
  turn: Turn,
  orchestrator: OrchestratorContext,
  input: TaskInput,
  options: RouteOptions,
): Promise<string | null> {
  const task = taskOf(input)
  checkObject(options, 'options')
  checkReadable(options, 'options')
  const routed = (await turn.call('route', { task, options })) as Routed
  if ('agent' in routed) return routed.agent
  const { bids } = await bidsFor(orchestrator, task.text, wanted(task), routed.bidders, AUCTION_TERMS)
  const agent = bids[0]?.agent ?? null
  orchestrator.decide(questionOf(task), agent ?? NOBODY, `auction: ${reasonFor(bids, AUCTION_TERMS.tieBreak)}`)
  return agent
}

export async function candidates(turn: Turn, input: TaskInput, options: CandidateOptions): Promise<Candidate[]> {
  const task = taskOf(input)
  checkObject(options, 'options')
  checkReadable(options, 'options')
  return (await turn.call('candidates', { task, options })) as Candidate[]
}

/** Choice recorded if no agent is chosen. */
export const NOBODY = 'nobody'

const LONGEST = 60

/** Returns the question of the decision, as it appears in the trace. */
export const questionOf = ({ text }: RoutedTask): string =>
  `Who gets the task "${text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text}"?`

const wanted = ({ text }: RoutedTask): string => BID_WANTED.replace('{query}', () => text)

function taskOf(input: TaskInput): RoutedTask {
  const { description: text, requiredCapabilities } = offerOf('', input, null)
  if (text.trim() === '') throw wrongArgument('task', text, 'a text that says what is to be done is needed')
  const assignedTo = (typeof input === 'string' ? undefined : input.assignedTo) ?? null
  if (assignedTo !== null) checkText(assignedTo, 'task.assignedTo')
  return { text, assignedTo, requiredCapabilities }
}
