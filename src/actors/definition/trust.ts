/** What an agent may do by its trust. One table: the host refuses by it, and threads offer by it. Source: requirement P31. */
import type { RoleInfo } from './role.ts'

/** The verb that reports that a model goes round in circles. */
export const LOOP_FOUND = 'model.loop'

/** The verb by which the target of a handoff confirms that it has not refused the task. */
export const ACKNOWLEDGE = 'handoff.acknowledge'

type Trust = NonNullable<RoleInfo['trust']>

const RANKS: Readonly<Record<Trust, number>> = { untrusted: 0, internal: 1, privileged: 2 }

/** The least trust for each verb, by its name or by that of the call that serves it. Answering is no verb: everybody may. */
const LEAST = {
  report: 'untrusted',
  model: 'untrusted', // it cannot answer without, nor without the next two
  'model.turn': 'untrusted',
  'run.output': 'untrusted',
  [LOOP_FOUND]: 'untrusted',
  [ACKNOWLEDGE]: 'untrusted', // of a task that it was given
  send: 'internal',
  request: 'internal',
  broadcast: 'internal',
  delegate: 'internal',
  handoff: 'internal',
  managers: 'internal', // it escalates
  reassign: 'internal',
  'blackboard.write': 'internal',
  'blackboard.read': 'internal',
  'blackboard.query': 'internal',
  'blackboard.history': 'internal',
  'blackboard.waitFor': 'internal',
  'shared.get': 'internal',
  'shared.update': 'internal',
  subscribe: 'internal',
  watch: 'internal',
  sync: 'internal',
  synced: 'internal',
  decide: 'internal',
  route: 'internal',
  candidates: 'internal',
  ask: 'internal', // a person would take it for the team
  agents: 'internal',
  tool: 'internal',
  'tool.simulated': 'internal',
  // What they make can have any trust, and nobody is to make an agent that is trusted more than itself.
  spawn: 'privileged',
  define: 'privileged',
} as const satisfies Record<string, Trust>

export type Verb = keyof typeof LEAST

export const isVerb = (name: string): name is Verb => Object.hasOwn(LEAST, name)

/** The least trust that this verb takes. */
export const trustFor = (verb: Verb): Trust => LEAST[verb]

/** Whether an agent of that trust may use this verb. */
export function isTrustedTo(trust: Trust | undefined, verb: Verb): boolean {
  return RANKS[trust ?? 'internal'] >= RANKS[LEAST[verb]]
}
