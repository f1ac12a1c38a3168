/** Routing for protocol scripts. The host chooses the agent, because only the host knows the agents and their load. */
import { AUCTION_TERMS, BID_WANTED, bidsFor, reasonFor } from '../decisions/auction.ts'
import { checkObject, checkReadable, checkText, wrongArgument } from '../definition/checks.ts'
import type { OrchestratorContext } from '../definition/context/context.ts'
import type { Candidate, CandidateOptions, RouteOptions } from '../definition/routing.ts'
import type { TaskInput } from '../definition/task.ts'
import { offerOf } from './delegate.ts'

/** Description of a task for the host. */
export interface RoutedTask {
  text: string
  assignedTo: string | null
  requiredCapabilities: string[]
}

/** The agent that the host has chosen, or the bidders of an auction that must choose one. */
export type Routed = { agent: string | null } | { bidders: Candidate[] }

interface HostCaller {
  /** Calls a verb that the host serves. */
  call(operation: string, args: object): Promise<unknown>
}

export async function route(
  turn: HostCaller,
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

export async function candidates(turn: HostCaller, input: TaskInput, options: CandidateOptions): Promise<Candidate[]> {
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
