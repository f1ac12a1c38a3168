/** Plays one seed: the user's team under the real supervisor, in virtual time, to its end. */
import type { Outcome } from '../../../actors/context.ts'
import { AgentFailedError, type DramatisError, describe, LivelockError, StallError } from '../../../errors.ts'
import { ORCHESTRATOR, USER } from '../../../mailbox/message.ts'
import type { TeamKit } from '../../provision.ts'
import type { MultiAgentResult } from '../../result.ts'
import type { TeamRuntime } from '../../team.ts'
import type { Ending } from '../virtual-clock.ts'
import { Faults } from './faults.ts'
import { foundBy, kindOf, type SeedOutcome } from './outcome.ts'
import type { Fault, RehearsalPlan } from './plan.ts'
import type { Stage } from './stage.ts'

export interface Part extends Pick<RehearsalPlan, 'query' | 'check' | 'modules'> {
  faults: readonly Fault[]
  /** Whether the outcome is to have the trace. */
  traced: boolean
}

const CLOSE_STEP_MS = 1_000

/**
 * `makeTeam`: the team, with the clock of `stage` and that kit. Rejects with `ConfigurationError` for a team that cannot work
 * at all.
 */
export async function playSeed(
  seed: number,
  stage: Stage,
  makeTeam: (kit: TeamKit) => TeamRuntime,
  { query, faults: kinds, check, modules = {}, traced }: Part,
): Promise<SeedOutcome> {
  const { clock } = stage
  const faults = new Faults(seed, kinds, clock)
  const team = makeTeam({
    definitions: new Map(Object.entries(modules)),
    load: (code, life) => stage.load(code, life),
    around: (agent, handlers, life) => faults.around(agent, handlers, life),
  })
  let found: DramatisError | undefined
  const watched = team.events.subscribe((event) => {
    found ??= foundBy(event)
  })
  try {
    const run = team.launch(query, { runId: `seed-${seed}` })
    let settled = false
    const settle = () => {
      settled = true
    }
    run.result.then(settle, settle)
    const ending = await clock.runUntil(() => settled || stage.broken !== undefined)
    const cut = stage.broken ? brokenBy(stage.broken) : settled ? undefined : cutShort(ending, team)
    if (!settled) await run.cancel('the rehearsal ended it')
    const result = await run.result
    const error = found ?? cut ?? result.error ?? (await refusedBy(check, result))
    if (ending !== 'endless') await close(team, stage)
    return {
      seed,
      kind: error ? kindOf(error) : 'done',
      error: error ?? null,
      messages: result.messageHistory.length,
      faults: faults.injected,
      refused: [...stage.refused],
      trace: traced ? result.orchestrationTrace : null,
    }
  } finally {
    watched.unsubscribe()
    stage.close()
  }
}

function brokenBy(error: Error): DramatisError {
  return new AgentFailedError(`Something threw outside of any turn, and nobody caught it: ${describe(error)}`, {}, error)
}

/** Nothing would ever happen again, or something for ever. */
function cutShort(ending: Ending, team: TeamRuntime): DramatisError {
  const busy = Object.entries(team.health().agents).filter(([, { status }]) => status !== 'idle')
  const agents = Object.fromEntries(busy.map(([name, { status }]) => [name, status]))
  const who = busy.map(([name, { status }]) => `${name} is ${status}`).join(', ') || 'no agent is at work'
  if (ending === 'endless')
    return new LivelockError(`The agents were busy without end while no time passed: ${who}.`, { agents })
  return new StallError(`The run has not ended, and nothing is due any more: ${who}.`, { agents })
}

/** What `check` has against the outcome, if anything. */
async function refusedBy(
  check: RehearsalPlan['check'],
  result: MultiAgentResult<undefined>,
): Promise<DramatisError | undefined> {
  try {
    await check?.(outcomeOf(result))
    return undefined
  } catch (error) {
    return new AgentFailedError(`check refused the outcome: ${describe(error)}`, {}, error)
  }
}

function outcomeOf({ messageHistory, finalOutput }: MultiAgentResult<undefined>): Outcome {
  const answer = messageHistory.findLast(
    ({ type, sender, recipient }) => type === 'response' && sender === ORCHESTRATOR && recipient === USER,
  )
  if (answer) return { agent: ORCHESTRATOR, ok: true, message: answer }
  const text = `The answer is no longer in the log: ${finalOutput ?? 'there was none'}`
  return { agent: ORCHESTRATOR, ok: false, error: new AgentFailedError(text, {}) }
}

/** Agents that ignore their signal need the grace to pass. */
async function close(team: TeamRuntime, { clock }: Stage): Promise<void> {
  let open = true
  const done = () => {
    open = false
  }
  const closed = team.close()
  closed.then(done, done)
  for (let ms = 0; open; ms = CLOSE_STEP_MS) await clock.advance(ms)
  await closed
}
