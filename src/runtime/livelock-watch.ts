/**
 * One run, as the livelock detector sees it: what is new in it, and what comes again. A fold over the run's frames and records
 * that shows each to the signs of livelock.ts.
 *
 * Progress (rule 28) is what was not there before in this run: a result, the output of a step or a tool, an entry of the blackboard,
 * another status of a task. Whether it was there goes by content. A result counts with its question, so that "ok" for the
 * next item is news; the same question again with the same answer is none, nor is a task that is given again and goes the
 * same way. A run that makes progress somewhere is not livelocked: it resets all counts.
 */
import type { AgentTask } from '../actors/task.ts'
import type { ErrorCode } from '../errors.ts'
import { errorOf, isFailure, isHead } from '../mailbox/codec.ts'
import {
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  HAS_THREAD,
  isPolling,
  kindOf,
  NOBODY,
  REQUEST,
  RESPONSE,
  recipientOf,
  SEND,
  STEP_DONE,
  senderOf,
  turnOf,
  typeOf,
} from '../mailbox/frame.ts'
import { readBody } from '../mailbox/frame-body.ts'
import { idOf } from '../mailbox/frame-id.ts'
import type { Memory } from '../mailbox/memory.ts'
import { BoundedMap } from './bounded-map.ts'
import { Causes } from './causes.ts'
import { ORCHESTRATOR_INDEX } from './core.ts'
import {
  type Conversation,
  continued,
  exchanges,
  isDelegatedBack,
  type LivelockBounds,
  mostErrors,
  mostExchanges,
  NO_ROUNDS,
  type Repetition,
  type Rounds,
  repeated,
  roundsAnew,
  taskClosed,
  taskOpened,
} from './livelock.ts'
import { hashOf, News } from './news.ts'
import { isDone } from './parts/tasks.ts'
import { ToolNews } from './tools/tool-news.ts'

/** Something that agents do that are busy without progress. Never what they say: names, counts and ids alone. */
export interface Sign {
  readonly agents: readonly string[]
  readonly evidence: string
}

/** Who looks at the run: what a frame has no room for, and who takes what is found. */
export interface Beholder {
  name(index: number): string
  /** Also where the frame has its name alone; `NOBODY` where it is for several. */
  recipientOf(memory: Memory, at: number): number
  /** The id of the message that a turn handles. */
  messageOf(agent: number, turn: number): string | undefined
  progress(): void
  found(sign: Sign): void
}

/** A request that has no answer yet. */
interface Asked {
  readonly id: string
  readonly turn: number
  /** Who asks whom for what, in short. */
  readonly action: string
  readonly seq: number
  readonly polling: boolean
  readonly conversation: Conversation
}

/** Of messages that are never handled, and requests that are never answered, nobody tells the watch. */
const MOST_OPEN = 10_000

