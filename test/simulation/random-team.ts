/** The options of a team at random: who may do how much at once, how small mailboxes are, what happens to who fails. */
import type { AgentContext, AgentRole, MultiAgentPatternOptions } from '../../src/index.ts'
import type { Dice } from '../dice.ts'
import { silent } from '../kit/team.ts'
import { MEETING, MEMBERS } from './random-program.ts'

export const NAMES = ['ann', 'bob', 'cleo', 'dan', 'eve']
export const ALL = [...NAMES, ...MEMBERS]

/** A program begins with the first agent, which is asked for the path that the query names. */
const orchestration = {
  strategy: 'custom' as const,
  run: async (script: AgentContext, path: string) => (await script.request(NAMES[0]!, path)).content,
}

const randomAgents = (dice: Dice): AgentRole[] =>
  ALL.map((name) => ({
    name,
    priority: dice.upTo(3),
    concurrency: dice.chance(0.4) ? 2 + dice.upTo(3) : 1,
    instances: dice.chance(0.4) ? 2 + dice.upTo(2) : 1,
    reentrancy: dice.chance(0.5) ? 'chain' : 'none',
    supervision: { onHandlerError: dice.pick(['fail', 'fail', 'retry', 'restart'] as const) },
  }))

const randomMeeting = (dice: Dice) => [
  {
    name: MEETING,
    requiredAgents: [...MEMBERS],
    timeoutMs: 1 + dice.upTo(60),
    onTimeout: dice.pick(['proceed', 'abort', 'notify'] as const),
  },
]

/** For programs in which nobody waits for who waits for him. */
export function orderlyTeam(dice: Dice, limit: number): MultiAgentPatternOptions {
  return {
    agents: randomAgents(dice),
    logger: silent,
    maxConcurrentAgents: limit,
    syncPoints: randomMeeting(dice),
    supervision: { maxRestarts: dice.chance(0.3) ? 3 : Number.POSITIVE_INFINITY, coolDownMs: 500 },
    communication: {
      ...(dice.chance(0.4) && { mailboxCapacity: 1 + dice.upTo(3) }),
      ...(dice.chance(0.2) && { overflow: dice.pick(['reject', 'drop_oldest', 'drop_newest'] as const) }),
      ...(dice.chance(0.2) && { queueTimeoutMs: 40 }),
      ...(dice.chance(0.2) && { responseTimeoutMs: 60 }),
      ...(dice.chance(0.3) && { retries: 1 + dice.upTo(2) }),
    },
    orchestration,
  }
}

/** Whom each of `NAMES` asks when it cannot go on: the next one. */
export const MANAGERS = Object.fromEntries(NAMES.slice(1).map((manager, i) => [NAMES[i]!, manager]))

/** The same, where some ask their managers. */
export function talkativeTeam(dice: Dice, limit: number): MultiAgentPatternOptions {
  const { agents, ...options } = orderlyTeam(dice, limit)
  const withManager = (role: AgentRole) => {
    const escalateTo = MANAGERS[role.name]
    return escalateTo === undefined ? role : { ...role, escalateTo }
  }
  return { ...options, agents: agents.map(withManager) }
}

/** For programs that come to an end only when who waits in vain is freed: no other time ends a wait, but that of meetings. */
export function entangledTeam(dice: Dice, limit: number): MultiAgentPatternOptions {
  return {
    agents: randomAgents(dice).map((role) => ({ ...role, reentrancy: 'none' })),
    logger: silent,
    maxConcurrentAgents: limit,
    globalTimeoutMs: 2 ** 31 - 1,
    syncPoints: randomMeeting(dice),
    supervision: { maxRestarts: Number.POSITIVE_INFINITY },
    communication: {
      responseTimeoutMs: 2 ** 31 - 1,
      ...(dice.chance(0.4) && { mailboxCapacity: 1 + dice.upTo(3) }),
    },
    orchestration,
  }
}
