/** Settings of a `Cell`: those of an agent, or those of the runtime's own names. */
import type { AgentSettings, TeamSettings } from '../settings/settings.ts'

const MIB = 2 ** 20

export interface CellSettings extends Omit<AgentSettings, 'name' | 'role'> {
  /** Place of the role in the team's options, for errors: `agents[0]`. */
  option: string
  /**
   * True for agents, false for the protocol script and for callers outside. Only turns of agents need a permit of the
   * run.
   */
  isAgent: boolean
  /** True if it may only answer and report (admission/trust.ts). */
  untrusted: boolean
}

/** Returns the settings of an agent. `option` is the agent's place in the team's options, for errors. */
export function agentCell({ name: _name, role: _role, ...settings }: AgentSettings, option: string): CellSettings {
  return { ...settings, option, untrusted: settings.info.trust === 'untrusted', isAgent: true }
}

/** Returns the settings of one of the runtime's own names. They have no limits except on the size of a message. */
export function fixedCell(name: string, settings: TeamSettings): CellSettings {
  const { supervision, retries, modelTimeoutMs, answerWithinMs, tools, loops } = settings
  return {
    info: { name },
    option: 'orchestration',
    module: null,
    playedByModel: false,
    isolation: 'thread',
    verbs: [],
    loops,
    contextStrategy: undefined,
    maxHeapMb: null,
    maxExternalMb: null,
    concurrency: Number.MAX_SAFE_INTEGER,
    instances: 1,
    reentrancy: 'none', // nobody can send it a request
    mailbox: { capacity: 2 ** 30, bytes: 2 ** 30, maxMessageBytes: 16 * MIB, overflow: 'block' },
    supervision: { ...supervision, onHandlerError: 'fail' },
    responseTimeoutMs: Number.POSITIVE_INFINITY,
    modelTimeoutMs,
    answerWithinMs,
    queueTimeoutMs: false,
    retries,
    turnRetries: 0, // a script that throws has failed
    turnTimeoutMs: false,
    messagesPerTurn: Number.POSITIVE_INFINITY,
    env: [],
    keys: undefined,
    guards: { input: [], output: [], tool: settings.guards.tool },
    tools: { ...tools, modules: [], names: [], skills: [] }, // these run in the threads of agents
    untrusted: false,
    isAgent: false,
  }
}
