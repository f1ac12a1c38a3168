/**
 * Signs that agents are busy without progress, as pure functions: rule 29. Each takes the known state and an event, and
 * returns the new state; nothing grows with the length of a run. progress.ts decides which events of a run they get.
 *
 * Sources: Magentic-One's stall counter (rounds), OpenHands' stuck detector (the same action with the same result, the
 * same error, A-B-A-B).
 */

import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  CANCEL,
  correlationOf,
  flagsOf,
  HAS_THREAD,
  isPolling,
  kindOf,
  type Memory,
  RESULT,
  readBody,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { hashOf } from '../../shared/random.ts'
import { BoundedMap } from '../log/run-log.ts'
import type { LivelockBounds } from '../settings/agent-settings.ts'

const WORKS: ReadonlySet<string> = new Set(['model', 'tool', 'ask', 'approve'])

export class Works {
  /** Agents with a call that has no answer yet, by agent and correlation. */
  readonly #open: BoundedMap<string, number>

  constructor(mostOpen: number) {
    this.#open = new BoundedMap(mostOpen)
  }

  frame(memory: Memory, at: number): void {
    switch (kindOf(memory, at)) {
      case CALL:
        if (WORKS.has(readBody(memory, at).content))
          this.#open.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, senderOf(memory, at))
        return
      case RESULT:
        this.#open.delete(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`)
        return
      case CANCEL:
        this.#open.delete(`${senderOf(memory, at)} ${correlationOf(memory, at)}`)
    }
  }

  beside(one: number, other: number): boolean {
    for (const agent of this.#open.values()) if (agent !== one && agent !== other) return true
    return false
  }
}

/** Limit for repeated errors: 18 if `maxRepeats` is 24. The same error is a stronger sign than the same answer. */
export const mostErrors = ({ maxRepeats }: LivelockBounds): number => Math.ceil(maxRepeats * 0.75)
/** Limit for exchanges between two agents: 36 if `maxRepeats` is 24. */
export const mostExchanges = ({ maxRepeats }: LivelockBounds): number => Math.ceil(maxRepeats * 1.5)

/** Sign of agents that are busy without progress. It holds names, counts and ids, never the content of messages. */
export interface Sign {
  readonly agents: readonly string[]
  readonly evidence: string
  /** The same for signs of the same agents that do the same again: they are counted together. */
  readonly cause: string
  /** True if models alone take part, and no code decides what is said next. */
  readonly ofModels: boolean
  /** True if progress elsewhere does not take it back. */
  readonly lasts?: boolean
}

// ---- repetition

/** Place in the log, and the time in ms. */
export interface Moment {
  readonly seq: number
  readonly at: number
}

/** Action with its outcome. */
export interface Attempt {
  readonly asked: Moment
  readonly answered: Moment
  /** Hash of the answer or of the error. */
  readonly outcome: string
}

export interface Repetition {
  readonly outcome: string
  readonly times: number
  readonly answered: Moment
  /** Longest pause between two attempts, in ms. */
  readonly pause: number
}

/** Factor between a pause and the longest one before that counts as back-off. */
const BACK_OFF = 1.5

/**
 * Counts an attempt as a repetition if it began after the outcome of the one before. An agent that asks the same ten
 * times at once wants ten opinions, and does not know yet that they agree. An attempt after a longer pause than all
 * before, as retries with back-off have, is not counted either.
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
 * Messages that were each sent because of the one before. A thousand messages to a thousand agents are not a
 * conversation, and neither are two lines of work that pass the same agents.
 */
export interface Conversation {
  /** Number of the stretch between two moments of progress. A later stretch starts a new conversation. */
  readonly stretch: number
  /** Thread id of its messages; undefined: the run is the thread. */
  readonly threadId: string | undefined
  readonly messages: number
  /** Agents that took part, each once. */
  readonly parties: readonly number[]
  /** Sender and recipient of the last message. */
  readonly from: number
  readonly to: number
  /** Number of last messages that went back and forth between these two. */
  readonly alternating: number
  /** Agents that had the task that the last message delegates, in order, each with a hash of what it passed on. */
  readonly holders: readonly Holder[]
  /** True if code has sent one of the messages. Who sent the first one only began it, and may wait for its end. */
  readonly byCode: boolean
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
  /** Hash of the task that the message delegates. */
  readonly delegates: string | undefined
  /** True if code has sent the message. */
  readonly byCode: boolean
}

/**
 * Returns the conversation with one more message. Another thread, or progress, starts a new one; a task keeps its
 * holders.
 */
export function continued(before: Conversation | undefined, message: NextMessage): Conversation {
  const { stretch, from, to, delegates, byCode } = message
  const threadId = message.threadId ?? before?.threadId
  const holders = delegates === undefined ? [] : [...(before?.holders ?? []), { agent: from, task: delegates }]
  const goesOn = before !== undefined && before.stretch === stretch && before.threadId === threadId
  if (!goesOn)
    return { stretch, threadId, messages: 1, parties: [from, to], from, to, alternating: 1, holders, byCode: false }
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
    byCode: before.byCode || byCode,
  }
}