/** That nobody answered in time says that somebody is slow, or has much to do. Slow is not stuck. */
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
  /** By caller and correlation. */
  readonly #asked = new BoundedMap<string, Asked>(MOST_OPEN)
  readonly #causes: Causes
  /** Tasks that are polls. */
  readonly #polls = new BoundedMap<string, true>(MOST_OPEN)
  /** From the last progress on: by action, and by caller and callee. */
  readonly #actions = new BoundedMap<string, Repetition>(MOST_OPEN)
  readonly #errors = new BoundedMap<string, Repetition>(MOST_OPEN)
  #rounds: Rounds = NO_ROUNDS
  #stretch = 0

  constructor(bounds: LivelockBounds, beholder: Beholder) {
    this.#bounds = bounds
    this.#beholder = beholder
    this.#causes = new Causes((agent, turn) => beholder.messageOf(agent, turn), MOST_OPEN)
  }

  /** From now on everything is counted anew. */
  begin(): void {
    this.#stretch += 1
    this.#actions.clear()
    this.#errors.clear()
    this.#rounds = roundsAnew(this.#rounds)
  }

  /** Something was there that may be new. */
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
    this.#found(agents, evidence)
  }

  /** `seq` is the place of the frame in the log. */
  frame(memory: Memory, at: number, seq: number): void {
    const news = this.#tools.of(memory, at)
    if (news) return this.saw(...news)
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

  /** The turn of that agent hands its duty off: the request that comes next is the host's, in its name. */
  handsOff(agent: number, turn: number): void {
    this.#causes.handsOff(agent, turn)
  }

  // ---- messages

  #sent(memory: Memory, at: number): void {
    if (senderOf(memory, at) === 0) return // of the runtime's own
    const before = this.#causes.of(memory, at)
    if (isHead(memory, at))
      this.#causes.keep(idOf(memory, at), NOBODY, before) // for its copies
    else this.#hear(memory, at, before)
  }

  #request(memory: Memory, at: number, seq: number): void {
    const id = idOf(memory, at)
    const { content, data } = readBody(memory, at)
    const from = senderOf(memory, at)
    const polling = isPolling(memory, at)
    const conversation = this.#hear(memory, at, this.#causes.of(memory, at))
    const action = hashOf(`${from}`, `${conversation.to}`, content, data ?? '')
    this.#asked.set(`${from} ${correlationOf(memory, at)}`, {
      id,
      turn: turnOf(memory, at),
      action,
      seq,
      polling,
      conversation,
    })
    if (polling && from === ORCHESTRATOR_INDEX) this.#polls.set(id, true)
  }

  /** The conversation with that message; where it is a poll it begins there, so that no number of polls is one. */
  #hear(memory: Memory, at: number, before: Conversation | undefined): Conversation {
    const id = idOf(memory, at)
    const conversation = continued(isPolling(memory, at) ? undefined : before, {
      stretch: this.#stretch,
      threadId: flagsOf(memory, at) & HAS_THREAD ? readBody(memory, at).threadId : undefined,
      from: senderOf(memory, at),
      to: this.#beholder.recipientOf(memory, at),
      delegates: typeOf(memory, at) === 'delegate',
    })
    const isFound = this.#judge(conversation, id)
    // What was found is counted anew, and so are the holders of the task.
    const kept = isFound ? { ...conversation, holders: [] } : conversation
    this.#causes.keep(id, conversation.to, kept)
    return kept
  }

  /** True: that is a sign. */
  #judge(conversation: Conversation, id: string): boolean {
    const { messages, from, to, threadId } = conversation
    const [sender, recipient] = [this.#beholder.name(from), this.#beholder.name(to)]
    if (isDelegatedBack(conversation)) {
      const way = [...conversation.holders, to].map((index) => `"${this.#beholder.name(index)}"`).join(' -> ')
      this.#found(
        [recipient, sender],
        `a task was delegated back to "${recipient}", who had it: ${way} (message ${id})`,
      )
    } else if (exchanges(conversation) >= mostExchanges(this.#bounds)) {
      const times = exchanges(conversation)
      const evidence = `"${sender}" and "${recipient}" wrote to each other and back ${times} times without progress (the last: message ${id})`
      this.#found([sender, recipient], evidence)
    } else if (messages >= this.#bounds.maxMessagesWithoutProgress) {
      const names = conversation.parties.map((index) => this.#beholder.name(index))
      const where = threadId === undefined ? '' : ` in thread ${JSON.stringify(threadId)}`
      const evidence = `${messages} messages${where} without progress, each because of the one before, between ${listed(names)} (the last: message ${id})`
      this.#found(names, evidence)
    } else return false
    return true
  }

  // ---- answers

  #ended(memory: Memory, at: number, seq: number): void {
    const agent = senderOf(memory, at)
    const isOver = correlationOf(memory, at) !== 0 || !isFailure(memory, at) // else it may be tried again
    if (correlationOf(memory, at) !== 0) this.#answered(memory, at, seq, this.#causes.ofTurn(agent, turnOf(memory, at)))
    if (isOver) this.#causes.over(agent, turnOf(memory, at), idOf(memory, at))
  }

  /** `led`: what led to the answer, where that is more than the question. */
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
    const attempt = { asked: asked.seq, answered: seq, outcome }
    const [from, to] = [this.#beholder.name(caller), this.#beholder.name(callee)]
    if (error && this.#again(this.#errors, `${caller} ${callee}`, attempt) >= mostErrors(this.#bounds)) {
      const { times } = this.#errors.get(`${caller} ${callee}`)!
      const evidence = `"${to}" failed ${times} times in a row with the same error for "${from}": ${error.code} (the last: message ${asked.id})`
      return this.#found([from, to], evidence)
    }
    const times = this.#again(this.#actions, asked.action, attempt)
    if (times >= this.#bounds.maxRepeats) {
      const evidence = `"${from}" asked "${to}" the same ${times} times in a row, and each time got the same answer (the last: message ${asked.id})`
      return this.#found([from, to], evidence)
    }
    this.#goOn(caller, callee, asked, led ?? asked.conversation)
  }

  #again(counts: Map<string, Repetition>, key: string, attempt: Parameters<typeof repeated>[1]): number {
    const repetition = repeated(counts.get(key), attempt)
    counts.set(key, repetition)
    return repetition.times
  }

  /** The caller's turn goes on because of the answer; of several that it waits for, because of the longest conversation. */
  #goOn(caller: number, callee: number, { turn, id }: Asked, led: Conversation): void {
    const message = { stretch: this.#stretch, threadId: undefined, from: callee, to: caller, delegates: false }
    const answer = continued(led, message)
    const own = this.#causes.ofTurn(caller, turn)
    const isLonger = own?.stretch !== answer.stretch || answer.messages > own.messages
    if (isLonger) this.#causes.goesOn(caller, turn, { ...answer, holders: own?.holders ?? [] })
    this.#judge(answer, id)
  }

  #found(agents: readonly string[], evidence: string): void {
    this.#beholder.found({ agents: [...new Set(agents)], evidence })
  }
}

const listed = (names: readonly string[]) => [...new Set(names)].map((name) => `"${name}"`).join(', ')

/** Where in the user's source an error was thrown: it tells two errors of the same words apart. */
const sourceOf = (cause: unknown): string => (cause instanceof Error && cause.stack?.split('\n')[1]) || ''
