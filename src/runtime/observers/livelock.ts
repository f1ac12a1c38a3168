/**
 * Watches one run for the livelock detector: what is new in it, and what repeats. It is a fold over the run's frames
 * and records, and shows each to the checks of signs.ts.
 *
 * Progress (rule 28) is content that the run has not had before: a message, a result, the output of a step or a tool,
 * an entry of the blackboard, another status of a task. A result counts together with its question, so "ok" for the
 * next item is new. The same question with the same answer is not, nor is a task that is given again and goes the same
 * way. Progress anywhere in a run resets all counts: such a run is not livelocked. Repetition does not count while
 * another agent waits for a model, a tool or a person.
 *
 * Calls of a model within a turn are watched in that turn (actors/model/tool-calls.ts), and not again here.
 */

import type { AgentTask } from '../../actors/definition/task.ts'
import { errorOf, isFailure, isHead } from '../../mailbox/codec.ts'
import {
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  HAS_THREAD,
  idOf,
  isPolling,
  kindOf,
  LOG_ONLY,
  MANY,
  type Memory,
  NOBODY,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  SEND,
  STEP_DONE,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import type { ErrorCode } from '../../shared/errors.ts'
import { hashOf } from '../../shared/random.ts'
import { NO_TURN } from '../host/agent.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import { BoundedMap } from '../log/run-log.ts'
import type { LivelockBounds } from '../settings/agent-settings.ts'
import { isDone } from '../verbs/task-board.ts'
import {
  type Attempt,
  type Conversation,
  continued,
  exchanges,
  isDelegatedBack,
  type Moment,
  mostErrors,
  mostExchanges,
  NO_ROUNDS,
  type Repetition,
  type Rounds,
  repeated,
  roundsAnew,
  type Sign,
  type ToolDone,
  ToolNews,
  taskClosed,
  taskOpened,
  Works,
} from './livelock-signs.ts'

export class Causes {
  /** Returns the id of the message that a turn handles. */
  readonly #messageOf: (agent: number, turn: number) => string | undefined
  /**
   * Conversations that led to a message not handled yet, by id and recipient; and to an open turn, by agent and number.
   */
  readonly #messages: BoundedMap<string, Conversation | undefined>
  readonly #turns: BoundedMap<string, Conversation>
  /** Conversations that led to the request that the host is about to make in the name of an agent, by agent. */
  readonly #handoffs = new Map<number, Conversation | undefined>()

  /** `most`: limit on entries, because nothing removes messages that are never handled. */
  constructor(messageOf: (agent: number, turn: number) => string | undefined, most: number) {
    this.#messageOf = messageOf
    this.#messages = new BoundedMap(most)
    this.#turns = new BoundedMap(most)
  }

  /** Registers a handoff of that turn: the next request is made by the host, in the name of the agent. */
  handsOff(agent: number, turn: number): void {
    this.#handoffs.set(agent, this.ofTurn(agent, turn))
  }

  /**
   * Returns the conversation that led to a message: that of the sender's turn, or for a copy that of the broadcast
   * itself.
   */
  of(memory: Memory, at: number): Conversation | undefined {
    const turn = turnOf(memory, at)
    const sender = senderOf(memory, at)
    if (turn === NO_TURN) {
      const before = this.#handoffs.get(sender)
      this.#handoffs.delete(sender)
      return before
    }
    if (turn !== 0) return this.ofTurn(sender, turn)
    return flagsOf(memory, at) & MANY ? this.#messages.get(messageKey(idOf(memory, at), NOBODY)) : undefined
  }

  ofTurn(agent: number, turn: number): Conversation | undefined {
    const key = turnKey(agent, turn)
    const known = this.#turns.get(key)
    if (known) return known
    const id = this.#messageOf(agent, turn)
    const conversation = id === undefined ? undefined : this.#messages.get(messageKey(id, agent))
    if (conversation) this.#turns.set(key, conversation)
    return conversation
  }

  /** Remembers the conversation of a message that is on its way to that recipient. */
  keep(id: string, recipient: number, conversation: Conversation | undefined): void {
    this.#messages.set(messageKey(id, recipient), conversation)
  }

  goesOn(agent: number, turn: number, conversation: Conversation): void {
    this.#turns.set(turnKey(agent, turn), conversation)
  }

  over(agent: number, turn: number, id: string): void {
    this.#turns.delete(turnKey(agent, turn))
    this.#messages.delete(messageKey(id, agent))
  }
}

const messageKey = (id: string, recipient: number) => `${id} ${recipient}`
const turnKey = (agent: number, turn: number) => `${agent} ${turn}`

/** Request with its answer. `action`: hash of caller, callee and content. `error`: the code, if the request failed. */
export interface Answered {
  readonly from: string
  readonly to: string
  readonly action: string
  readonly attempt: Attempt
  readonly error: ErrorCode | undefined
  /** Id of the request's message. */
  readonly id: string
}

export class Repeats {
  readonly #bounds: LivelockBounds
  readonly #actions: BoundedMap<string, Repetition>
  /** Errors by caller and callee. */
  readonly #errors: BoundedMap<string, Repetition>

  constructor(bounds: LivelockBounds, most: number) {
    this.#bounds = bounds
    this.#actions = new BoundedMap(most)
    this.#errors = new BoundedMap(most)
  }

  begin(): void {
    this.#actions.clear()
    this.#errors.clear()
  }

  request({ from, to, action, attempt, error, id }: Answered): Sign | undefined {
    const agents = [from, to]
    const failures = error ? again(this.#errors, `${from} ${to}`, attempt) : 0
    if (failures >= mostErrors(this.#bounds)) {
      const evidence = `"${to}" failed ${failures} times in a row with the same error for "${from}": ${error} (the last: message ${id})`
      return { agents, evidence, cause: hashOf('errors', from, to), ofModels: false }
    }
    const times = again(this.#actions, action, attempt)
    if (times < this.#bounds.maxRepeats) return undefined
    const evidence = `"${from}" asked "${to}" the same ${times} times in a row, and each time got the same answer (the last: message ${id})`
    return { agents, evidence, cause: hashOf('repeats', action), ofModels: false }
  }

  tool(agent: string, { tool, action, outcome, failed, asked }: ToolDone, answered: Moment): Sign | undefined {
    const times = again(this.#actions, action, { asked, answered, outcome })
    if (times < this.#bounds.maxRepeats) return undefined
    const what = failed ? 'it failed with the same error' : 'got the same result'
    const evidence = `"${agent}" called "${tool}" with the same input ${times} times in a row, and each time ${what}`
    return { agents: [agent], evidence, cause: hashOf('repeats', action), ofModels: false }
  }
}

function again(counts: Map<string, Repetition>, key: string, attempt: Attempt): number {
  const repetition = repeated(counts.get(key), attempt)
  counts.set(key, repetition)
  return repetition.times
}

/*
 * Remembers content that a run has had, to recognize repetition: by a hash, at most 10,000 of a run. Beyond that the
 * oldest is forgotten and would count as new: a livelock found late is better than a false one.
 */

const MOST_SEEN = 10_000

export class News {
  readonly #seen = new BoundedMap<string, true>(MOST_SEEN)

  /** Returns true if this content is new. Remembers it. */
  isNew(...parts: readonly string[]): boolean {
    const hash = hashOf(...parts)
    if (this.#seen.has(hash)) return false
    this.#seen.set(hash, true)
    return true
  }
}

/** Owner of the watch: it knows what frames do not hold, and takes what is found. */
export interface Beholder {
  name(index: number): string
  isModel(index: number): boolean
  /** Finds the recipient, also if the frame has only its name; returns `NOBODY` for several recipients. */
  recipientOf(memory: Memory, at: number): number
  /** Returns the id of the message that a turn handles. */
  messageOf(agent: number, turn: number): string | undefined
  progress(): void
  found(sign: Sign): void
}

/** Request that has no answer yet. */
interface Asked {
  readonly id: string
  readonly turn: number
  /** Hash of the caller, the callee and the content. */
  readonly action: string
  readonly asked: Moment
  readonly polling: boolean
  readonly conversation: Conversation
}

/**
 * Limit on open entries, because nothing removes messages that are never handled and requests that are never answered.
 */
const MOST_OPEN = 10_000

/** Errors that only show that an agent is slow or has much to do. Slow is not stuck. */
const SLOW: ReadonlySet<ErrorCode> = new Set([
  'REQUEST_TIMEOUT',
  'TURN_TIMEOUT',
  'MESSAGE_EXPIRED',
  'MAILBOX_FULL',
  'CANCELLED',
  'RUN_ABORTED',
  'RUN_TIMEOUT',
])

export class LivelockWatch {
  readonly #bounds: LivelockBounds
  readonly #beholder: Beholder
  readonly #news = new News()
  readonly #tools = new ToolNews(MOST_OPEN)
  readonly #works = new Works(MOST_OPEN)
  readonly #asked = new BoundedMap<string, Asked>(MOST_OPEN)
  readonly #causes: Causes
  readonly #polls = new BoundedMap<string, true>(MOST_OPEN)
  readonly #repeats: Repeats
  #rounds: Rounds = NO_ROUNDS
  #stretch = 0

  constructor(bounds: LivelockBounds, beholder: Beholder) {
    this.#bounds = bounds
    this.#beholder = beholder
    this.#repeats = new Repeats(bounds, MOST_OPEN)
    this.#causes = new Causes((agent, turn) => beholder.messageOf(agent, turn), MOST_OPEN)
  }

  begin(): void {
    this.#stretch += 1
    this.#repeats.begin()
    this.#rounds = roundsAnew(this.#rounds)
  }

  /** Registers content that may be new. */
  saw(...parts: readonly string[]): void {
    if (!this.#news.isNew(...parts)) return
    this.begin()
    this.#beholder.progress()
  }

  task({ id, assignedTo, description, status }: AgentTask, isGiven: boolean): void {
    const agent = assignedTo ?? ''
    const polled = this.#polls.has(id)
    if (isGiven && !polled) this.#rounds = taskOpened(this.#rounds, agent)
    this.saw('task', agent, description, status)
    if (!isDone(status)) return
    if (polled) this.#polls.delete(id)
    else this.#closed(id)
  }

  #closed(id: string): void {
    this.#rounds = taskClosed(this.#rounds)
    const { stalled, agents } = this.#rounds
    if (stalled < this.#bounds.maxStalledRounds) return
    const evidence = `${stalled} rounds of the protocol in a row without progress; they asked ${listed(agents)} (the last task: ${id})`
    this.#found('rounds', agents, evidence, false)
  }

  /** `seq` is the place of the frame in the log. */
  frame(memory: Memory, at: number, seq: number): void {
    const done = this.#tools.of(memory, at, seq)
    this.#works.frame(memory, at)
    if (done) return this.#toolDone(done, { seq, at: timeOf(memory, at) })
    switch (kindOf(memory, at)) {
      case SEND:
        return this.#sent(memory, at)
      case REQUEST:
        return this.#request(memory, at, seq)
      case CANCEL:
        this.#asked.delete(`${senderOf(memory, at)} ${correlationOf(memory, at)}`)
        return
      case END:
        return this.#ended(memory, at, seq)
      case RESPONSE:
        return this.#answered(memory, at, seq, undefined)
      case STEP_DONE: {
        if (isFailure(memory, at) || (flagsOf(memory, at) & HAS_THREAD) !== 0) return
        const { content, data } = readBody(memory, at)
        return this.saw('step', `${senderOf(memory, at)}`, content, data ?? '')
      }
    }
  }

  /** Registers a handoff of that turn: the next request is made by the host, in the name of the agent. */
  handsOff(agent: number, turn: number): void {
    this.#causes.handsOff(agent, turn)
  }

  // ---- messages

  #sent(memory: Memory, at: number): void {
    if (senderOf(memory, at) === 0) return // the runtime's own message
    // The record of an entry of the blackboard tells whether it is new: its message has a time and a version.
    if (typeOf(memory, at) !== 'publish') this.saw('message', this.#said(memory, at))
    if (stepOf(memory, at) === LOG_ONLY) return // nobody gets it
    const before = this.#causes.of(memory, at)
    if (isHead(memory, at))
      this.#causes.keep(idOf(memory, at), NOBODY, before) // for its copies
    else this.#hear(memory, at, before)
  }

  #request(memory: Memory, at: number, seq: number): void {
    const id = idOf(memory, at)
    const from = senderOf(memory, at)
    const polling = isPolling(memory, at)
    const action = this.#said(memory, at)
    this.saw('message', action)
    const conversation = this.#hear(memory, at, this.#causes.of(memory, at))
    this.#asked.set(`${from} ${correlationOf(memory, at)}`, {
      id,
      turn: turnOf(memory, at),
      action,
      asked: { seq, at: timeOf(memory, at) },
      polling,
      conversation,
    })
    if (polling && from === ORCHESTRATOR_INDEX) this.#polls.set(id, true)
  }

  /**
   * Returns a hash of the sender, the recipient and the content. Of a task only its text counts: its other data differ
   * by where it comes from.
   */
  #said(memory: Memory, at: number): string {
    const { content, data = '' } = readBody(memory, at)
    const more = typeOf(memory, at) === 'delegate' ? '' : data
    return hashOf(`${senderOf(memory, at)}`, `${this.#beholder.recipientOf(memory, at)}`, content, more)
  }

  /**
   * Returns the conversation with that message. A poll starts a new one, so that many polls do not form a conversation.
   */
  #hear(memory: Memory, at: number, before: Conversation | undefined): Conversation {
    const id = idOf(memory, at)
    const conversation = continued(isPolling(memory, at) ? undefined : before, {
      stretch: this.#stretch,
      threadId: flagsOf(memory, at) & HAS_THREAD ? readBody(memory, at).threadId : undefined,
      from: senderOf(memory, at),
      to: this.#beholder.recipientOf(memory, at),
      delegates: this.#delegates(memory, at) ? hashOf(readBody(memory, at).content) : undefined,
      byCode: !this.#beholder.isModel(senderOf(memory, at)),
    })
    const isFound = this.#judge(conversation, id)
    // After a sign the counts start again, and so do the holders of the task.
    const kept = isFound ? { ...conversation, holders: [] } : conversation
    this.#causes.keep(id, conversation.to, kept)
    return kept
  }

  /** Models that hand off to each other are bounded by `maxHandoffs`: who has to answer then is told so. */
  #delegates(memory: Memory, at: number): boolean {
    if (typeOf(memory, at) !== 'delegate') return false
    const { isModel, recipientOf } = this.#beholder
    return turnOf(memory, at) !== NO_TURN || !isModel(senderOf(memory, at)) || !isModel(recipientOf(memory, at))
  }

  #judge(conversation: Conversation, id: string): boolean {
    const { messages, from, to, threadId, holders, byCode } = conversation
    const { isModel } = this.#beholder
    const [sender, recipient] = [this.#beholder.name(from), this.#beholder.name(to)]
    if (isDelegatedBack(conversation)) {
      const held = [...holders.map(({ agent }) => agent), to]
      const way = held.map((index) => `"${this.#beholder.name(index)}"`).join(' -> ')
      const evidence = `a task was delegated back to "${recipient}", who had it: ${way} (message ${id})`
      const agents = [...new Set([recipient, sender])]
      const cause = hashOf('back', holders.at(-1)?.task ?? '', ...[...agents].sort())
      // The statuses of the task that is given again are new, and say nothing.
      this.#beholder.found({ agents, evidence, cause, ofModels: held.every(isModel), lasts: true })
    } else if (this.#works.beside(from, to)) {
      return false
    } else if (exchanges(conversation) >= mostExchanges(this.#bounds)) {
      const times = exchanges(conversation)
      const evidence = `"${sender}" and "${recipient}" wrote to each other and back ${times} times without progress (the last: message ${id})`
      this.#found('exchanges', [sender, recipient], evidence, isModel(from) && isModel(to))
    } else if (messages >= this.#bounds.maxMessagesWithoutProgress) {
      const names = conversation.parties.map((index) => this.#beholder.name(index))
      const where = threadId === undefined ? '' : ` in thread ${JSON.stringify(threadId)}`
      const evidence = `${messages} messages${where} without progress, each because of the one before, between ${listed(names)} (the last: message ${id})`
      this.#found('messages', names, evidence, !byCode)
    } else return false
    return true
  }

  // ---- answers

  #ended(memory: Memory, at: number, seq: number): void {
    const agent = senderOf(memory, at)
    const isOver = correlationOf(memory, at) !== 0 || !isFailure(memory, at) // else it may be redelivered
    if (correlationOf(memory, at) !== 0) this.#answered(memory, at, seq, this.#causes.ofTurn(agent, turnOf(memory, at)))
    if (isOver) this.#causes.over(agent, turnOf(memory, at), idOf(memory, at))
  }

  /** `led`: the conversation that led to the answer, if that is more than the question. */
  #answered(memory: Memory, at: number, seq: number, led: Conversation | undefined): void {
    const [callee, caller] = [senderOf(memory, at), recipientOf(memory, at)]
    const key = `${caller} ${correlationOf(memory, at)}`
    const asked = this.#asked.get(key)
    if (!asked) return
    this.#asked.delete(key)
    const error = isFailure(memory, at) ? errorOf(memory, at) : undefined
    if (error && SLOW.has(error.code)) return
    let outcome: string
    if (error) outcome = hashOf(error.code, error.message, sourceOf(error.cause))
    else {
      const { content, data } = readBody(memory, at)
      outcome = hashOf(content, data ?? '')
      this.saw('result', asked.action, outcome)
    }
    if (asked.polling) return
    const isCounted = !this.#beholder.isModel(caller) && !this.#works.beside(caller, callee)
    const { id, action } = asked
    const attempt = { asked: asked.asked, answered: { seq, at: timeOf(memory, at) }, outcome }
    const [from, to] = [this.#beholder.name(caller), this.#beholder.name(callee)]
    const sign = isCounted ? this.#repeats.request({ from, to, action, attempt, error: error?.code, id }) : undefined
    if (sign) this.#beholder.found(sign)
    else this.#goOn(caller, callee, asked, led ?? asked.conversation)
  }

  #toolDone(done: ToolDone, answered: Moment): void {
    const { agent, action, outcome, failed, polling } = done
    if (!failed) this.saw(action, outcome)
    if (polling || this.#beholder.isModel(agent) || this.#works.beside(agent, agent)) return
    const sign = this.#repeats.tool(this.#beholder.name(agent), done, answered)
    if (sign) this.#beholder.found(sign)
  }

  /** Continues the caller's turn with the answer; of several answers, with the longest conversation. */
  #goOn(caller: number, callee: number, { turn, id }: Asked, led: Conversation): void {
    const byCode = !this.#beholder.isModel(callee)
    const message = {
      stretch: this.#stretch,
      threadId: undefined,
      from: callee,
      to: caller,
      delegates: undefined,
      byCode,
    }
    const answer = continued(led, message)
    const own = this.#causes.ofTurn(caller, turn)
    const isLonger = own?.stretch !== answer.stretch || answer.messages > own.messages
    if (isLonger) this.#causes.goesOn(caller, turn, { ...answer, holders: own?.holders ?? [] })
    this.#judge(answer, id)
  }

  #found(kind: string, all: readonly string[], evidence: string, ofModels: boolean): void {
    const agents = [...new Set(all)]
    this.#beholder.found({ agents, evidence, cause: hashOf(kind, ...[...agents].sort()), ofModels })
  }
}

const listed = (names: readonly string[]) => [...new Set(names)].map((name) => `"${name}"`).join(', ')

/**
 * Returns the place in the user's source where an error was thrown. It distinguishes two errors with the same message.
 */
const sourceOf = (cause: unknown): string => (cause instanceof Error && cause.stack?.split('\n')[1]) || ''
