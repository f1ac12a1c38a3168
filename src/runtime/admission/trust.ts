/** Trust, as the host holds to it: what a thread writes does not get around it. What takes how much is in actors/definition/trust.ts. */
import type { Logger } from '../../actors/definition/logger.ts'
import { isTrustedTo, isVerb, trustFor, type Verb } from '../../actors/definition/trust.ts'
import { ConfigurationError, MessageRejectedError } from '../../errors.ts'
import { flagsOf, kindOf, REQUEST, TO_ALL, typeOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'

/** What an error calls a verb whose call has another name. */
const SHOWN: Readonly<Partial<Record<Verb, string>>> = {
  managers: 'escalate',
  define: 'defineAgent',
  'shared.get': 'shared',
  'shared.update': 'shared',
}

/** Whether that agent may; the protocol script, the caller and the runtime itself may all. */
export function mayUse({ settings }: Cell, verb: Verb): boolean {
  return !settings.counted || isTrustedTo(settings.info.trust, verb)
}

/**
 * Why that message of an agent that is not trusted is refused, if it is: it may report, to who is above it. Delegations are
 * for the delegation graph to refuse.
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

/** Why a caller may not do in the name of that agent what it may not do itself. */
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

/** Why that agent may not have the host do this, if it may not. What is no verb is for others to refuse. */
export function callRefusal(logger: Logger, cell: Cell, operation: string): ConfigurationError | undefined {
  if (!isVerb(operation) || mayUse(cell, operation)) return undefined
  const { words, details } = refusalOf(cell, operation)
  warn(logger, cell, words)
  return new ConfigurationError(words, details)
}

/** Its agent may keep it to itself. A flood of them is told of ever more seldom: with the first, the second, the fourth. */
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
