/**
 * One run, as the livelock detector sees it: what is new in it, and what comes again. A fold over the run's frames and records
 * that shows each to the signs of detector.ts.
 *
 * Progress (rule 28) is what was not there before in this run: a message, a result, the output of a step or a tool, an entry of
 * the blackboard, another status of a task. Whether it was there goes by content. A result counts with its question, so that
 * "ok" for the next item is news; the same question again with the same answer is none, nor is a task that is given again
 * and goes the same way. A run that makes progress somewhere is not livelocked: it resets all counts. What comes again while
 * somebody else is at a model, a tool or a person does not count either.
 *
 * What a model calls within a turn is watched in that turn (actors/model/rounds-watch.ts), and not again here.
 */
import { hashOf } from '../../../actors/definition/hash-of.ts'
import type { AgentTask } from '../../../actors/definition/task.ts'
import type { ErrorCode } from '../../../errors.ts'
import { errorOf, isFailure, isHead } from '../../../mailbox/codec.ts'
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
  timeOf,
  turnOf,
  typeOf,
} from '../../../mailbox/frame.ts'
import { readBody } from '../../../mailbox/frame-body.ts'
import { idOf } from '../../../mailbox/frame-id.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import { BoundedMap } from '../../log/bounded-map.ts'
import type { LivelockBounds } from '../../settings/livelock.ts'
import { ORCHESTRATOR_INDEX } from '../../state/agent-directory.ts'
import { isDone } from '../../tasks/task-board.ts'
import { Works } from '../external-work.ts'
import { Causes } from './causes.ts'
import { Repeats } from './repeats.ts'
import { News } from './seen.ts'
import {
  type Conversation,
  continued,
  exchanges,
  isDelegatedBack,
  type Moment,
  mostExchanges,
  NO_ROUNDS,
  type Rounds,
  roundsAnew,
  type Sign,
  taskClosed,
  taskOpened,
} from './signs.ts'
import { type ToolDone, ToolNews } from './tool-calls.ts'

/** Who looks at the run: what a frame has no room for, and who takes what is found. */
export interface Beholder {
  name(index: number): string
  /** A language model plays it. */
  isModel(index: number): boolean
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
  readonly asked: Moment
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
  readonly #works = new Works(MOST_OPEN)
  /** By caller and correlation. */
  readonly #asked = new BoundedMap<string, Asked>(MOST_OPEN)
  readonly #causes: Causes
  /** Tasks that are polls. */
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

  /** From now on everything is counted anew. */
  begin(): void {
    this.#stretch += 1
    this.#repeats.begin()
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

  /** The turn of that agent hands its duty off: the request that comes next is the host's, in its name. */
  handsOff(agent: number, turn: number): void {
    this.#causes.handsOff(agent, turn)
  }

  // ---- messages

  #sent(memory: Memory, at: number): void {
    if (senderOf(memory, at) === 0) return // of the runtime's own
    this.saw('message', this.#said(memory, at))
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

  /** Who says what to whom, in short. Of a task its words: what else goes with it is where it comes from. */
  #said(memory: Memory, at: number): string {
    const { content, data = '' } = readBody(memory, at)
    const more = typeOf(memory, at) === 'delegate' ? '' : data
    return hashOf(`${senderOf(memory, at)}`, `${this.#beholder.recipientOf(memory, at)}`, content, more)
  }

  /** The conversation with that message; where it is a poll it begins there, so that no number of polls is one. */
  #hear(memory: Memory, at: number, before: Conversation | undefined): Conversation {
    const id = idOf(memory, at)
    const conversation = continued(isPolling(memory, at) ? undefined : before, {
      stretch: this.#stretch,
      threadId: flagsOf(memory, at) & HAS_THREAD ? readBody(memory, at).threadId : undefined,
      from: senderOf(memory, at),
      to: this.#beholder.recipientOf(memory, at),
      delegates: typeOf(memory, at) === 'delegate' ? hashOf(readBody(memory, at).content) : undefined,
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
      const way = [...conversation.holders.map(({ agent }) => agent), to]
        .map((index) => `"${this.#beholder.name(index)}"`)
        .join(' -> ')
      this.#found(
        [recipient, sender],
        `a task was delegated back to "${recipient}", who had it: ${way} (message ${id})`,
      )
    } else if (this.#works.beside(from, to)) {
      return false
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

  /** The caller's turn goes on because of the answer; of several that it waits for, because of the longest conversation. */
  #goOn(caller: number, callee: number, { turn, id }: Asked, led: Conversation): void {
    const message = { stretch: this.#stretch, threadId: undefined, from: callee, to: caller, delegates: undefined }
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
