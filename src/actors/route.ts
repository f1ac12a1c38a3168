/** Routing, as a script asks for it. The host chooses: it alone knows who is there and how much each has to do. */

import { offerOf } from './delegate.ts'
import type { Candidate, CandidateOptions, RouteOptions } from './routing.ts'
import type { TaskInput } from './task.ts'
import { checkObject, checkText, wrongArgument } from './verb-checks.ts'

/** What the host is told of a task. */
export interface RoutedTask {
  text: string
  assignedTo: string | null
  requiredCapabilities: string[]
}

/** Whom the host has chosen. */
export interface Routed {
  agent: string | null
}

interface Asking {
  /** A verb that the host serves. */
  call(operation: string, args: object): Promise<unknown>
}

export async function route(turn: Asking, task: TaskInput, options: RouteOptions): Promise<string | null> {
  const { agent } = (await turn.call('route', routed(task, options))) as Routed
  return agent
}

export async function candidates(turn: Asking, task: TaskInput, options: CandidateOptions): Promise<Candidate[]> {
  return (await turn.call('candidates', routed(task, options))) as Candidate[]
}

function routed(input: TaskInput, options: object): { task: RoutedTask; options: object } {
  checkObject(options, 'options')
  const { description, requiredCapabilities } = offerOf('', input, null)
  if (description.trim() === '')
    throw wrongArgument('task', description, 'a text that says what is to be done is needed')
  const assignedTo = (typeof input === 'string' ? undefined : input.assignedTo) ?? null
  if (assignedTo !== null) checkText(assignedTo, 'task.assignedTo')
  return { task: { text: description, assignedTo, requiredCapabilities }, options }
}
