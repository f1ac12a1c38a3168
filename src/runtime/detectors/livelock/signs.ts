/**
 * The signs that agents are busy without progress, as pure functions: rule 29. Each takes what was known and what has
 * happened, and returns what is known now; nothing grows with the length of a run. What of a run is shown to them is in
 * progress.ts.
 *
 * Sources: Magentic-One's stall counter (rounds), OpenHands' stuck detector (the same action with the same result, the
 * same error, A-B-A-B).
 */
import type { LivelockBounds } from '../../settings/livelock.ts'

/** The same error says more than the same answer: 18 where that is 24. */
export const mostErrors = ({ maxRepeats }: LivelockBounds): number => Math.ceil(maxRepeats * 0.75)
/** How often two may write to each other and back: 36 where the same action is 24. */
export const mostExchanges = ({ maxRepeats }: LivelockBounds): number => Math.ceil(maxRepeats * 1.5)

/** Something that agents do that are busy without progress. Never what they say: names, counts and ids alone. */
export interface Sign {
  readonly agents: readonly string[]
  readonly evidence: string
}

// ---- the same again

/** A place in the log, and the time, in ms. */
export interface Moment {
  readonly seq: number
  readonly at: number
}

/** What came of one action. */
export interface Attempt {
  readonly asked: Moment
  readonly answered: Moment
  /** The answer, or the error, in short. */
  readonly outcome: string
}

/** How often in a row the outcome was the same. */
export interface Repetition {
  readonly outcome: string
  readonly times: number
  readonly answered: Moment
  /** The longest pause between two of them, in ms. */
  readonly pause: number
}

/** Who waits so many times longer than before means to wait. */
const BACK_OFF = 1.5

/**
 * An attempt repeats another one if it began after that had its outcome: who asks the same ten times at once wants ten
 * opinions, and does not yet know that they agree. One that comes after a longer pause than all before, as retries with
 * back-off do, is none either.
 */
export function repeated(before: Repetition | undefined, { asked, answered, outcome }: Attempt): Repetition {
  if (before?.outcome !== outcome) return { outcome, times: 1, answered, pause: 0 }
  if (asked.seq < before.answered.seq) return before
  const pause = Math.max(0, asked.at - before.answered.at)
  const backsOff = before.pause > 0 && pause >= BACK_OFF * before.pause
  return {
    outcome,
    times: before.times + (backsOff ? 0 : 1),
    answered,
    pause: Math.max(pause, before.pause),
  }
}

// ---- conversations

/**
 * Messages of which each was sent because of the one before. A thousand messages to a thousand agents are no conversation,
 * and neither are two lines of work that pass the same agents.
 */
export interface Conversation {
  /** Between which two moments of progress it counts: later it begins anew. */
  readonly stretch: number
  /** As its messages have it, or undefined: the run is the thread. */
  readonly threadId: string | undefined
  readonly messages: number
  /** Who took part, each once. */
  readonly parties: readonly number[]
  /** Of the last message. */
  readonly from: number
  readonly to: number
  /** How many of the last messages went to and fro between these two. */
  readonly alternating: number
  /** Who had the task that the last message delegates, in order, and what they gave on, in short. */
  readonly holders: readonly Holder[]
}

export interface Holder {
  readonly agent: number
  readonly task: string
}

export interface NextMessage {
  readonly stretch: number
  readonly threadId: string | undefined
  readonly from: number
  readonly to: number
  /** The task that it delegates, in short. */
  readonly delegates: string | undefined
}

/** The conversation with one more message. Another thread, or progress, begins a new one; a task keeps its holders. */
export function continued(before: Conversation | undefined, message: NextMessage): Conversation {
  const { stretch, from, to, delegates } = message
  const threadId = message.threadId ?? before?.threadId
  const holders = delegates === undefined ? [] : [...(before?.holders ?? []), { agent: from, task: delegates }]
  const goesOn = before !== undefined && before.stretch === stretch && before.threadId === threadId
  if (!goesOn) return { stretch, threadId, messages: 1, parties: [from, to], from, to, alternating: 1, holders }
  const answers = before.from === to && before.to === from
  return {
    stretch,
    threadId,
    messages: before.messages + 1,
    parties: before.parties.includes(to) ? before.parties : [...before.parties, to],
    from,
    to,
    alternating: answers ? before.alternating + 1 : 1,
    holders,
  }
}

/** How often the two have written to each other and back. */
export const exchanges = ({ alternating }: Conversation): number => alternating >> 1

/** So often a task may come back to one that had it, with other words each time: a draft that somebody has notes on. */
const MOST_RETURNS = 2

/** The task goes back to one that had it: in the same words, or more often than a draft does. */
export function isDelegatedBack({ holders, to }: Conversation): boolean {
  const before = holders.filter(({ agent }) => agent === to)
  const task = holders.at(-1)?.task
  return before.length > MOST_RETURNS || before.some((holder) => holder.task === task)
}

// ---- rounds

/**
 * Rounds of a protocol script. It announces none, so a round is a time in which it waits for somebody: from its first task
 * while none is open until none is open again. A protocol that asks one agent after the other has a round for each.
 */
export interface Rounds {
  readonly open: number
  /** There was progress in the present one. */
  readonly moved: boolean
  /** How many in a row have ended without. */
  readonly stalled: number
  /** Whom these had asked. */
  readonly agents: readonly string[]
}

export const NO_ROUNDS: Rounds = { open: 0, moved: false, stalled: 0, agents: [] }

export function taskOpened(rounds: Rounds, agent: string): Rounds {
  const agents = rounds.agents.includes(agent) ? rounds.agents : [...rounds.agents, agent]
  return { ...rounds, agents, open: rounds.open + 1, moved: rounds.open > 0 && rounds.moved }
}

export const taskClosed = (rounds: Rounds): Rounds => ({
  ...rounds,
  open: rounds.open - 1,
  stalled: rounds.stalled + (rounds.open === 1 && !rounds.moved ? 1 : 0),
})

/** There was progress, or the count begins anew for another reason: the present round is none of those that stall. */
export const roundsAnew = ({ open }: Rounds): Rounds => ({ open, moved: true, stalled: 0, agents: [] })

// ---- what is done about it
