/** What cells are made with: an agent's settings, or those of the runtime's own names. */
import type { CellSettings } from './cell.ts'
import type { AgentSettings, TeamSettings } from './settings.ts'

const MIB = 2 ** 20

/** `option`: where the agent stands in the team's options, for errors. */
export function agentCell(agent: AgentSettings, option: string): CellSettings {
  const {
    info,
    module,
    playedByModel,
    verbs,
    contextStrategy,
    maxHeapMb,
    maxExternalMb,
    concurrency,
    instances,
    reentrancy,
    mailbox,
    supervision,
    responseTimeoutMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
  } = agent
  return {
    info,
    option,
    module,
    playedByModel,
    verbs,
    contextStrategy,
    maxHeapMb,
    maxExternalMb,
    concurrency,
    instances,
    reentrancy,
    mailbox,
    supervision,
    responseTimeoutMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
    untrusted: info.trust === 'untrusted',
    counted: true,
  }
}

/** The runtime's own names: no limits but that of a message's size. */
export function fixedCell(name: string, { supervision, retries, tools }: TeamSettings): CellSettings {
  return {
    info: { name },
    option: 'orchestration',
    module: null,
    playedByModel: false,
    verbs: [],
    contextStrategy: undefined,
    maxHeapMb: null,
    maxExternalMb: null,
    concurrency: Number.MAX_SAFE_INTEGER,
    instances: 1,
    reentrancy: 'none', // nobody can ask it
    mailbox: { capacity: 2 ** 30, bytes: 2 ** 30, maxMessageBytes: 16 * MIB, overflow: 'block' },
    supervision: { ...supervision, onHandlerError: 'fail' }, // a script that throws has failed
    responseTimeoutMs: Number.POSITIVE_INFINITY,
    queueTimeoutMs: false,
    retries,
    turnTimeoutMs: false,
    env: [],
    tools: { ...tools, modules: [], names: [], skills: [] }, // those run in the threads of agents
    untrusted: false,
    counted: false,
  }
}