/** Returns the number of exchanges between the two: a message and one back. */
export const exchanges = ({ alternating }: Conversation): number => alternating >> 1

/**
 * Number of times that a task may return to an agent that had it, with other words each time: a draft with review
 * notes.
 */
const MOST_RETURNS = 2

/** Checks whether a task goes back to an agent that had it: in the same words, or more often than a draft does. */
export function isDelegatedBack({ holders, to }: Conversation): boolean {
  const before = holders.filter(({ agent }) => agent === to)
  const task = holders.at(-1)?.task
  return before.length > MOST_RETURNS || before.some((holder) => holder.task === task)
}

// ---- rounds

/**
 * Rounds of a protocol script. It does not announce them, so a round is a time in which it waits: from its first task
 * while none is open until none is open again. A protocol that asks one agent after the other has a round for each.
 */
export interface Rounds {
  readonly open: number
  /** True if there was progress in the present round. */
  readonly moved: boolean
  readonly stalled: number
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

/** Starts the counts again after progress, or for another reason. The present round then does not count as stalled. */
export const roundsAnew = ({ open }: Rounds): Rounds => ({ open, moved: true, stalled: 0, agents: [] })

/** Call that has ended. Its question and its answer are hashes; that of the question includes the agent. */
export interface ToolDone {
  readonly agent: number
  readonly tool: string
  readonly action: string
  readonly outcome: string
  readonly failed: boolean
  readonly polling: boolean
  readonly asked: Moment
}

type Asked = Omit<ToolDone, 'outcome' | 'failed'>

export class ToolNews {
  /** Calls that have no answer yet, by the correlation or the step of each. */
  readonly #asked: BoundedMap<string, Asked>

  constructor(mostOpen: number) {
    this.#asked = new BoundedMap(mostOpen)
  }

  /** Returns the call that a frame ends; undefined for other frames. `seq` is the place of the frame in the log. */
  of(memory: Memory, at: number, seq: number): ToolDone | undefined {
    switch (kindOf(memory, at)) {
      case CALL: {
        const { content, data } = readBody(memory, at)
        const call: { name?: unknown; input?: unknown; polling?: unknown } = Object(
          content === 'tool' ? jsonIn(data) : undefined,
        )
        if (typeof call.name !== 'string') return undefined
        const key = callKey(senderOf(memory, at), memory, at)
        this.#ask(key, call.name, JSON.stringify(call.input) ?? '', call.polling === true, memory, at, seq)
        return undefined
      }
      case RESULT:
        return this.#answered(callKey(recipientOf(memory, at), memory, at), memory, at)
      case STEP_BEGAN: {
        if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
        const { content, data = '' } = readBody(memory, at)
        this.#ask(stepKey(memory, at), content, data, isPolling(memory, at), memory, at, seq)
        return undefined
      }
      case STEP_DONE:
        return (flagsOf(memory, at) & HAS_THREAD) === 0 ? undefined : this.#answered(stepKey(memory, at), memory, at)
      default:
        return undefined
    }
  }

  #ask(key: string, tool: string, input: string, polling: boolean, memory: Memory, at: number, seq: number): void {
    const agent = senderOf(memory, at)
    const action = hashOf('tool', `${agent}`, tool, input)
    this.#asked.set(key, { agent, tool, action, polling, asked: { seq, at: timeOf(memory, at) } })
  }

  #answered(key: string, memory: Memory, at: number): ToolDone | undefined {
    const asked = this.#asked.get(key)
    this.#asked.delete(key)
    if (!asked) return undefined
    if (!isFailure(memory, at)) return { ...asked, failed: false, outcome: hashOf(readBody(memory, at).data ?? '') }
    const { code, message } = errorOf(memory, at)
    return { ...asked, failed: true, outcome: hashOf(code, message) }
  }
}

const callKey = (agent: number, memory: Memory, at: number) => `${agent} ${correlationOf(memory, at)}`
const stepKey = (memory: Memory, at: number) =>
  `${senderOf(memory, at)} ${turnOf(memory, at)} step ${stepOf(memory, at)}`
