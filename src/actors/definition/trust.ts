/**
 * Defines which verbs an agent may use by its trust level. Host and threads share one table: the host refuses verbs by
 * it, and threads offer verbs to models by it. Source: requirement P31.
 */
import { GUARD } from './guardrail.ts'
import type { RoleInfo } from './role.ts'

/** Verb that reports that a model repeats itself in a loop. */
export const LOOP_FOUND = 'model.loop'

/** Verb that tells a model's turn about the agents that it may turn to. */
export const MODEL_TURN = 'model.turn'

/** Verb by which the target of a handoff confirms that it has not refused the task. */
export const ACKNOWLEDGE = 'handoff.acknowledge'

type Trust = NonNullable<RoleInfo['trust']>

const RANKS: Readonly<Record<Trust, number>> = { untrusted: 0, internal: 1, privileged: 2 }

/**
 * The least trust for each verb. A key is the verb's name, or the name of the call that serves it. Answering a message
 * is not a verb: every agent may answer.
 */
const LEAST = {
  report: 'untrusted',
  model: 'untrusted', // a model agent cannot answer without this verb and the next two
  [MODEL_TURN]: 'untrusted',
  'run.output': 'untrusted',
  [GUARD]: 'untrusted',
  [LOOP_FOUND]: 'untrusted',
  [ACKNOWLEDGE]: 'untrusted', // for a task that it was given
  send: 'internal',
  request: 'internal',
  broadcast: 'internal',
  delegate: 'internal',
  handoff: 'internal',
  managers: 'internal', // used by `escalate`
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
  approve: 'internal', // asks for the approval of a call of a tool
  ask: 'internal', // a person would take the question for one of the whole team
  agents: 'internal',
  tool: 'internal',
  'tool.simulated': 'internal',
  // The new agent can have any trust, and no agent may create one that is more trusted than itself.
  spawn: 'privileged',
  define: 'privileged',
} as const satisfies Record<string, Trust>

export type Verb = keyof typeof LEAST

export const isVerb = (name: string): name is Verb => Object.hasOwn(LEAST, name)

/** Returns the least trust that this verb requires. */
export const trustFor = (verb: Verb): Trust => LEAST[verb]

/** Checks whether an agent with that trust may use this verb. Without a trust the agent counts as 'internal'. */
export function isTrustedTo(trust: Trust | undefined, verb: Verb): boolean {
  return RANKS[trust ?? 'internal'] >= RANKS[LEAST[verb]]
}
