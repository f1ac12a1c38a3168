/** Asks several agents and continues as soon as enough have answered. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../../actors/definition/context/context.ts'
import type { NoteWaiting } from '../../actors/definition/kept-limits.ts'
import { AgentFailedError, CancelledError, DramatisError, describe } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

interface EnoughOptions extends Pick<RequestOptions, 'timeoutMs' | 'wallClock' | 'metadata'> {
  /** Number of agents that are asked at a time. */
  concurrency: number
  /** Told how many agents wait to be asked, whenever that changes. */
  note: NoteWaiting | undefined
}

/**
 * Returns the outcomes so far when `count` agents have answered, in the order of `agents`; the other requests are
 * cancelled. It ends early with fewer answers as soon as too many agents have failed to reach `count`.
 */
export async function askEnough(
  orchestrator: Pick<OrchestratorContext, 'request'>,
  agents: readonly string[],
  count: number,
  content: string,
  { concurrency, note, ...options }: EnoughOptions,
): Promise<Outcome[]> {
  if (agents.length < count) return []
  const outcomes = new Map<string, Outcome>()
  const waiting = [...agents]
  const lanes = Math.min(concurrency, agents.length)
  const rest = new AbortController()

  await new Promise<void>((resolve) => {
    const done = (reason: string) => {
      note?.(0)
      rest.abort(new CancelledError(reason))
      resolve() // at once: the run does not wait for the cancelled requests
    }
    const askNext = async (): Promise<void> => {
      const agent = waiting.shift()
      if (agent === undefined || rest.signal.aborted) return
      if (agents.length - waiting.length >= lanes) note?.(waiting.length)
      const outcome = await outcomeOf(agent, () =>
        orchestrator.request(agent, content, { ...options, signal: rest.signal }),
      )
      if (rest.signal.aborted) return
      outcomes.set(agent, outcome)
      const answered = [...outcomes.values()].filter(({ ok }) => ok).length
      if (answered === count) return done('Enough agents have answered.')
      if (outcomes.size - answered > agents.length - count) return done('Too many agents have failed.')
      await askNext()
    }
    for (let lane = 0; lane < lanes; lane++) void askNext()
  })

  return agents.flatMap((agent) => outcomes.get(agent) ?? [])
}

/**
 * Returns the failure itself if there is one, otherwise an error that lists all failures by agent. `asked` is the
 * number of agents.
 */
export function tooFewAnswers(outcomes: readonly Outcome[], needed: number, asked: number): DramatisError {
  const failures = outcomes.flatMap((outcome) => (outcome.ok ? [] : [{ agent: outcome.agent, error: outcome.error }]))
  const [first] = failures
  if (first && failures.length === 1) return first.error
  const answered = outcomes.length - failures.length
  const list = failures.map(({ agent, error }) => ` "${agent}": ${error.code}: ${error.message}`)
  const message = `${needed} of ${asked} agents had to answer, ${answered} did.${list.join(';')}`
  const details = {
    asked,
    needed,
    answered,
    failures: failures.map(({ agent, error }) => ({ agent, ...error.toJSON() })),
  }
  return new AgentFailedError(message, details, first?.error)
}

/** Returns the outcome of one request. */
export async function outcomeOf(agent: string, ask: () => Promise<AgentMessage>): Promise<Outcome> {
  try {
    return { agent, ok: true, message: await ask() }
  } catch (error) {
    if (error instanceof DramatisError) return { agent, ok: false, error }
    return { agent, ok: false, error: new AgentFailedError(`"${agent}" failed: ${describe(error)}`, { agent }, error) }
  }
}
