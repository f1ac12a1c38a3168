/** What crashed in a run and what became of it: a fold over its trace. Nothing here knows what should have happened. */
import type { DeadLetter, OrchestrationTrace } from 'dramatis'
import { z } from 'zod'

export interface Recovery {
  crashes: Crash[]
  /** Messages to agents that somebody waited for, and of those the ones that no turn finished. */
  requests: number
  unfinished: string[]
  deadLetters: number
}

export interface Crash {
  agent: string
  /** Of the message whose turn was cut off; null if the thread had none. */
  messageId: string | null
  attempt: number | null
  /** From the crash until a new thread was ready, and until the turn began again. */
  readyAfterMs: number | null
  warm: boolean | null
  resumedAfterMs: number | null
  /** The attempt that finished the turn. */
  finishedInAttempt: number | null
  /** The steps that had finished when the thread ended. */
  steps: Step[]
}

/** A step that had finished, and what became of it when its turn began again. */
export interface Step {
  name: string
  replayed: boolean
  ranAgain: boolean
}

type TraceEvent = OrchestrationTrace['events'][number]

const DetailsSchema = z.object({
  messageId: z.string().optional(),
  attempt: z.number().optional(),
  step: z.string().optional(),
  warm: z.boolean().optional(),
})
type Details = z.infer<typeof DetailsSchema>

/** The order of the events counts, not their times: many fall into one millisecond. */
export function recoveryOf(trace: OrchestrationTrace, deadLetters: readonly DeadLetter[]): Recovery {
  const { events } = trace
  const crashes = events.flatMap((event, index) => {
    if (event.eventType !== 'agent.crashed' || event.agent === null) return []
    return [crashAt(event.agent, event.timestamp, events.slice(0, index), events.slice(index + 1))]
  })
  const requests = trace.messageFlow.filter(
    ({ to, type }) => !to.startsWith('$') && (type === 'request' || type === 'delegate'),
  )
  const finished = new Set(events.filter(isFinish).map((event) => details(event).messageId))
  return {
    crashes,
    requests: requests.length,
    unfinished: requests.map(({ messageId }) => messageId).filter((id) => !finished.has(id)),
    deadLetters: deadLetters.length,
  }
}

/** A turn that a process had begun before it was killed, as it began again. */
export interface Resumption {
  agent: string
  attempt: number
  steps: Step[]
}

/** What became of the turns that were open when the process ended. `at`: epoch ms at which another one went on. */
export function resumptionsOf({ events }: OrchestrationTrace, at: number): Resumption[] {
  const first = new Map<string, Resumption>()
  const before = events.filter(({ timestamp }) => timestamp < at)
  const after = events.filter(({ timestamp }) => timestamp >= at)
  for (const event of after) {
    const { agent, eventType } = event
    const { messageId, attempt } = details(event)
    if (eventType !== 'turn.started' || agent === null || agent.startsWith('$')) continue
    if (messageId === undefined || attempt === undefined || first.has(messageId)) continue
    first.set(messageId, { agent, attempt, steps: stepsOf(messageId, before, after) })
  }
  return [...first.values()].filter(({ attempt }) => attempt > 1) // what is begun here for the first time has 1
}

function crashAt(agent: string, at: number, allBefore: TraceEvent[], allAfter: TraceEvent[]): Crash {
  const before = allBefore.filter((event) => event.agent === agent)
  const after = allAfter.filter((event) => event.agent === agent)
  const started = before.findLast((event) => event.eventType === 'turn.started')
  const open = started !== undefined && !before.slice(before.indexOf(started)).some(isFinish) ? details(started) : null
  const ofTurn = (event: TraceEvent) => open !== null && details(event).messageId === open.messageId

  const ready = after.find((event) => event.eventType === 'agent.ready')
  const resumed = after.find((event) => event.eventType === 'turn.started' && ofTurn(event))
  const finished = after.find((event) => isFinish(event) && ofTurn(event))
  return {
    agent,
    messageId: open?.messageId ?? null,
    attempt: open?.attempt ?? null,
    readyAfterMs: ready === undefined ? null : ready.timestamp - at,
    warm: ready === undefined ? null : (details(ready).warm ?? null),
    resumedAfterMs: resumed === undefined ? null : resumed.timestamp - at,
    finishedInAttempt: finished === undefined ? null : (details(finished).attempt ?? null),
    steps: open?.messageId === undefined ? [] : stepsOf(open.messageId, before, after),
  }
}

/** The steps of a turn that had finished before something happened, and what became of them after it. */
function stepsOf(messageId: string, before: TraceEvent[], after: TraceEvent[]): Step[] {
  const named = (events: TraceEvent[], type: string) =>
    events
      .filter((event) => event.eventType === type && details(event).messageId === messageId)
      .map((event) => details(event).step ?? 'without a name')
  const replayed = named(after, 'step.replayed')
  const beganAgain = named(after, 'step.began')
  return named(before, 'step.finished').map((name) => ({
    name,
    replayed: replayed.includes(name),
    ranAgain: beganAgain.includes(name),
  }))
}

function isFinish(event: TraceEvent): boolean {
  return event.eventType === 'turn.finished'
}

function details(event: TraceEvent): Details {
  return DetailsSchema.safeParse(event.details).data ?? {}
}
