/**
 * Enforces trust in the host, so that code in a thread cannot get around it. actors/definition/trust.ts defines the
 * trust that each verb needs.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import { isTrustedTo, isVerb, trustFor, type Verb } from '../../actors/definition/trust.ts'
import { ConfigurationError, MessageRejectedError } from '../../errors.ts'
import { flagsOf, kindOf, REQUEST, TO_ALL, typeOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'

/** Names that errors use for verbs whose call has another name. */
const SHOWN: Readonly<Partial<Record<Verb, string>>> = {
  managers: 'escalate',
  define: 'defineAgent',
  'shared.get': 'shared',
  'shared.update': 'shared',
}

/** Checks whether an agent may use a verb. The protocol script, the caller and the runtime itself may use all. */
export function mayUse({ settings }: Cell, verb: Verb): boolean {
  return !settings.isAgent || isTrustedTo(settings.info.trust, verb)
}

/**
 * Returns the error that refuses a message of an untrusted agent, or undefined. Such an agent may only report to its
 * manager or to the protocol script. Delegations are refused by the delegation graph.
 */
export function messageRefusal(
  sender: Cell,
  callee: Cell | undefined,
  memory: Memory,
  at: number,
): MessageRejectedError | undefined {
  const verb = verbOf(memory, at)
  if (verb === 'delegate' || (verb === 'report' && (!callee || isAbove(callee, sender)))) return undefined
  const { words, details } = refusalOf(sender, verb === 'report' ? 'send' : verb)
  return new MessageRejectedError(words, { ...details, ...(callee && { recipient: callee.name }) })
}

/** Returns the error if a caller may not use a verb in the name of that agent, because the agent itself may not. */
export function refusalInItsName(agent: Cell, verb: Verb): MessageRejectedError | undefined {
  if (mayUse(agent, verb)) return undefined
  const { words, details } = refusalOf(agent, verb)
  return new MessageRejectedError(words, details)
}

function verbOf(memory: Memory, at: number): 'broadcast' | 'delegate' | 'request' | 'report' | 'send' {
  if (flagsOf(memory, at) & TO_ALL) return 'broadcast'
  const type = typeOf(memory, at)
  if (type === 'delegate') return 'delegate'
  if (kindOf(memory, at) === REQUEST) return 'request'
  return type === 'report' ? 'report' : 'send'
}

const isAbove = ({ index, name }: Cell, agent: Cell) =>
  index === ORCHESTRATOR_INDEX || name === agent.settings.info.escalateTo

/**
 * Returns the error if an agent may not call this operation of the host. Operations that are not verbs are refused
 * elsewhere.
 */
export function callRefusal(logger: Logger, cell: Cell, operation: string): ConfigurationError | undefined {
  if (!isVerb(operation) || mayUse(cell, operation)) return undefined
  const { words, details } = refusalOf(cell, operation)
  warn(logger, cell, words)
  return new ConfigurationError(words, details)
}

/**
 * Logs a refusal, because the agent may hide it. Of many refusals only some are logged: the first, the second, the
 * fourth, and so on.
 */
function warn(logger: Logger, { name, life }: Cell, words: string): void {
  if (!life) return
  life.refusedVerbs += 1
  if ((life.refusedVerbs & (life.refusedVerbs - 1)) !== 0) return
  logger.warn({ agent: name, epoch: life.epoch, error: words, refused: life.refusedVerbs }, 'the agent may not do that')
}

function refusalOf({ name, settings }: Cell, verb: Verb): { words: string; details: Record<string, unknown> } {
  const { trust = 'internal' } = settings.info
  const accepted = trustFor(verb)
  const shown = SHOWN[verb] ?? verb
  const may = trust === 'untrusted' ? 'may answer and report alone' : 'may not make others'
  return {
    words: `context.${shown}: agent "${name}" is ${trust} and ${may}. Let another agent do it, or give its role trust: '${accepted}'.`,
    details: { path: 'trust', agent: name, verb: shown, got: trust, accepted },
  }
}
