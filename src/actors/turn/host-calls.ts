/**
 * Verbs that are a single call to the host: sync points, questions to people, new agents, and subscriptions for
 * `observe`.
 */
import { ConfigurationError } from '../../errors.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { checkObject, checkReadable, checkText, reading, wrongArgument } from '../definition/checks.ts'
import type { AgentType, AskOptions, SpawnRole, SyncResult } from '../definition/context/context.ts'
import { quiet } from '../definition/promises.ts'
import type { RoleInfo } from '../definition/role.ts'

/** The part of a turn that these verbs use. */
interface HostCaller {
  readonly role: RoleInfo
  readonly ended: boolean
  /** True if the agent has an `observe` handler. */
  readonly observes: boolean
  /** Calls the host; the answer is JSON. `signal` withdraws the call. */
  call(operation: string, args: object, signal?: AbortSignal): Promise<unknown>
}

/** Subscribes to entries or exits, which arrive at the agent's `observe` handler. Refuses the verb if there is none. */
export async function observeMore(
  turn: HostCaller,
  verb: 'subscribe' | 'watch',
  args: { pattern: string } | { agent: string },
): Promise<void> {
  if (!turn.ended && !turn.observes) throw hasNoObserve(turn.role.name, verb)
  return turn.call(verb, args).then(quiet)
}

export async function sync<T>(turn: HostCaller, point: string, data: T | undefined): Promise<SyncResult<T>> {
  checkText(point, 'point')
  return (await turn.call('sync', { point, data })) as SyncResult<T>
}

export async function synced<T>(turn: HostCaller, point: string): Promise<SyncResult<T>> {
  checkText(point, 'point')
  return (await turn.call('synced', { point })) as SyncResult<T>
}

export async function askPerson(turn: HostCaller, question: string, options: AskOptions): Promise<string> {
  checkObject(options, 'options')
  const { signal, ...asked } = reading('options', () => ({ ...options }))
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
  return (await turn.call('ask', { ...asked, question }, signal)) as string
}

export async function spawn(turn: HostCaller, role: SpawnRole): Promise<string> {
  checkObject(role, 'role')
  checkReadable(role, 'role')
  return (await turn.call('spawn', role)) as string
}

export async function defineType(turn: HostCaller, type: AgentType): Promise<string> {
  checkObject(type, 'type')
  checkReadable(type, 'type')
  return (await turn.call('define', type)) as string
}

function hasNoObserve(agent: string, verb: string): ConfigurationError {
  const text =
    agent === ORCHESTRATOR
      ? `context.${verb}: a protocol script has no observe, so it would hear of nothing. Let an agent ${verb}.`
      : `context.${verb}: agent "${agent}" has no observe, so it would hear of nothing. Give its definition one.`
  return new ConfigurationError(text, { agent, path: `context.${verb}` })
}
