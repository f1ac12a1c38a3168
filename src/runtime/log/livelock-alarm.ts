/**
 * The alarm of a livelock, for the detector of messages and for the threads of models, which watch their own rounds.
 */
import type { Alarm } from './alarms.ts'

/**
 * Steps of rule 30. A tie-breaker would come before the abort: no protocol of this version has one, and none is made
 * up.
 */
export const LADDER = ['notice', 'replan', 'abort'] as const

export type LivelockStep = (typeof LADDER)[number]

/** `evidence`: all signs since the last progress. */
export const livelockAlarm = (step: LivelockStep, agents: readonly string[], evidence: readonly string[]): Alarm => ({
  name: 'livelock',
  agents,
  title: `agents are busy without progress (${step})`,
  sentence: evidence.join('; '),
  fields: { evidence: [...evidence] },
  details: { step },
})
