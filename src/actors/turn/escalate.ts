/**
 * Escalation: an agent that cannot continue asks its manager. It uses requests and reports only, so each action is a
 * step. Source: document 002, 2.6.2.
 */
import { DramatisError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { checkObject, checkText } from '../definition/checks.ts'
import type { EscalationOutcome } from '../definition/context/context.ts'
import { offerOf, type TaskTurn } from './delegate.ts'

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

export async function escalate(turn: TaskTurn, reason: string, details: object = {}): Promise<EscalationOutcome> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  checkText(reason, 'reason')
  checkObject(details, 'details')
  const { agent, taskId, message } = turn
  const { content = '', structuredData = null } = message ?? {}
  const task = { id: taskId, description: content, structuredData }
  const { managers, done } = (await turn.call('managers', {})) as EscalationView
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
async function decided(
  turn: TaskTurn,
  manager: string,
  escalation: Escalation,
): Promise<EscalationOutcome | undefined> {
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
  turn: TaskTurn,
  by: string,
  to: unknown,
  guidance: string,
  { from, reason, task }: Escalation,
): Promise<EscalationOutcome> {
  if (typeof to !== 'string' || to === '' || to === from)
    return unresolved(`"${by}" reassigned the task, but to nobody else: its structuredData needs { decision, to }.`)
  const request: ReassignRequest = {
    by,
    to,
    description: task.description,
    data: taskFor(turn, to, task),
    metadata: { reassigned: { from, by, reason, guidance } },
    priority: turn.message?.priority ?? 0,
  }
  const result = await answerOf(turn, turn.call('reassign', request) as Promise<AgentMessage>)
  if (typeof result === 'string') return unresolved(`"${by}" reassigned the task to "${to}", in vain: ${result}`)
  return { kind: 'reassigned', to, result }
}

/**
 * Returns the data for the new owner. The data of a plain question stay unchanged, because the new owner needs them to
 * understand it.
 */
function taskFor(
  { message, taskId }: TaskTurn,
  to: string,
  { description, structuredData }: Escalation['task'],
): unknown {
  const isTask = message?.type === 'delegate'
  if (structuredData !== null && !isTask) return structuredData
  const offer = isTask ? Object(structuredData) : offerOf(to, description, null)
  return { ...offer, assignedTo: to, parentTask: taskId ?? Object(offer).parentTask }
}

/** Returns the answer, or the error message as a string if there is none. */
async function answerOf(turn: TaskTurn, answer: Promise<AgentMessage>): Promise<AgentMessage | string> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof DramatisError) || turn.refusal()) throw error
    return error.message
  }
}
