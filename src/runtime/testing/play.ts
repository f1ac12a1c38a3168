/** Plays one seed: the user's team under the real supervisor, in virtual time, to its end. */

import type { Outcome } from '../../actors/definition/context.ts'
import { ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import {
  AgentFailedError,
  DeadlockError,
  type DramatisError,
  describe,
  LivelockError,
  StallError,
} from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { Run } from '../runs/run.ts'
import type { OrchestrationTrace } from '../runs/trace.ts'
import type { TeamKit } from '../team/provision.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { Answerer } from '../verbs/approvals.ts'
import { type Fault, Faults, type Injected, person, type RehearsalPlan, speaking } from './faults.ts'
import type { Stage } from './stage.ts'
import { settling } from './virtual-clock.ts'

/** Kinds of outcome, in the order in which they are reported. */
export const KINDS = ['done', 'deadlock', 'livelock', 'stall', 'failed'] as const

/** How a run may end. */
export type OutcomeKind = (typeof KINDS)[number]

/** Outcome of one seed. */
export interface SeedOutcome {
  seed: number
  kind: OutcomeKind
  /** Error of the run; null if the kind is `done`. */
  error: DramatisError | null
  /** Number of messages in the run's history. */
  messages: number
  faults: readonly Injected[]
  /** Names of models in whose place the rehearsal model answered. */
  standsInFor: readonly string[]
  /** Names of tools that did not run, but were answered in their place. */
  simulatedTools: readonly string[]
  /** Real input or output that was wanted and refused. */
  refused: readonly string[]
  /** Trace of the run; null unless it was asked for. */
  trace: OrchestrationTrace | null
}

/**
 * Returns the error for a finding of a detector. A deadlock and a stall are facts, even if the run came to its end in
 * spite of them. A livelock is only a sign, which progress takes back.
 */
function foundBy(event: RuntimeEvent): DramatisError | undefined {
  switch (event.type) {
    case 'deadlock': {
      const { cycle, tail, waits, victim } = event
      const round = [...cycle, cycle[0]].join(' -> ')
      return new DeadlockError(`Agents wait for each other in a circle: ${round}.`, { cycle, tail, waits, victim })
    }
    case 'livelock':
      return new LivelockError(`Agents are busy without progress: ${event.evidence.join('; ')}.`, {
        evidence: event.evidence,
      })
    case 'stall':
      return new StallError(`Nothing goes on any more: ${event.evidence.join('; ')}.`, { evidence: event.evidence })
    default:
      return undefined
  }
}

const KIND_OF: Readonly<Partial<Record<string, OutcomeKind>>> = {
  DEADLOCK: 'deadlock',
  LIVELOCK: 'livelock',
  STALL: 'stall',
}

/** The first of the causes that is a detector's finding decides. */
function kindOf(error: Caused): OutcomeKind {
  return Array.from(causesOf(error), ({ code }) => own(KIND_OF, code)).find(Boolean) ?? 'failed'
}

const ranOutOfTime = (error: Caused): boolean => [...causesOf(error)].some(({ code }) => DEADLINES.includes(code))

const DEADLINES = ['REQUEST_TIMEOUT', 'TURN_TIMEOUT', 'RUN_TIMEOUT']

/** Yields the error and all of its causes; where several agents failed, the causes of all failures. */
function* causesOf(error: Caused): IterableIterator<Caused> {
  yield error
  const { cause, failures } = error.details
  for (const each of [cause, ...(Array.isArray(failures) ? failures : [])]) if (isCaused(each)) yield* causesOf(each)
}

/** An error, or its data: an error that came from another thread carries its cause as data. */
interface Caused {
  code: string
  details: { cause?: unknown; failures?: unknown }
}

function isCaused(cause: unknown): cause is Caused {
  if (typeof cause !== 'object' || cause === null || !('code' in cause) || !('details' in cause)) return false
  return typeof cause.code === 'string' && typeof cause.details === 'object' && cause.details !== null
}

export function tally(outcomes: readonly { kind: OutcomeKind }[]): Record<OutcomeKind, number> {
  const counts: Record<OutcomeKind, number> = { done: 0, deadlock: 0, livelock: 0, stall: 0, failed: 0 }
  for (const { kind } of outcomes) counts[kind] += 1
  return counts
}

/**
 * Returns the outcome with the fewest messages; among equals the one with the fewest faults, then the smallest seed.
 */
export function shortest<T extends Pick<SeedOutcome, 'seed' | 'messages' | 'faults'>>(
  outcomes: readonly T[],
): T | undefined {
  const length = ({ messages, faults, seed }: T) => [messages, faults.length, seed] as const
  return outcomes.reduce<T | undefined>((best, each) => {
    if (!best) return each
    const [mine, its] = [length(each), length(best)]
    const at = mine.findIndex((value, i) => value !== its[i])
    return at >= 0 && mine[at]! < its[at]! ? each : best
  }, undefined)
}

export interface Part extends Pick<RehearsalPlan, 'query' | 'caller' | 'tenant' | 'check' | 'modules' | 'steer'> {
  faults: readonly Fault[]
  traced: boolean
}

export interface PlayedTeam extends TeamRuntime {
  openTurns(): string[]
}

const CLOSE_STEP_MS = 1_000

/** Rejects with `ConfigurationError` for a team that cannot work at all. */
export async function playSeed(
  seed: number,
  stage: Stage,
  makeTeam: (kit: TeamKit) => PlayedTeam,
  { query, caller, tenant, faults: kinds, steer = [], check, modules = {}, traced }: Part,
): Promise<SeedOutcome> {
  const { clock } = stage
  const faults = new Faults(seed, kinds, clock, (agent) => stage.turn(agent))
  const team = makeTeam({
    definitions: new Map(Object.entries(modules)),
    models: { ...stage.models, around: faults.aroundModel },
    realTools: stage.realTools,
    outside: (tool, work) => stage.outside(tool, work),
    load: (code, thread) => stage.load(code, thread),
    recorded: (agent, handlers) => stage.recorded(agent, handlers),
    around: (agent, handlers, thread) => faults.around(agent, handlers, thread),
  })
  let run: Run | undefined
  let found: DramatisError | undefined
  let sign: DramatisError | undefined
  const answers = async (questionId: string, answer: string, by?: Answerer) =>
    run?.answer(questionId, answer, by && { by })
  const answerer = person(seed, clock, answers, faults.isLate, caller)
  const speaker = speaking(seed, clock, steer, async ({ text, after: _, ...how }) => run?.steer(text, how))
  const watched = team.events.subscribe((event) => {
    if (event.type === 'question') answerer.asked(event)
    else if (event.type === 'model.called') speaker.called()
    else if (event.type === 'livelock') sign = foundBy(event)
    else if (event.type === 'tool.started' && event.simulated) stage.simulated.add(event.tool)
    else found ??= foundBy(event)
  })
  try {
    run = team.launch(query, { runId: `seed-${seed}`, caller, tenant })
    speaker.begun()
    const isSettled = settling(run.result)
    let stranded: string[] = []
    const ending = await clock.runUntil(
      () => isSettled() || stage.broken !== undefined,
      (limitsAlone) => {
        stranded = limitsAlone && !faults.hangs ? team.openTurns() : []
      },
    )
    const cut = stage.broken ? brokenBy(stage.broken) : ending === 'endless' ? (sign ?? endless(team)) : undefined
    if (cut) await run.cancel('the rehearsal ended it')
    const result = await run.result
    const refused = await refusedBy(check, outcomeOf(result))
    const late = result.error && ranOutOfTime(result.error) ? result.error : undefined
    const error = found ?? cut ?? (late ? (sign ?? strandedBy(stranded, late)) : undefined) ?? result.error ?? refused
    if (ending !== 'endless') await close(team, stage)
    return {
      seed,
      kind: error ? kindOf(error) : 'done',
      error: error ?? null,
      messages: result.messageHistory.length,
      faults: faults.injected,
      standsInFor: stage.standsInFor,
      simulatedTools: [...stage.simulated].sort(),
      refused: [...stage.refused],
      trace: traced ? result.orchestrationTrace : null,
    }
  } finally {
    answerer.leave()
    speaker.leave()
    watched.unsubscribe()
    stage.close()
  }
}

function brokenBy(error: Error): DramatisError {
  return new AgentFailedError(
    `Something threw outside of any turn, and nobody caught it: ${describe(error)}`,
    {},
    error,
  )
}

/** Returns the error for a run in which only a deadline was left to come, which then ended it. */
function strandedBy(evidence: string[], late: DramatisError): DramatisError | undefined {
  if (evidence.length === 0) return undefined
  const text = `Nothing was left that could go on, so time passed until a deadline ended the run (${late.code}): ${evidence.join('; ')}. Look for a promise that nobody settles. What waits for real time, or for the world outside, waits in vain in virtual time.`
  return new StallError(text, { evidence }, late)
}

function endless(team: TeamRuntime): DramatisError {
  const busy = Object.entries(team.health().agents).filter(([, { status }]) => status !== 'idle')
  const evidence = busy.map(([name, { status }]) => `${name} is ${status}`)
  const text = `The agents were busy without end while no time passed: ${evidence.join(', ') || 'all of them are idle'}.`
  return new LivelockError(text, { evidence })
}

async function refusedBy(check: RehearsalPlan['check'], outcome: Outcome): Promise<DramatisError | undefined> {
  try {
    await check?.(outcome)
    return undefined
  } catch (error) {
    return new AgentFailedError(`check refused the outcome: ${describe(error)}`, {}, error)
  }
}

function outcomeOf(result: MultiAgentResult<undefined>): Outcome {
  const agent = ORCHESTRATOR
  if (!result.success) return { agent, ok: false, error: result.error }
  const message = result.messageHistory.findLast(
    ({ type, sender, recipient }) => type === 'response' && sender === agent && recipient === USER,
  )
  if (message) return { agent, ok: true, message }
  return { agent, ok: false, error: new AgentFailedError('The answer has left the log, which is full.', { agent }) }
}

/** Advances the clock meanwhile, since agents that ignore their signal end only after the grace time. */
export async function close(team: TeamRuntime, { clock }: Stage): Promise<void> {
  const closed = team.close()
  const isClosed = settling(closed)
  for (let ms = 0; !isClosed(); ms = CLOSE_STEP_MS) await clock.advance(ms)
  await closed
}
