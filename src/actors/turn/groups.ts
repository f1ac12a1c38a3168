/** Requests of one turn that are waited for together, and what the turn holds back because of a limit of its thread. */
import { GROUP, LIMIT_WAIT, MOST_GROUPS } from '../../mailbox/frame.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { AgentFailedError, DramatisError, MessageRejectedError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { checkObject, checkRequests, reading, withdrawn, wrongArgument } from '../definition/checks.ts'
import type { Outcome, RequestOptions } from '../definition/context.ts'
import { inLanes, type KeptLimit, type KeptLimitData, type NoteWaiting } from '../definition/promises.ts'
import type { Outbox } from './link.ts'
import type { Messenger } from './messages.ts'
import type { AgentThread, OpenTurn } from './open-turn.ts'

export class LimitWaits {
  readonly #outbox: Outbox
  readonly #turn: OpenTurn
  /** Number of waits of the turn so far. */
  #count = 0

  constructor(outbox: Outbox, turn: OpenTurn) {
    this.#outbox = outbox
    this.#turn = turn
  }

  /** Returns a function that notes how many things wait for that limit; nothing is written until some do. */
  begin(option: KeptLimit, data: KeptLimitData): NoteWaiting {
    let known = 0
    let number = 0
    return (waiting) => {
      if (waiting === known || this.#turn.ended) return
      known = waiting
      const isFirst = number === 0
      if (isFirst) number = ++this.#count
      const { run, turn } = this.#turn.start
      const [content, text] = isFirst ? [option, JSON.stringify(data)] : ['', undefined]
      const fields = this.#outbox.begin(LIMIT_WAIT, run, turn, 0, content, text)
      fields.correlation = number
      fields.limit = waiting
      this.#outbox.write(this.#outbox.size(), 'soon')
    }
  }
}

/*
 * Requests of one turn that are waited for together. The host knows the groups, so that it can tell when no answer is
 * possible any more.
 */

type GroupOptions = RequestOptions & { concurrency?: number }

export class RequestGroups {
  readonly #thread: AgentThread
  readonly #turn: OpenTurn
  readonly #messages: Messenger
  readonly #limits: LimitWaits
  /** A bit for each open group. */
  #open = 0

  constructor(thread: AgentThread, turn: OpenTurn, messages: Messenger, limits: LimitWaits) {
    this.#thread = thread
    this.#turn = turn
    this.#messages = messages
    this.#limits = limits
  }

  /**
   * Sends all requests and returns their outcomes in the order of `to`. An agent's failure is an outcome, not a
   * rejection. `limitedBy`: the option that `concurrency` comes from.
   */
  async all(
    to: readonly string[],
    content: string,
    options: GroupOptions = {},
    limitedBy: KeptLimit = 'concurrency of requestAll',
  ): Promise<Outcome[]> {
    let limit: number | undefined
    let rest: RequestOptions
    try {
      checkObject(options, 'options')
      ;({ concurrency: limit, ...rest } = reading('options', () => ({ ...options })))
      checkRequests(to, content, rest)
      if (limit === undefined) limit = Math.max(1, to.length)
      if (!Number.isInteger(limit) || limit < 1)
        throw wrongArgument('concurrency', limit, 'an integer from 1 is needed')
    } catch (error) {
      throw this.#messages.told(error, to, content, options)
    }
    const group = to.length > 1 ? this.#begin(0) : 0
    const waiting = group | this.#turn.waitingFor(rest.signal)
    try {
      const ask = (agent: string) => this.#outcome(agent, content, rest, waiting)
      return await inLanes(to, limit, ask, this.#limits.begin(limitedBy, { limit, agents: to }))
    } finally {
      this.#end(group)
    }
  }

  async #outcome(agent: string, content: string, options: RequestOptions, waiting: number): Promise<Outcome> {
    try {
      return { agent, ok: true, message: await this.#request(agent, content, options, waiting) }
    } catch (error) {
      if (error instanceof DramatisError) return { agent, ok: false, error }
      throw error
    }
  }

  /**
   * Returns the first response and cancels the other requests. If all fail, throws one error that names each failure.
   */
  async any(to: readonly string[], content: string, options: RequestOptions = {}): Promise<AgentMessage> {
    try {
      checkRequests(to, content, options)
      checkSomebody('requestAny', to)
    } catch (error) {
      throw this.#messages.told(error, to, content, options)
    }
    const { messages, failures } = await this.#first(to, 1, content, options)
    if (messages[0]) return messages[0]
    if (failures.length === 1) throw failures[0]!.error
    throw joined(`None of ${to.length} agents answered.`, failures, {})
  }

  /**
   * Returns the first `count` responses in order of arrival and cancels the other requests. Fails as soon as `count`
   * responses are no longer possible.
   */
  async quorum(
    to: readonly string[],
    count: number,
    content: string,
    options: RequestOptions = {},
  ): Promise<AgentMessage[]> {
    try {
      checkRequests(to, content, options)
      checkSomebody('requestQuorum', to)
      checkQuorum(to, count)
    } catch (error) {
      throw this.#messages.told(error, to, content, options)
    }
    const { messages, failures } = await this.#first(to, count, content, options)
    if (messages.length === count) return messages
    const left = to.length - failures.length
    const text = `${count} of ${to.length} agents have to answer; ${failures.length} failed, so that at most ${left} will.`
    throw joined(text, failures, { needed: count, answered: messages.map(({ sender }) => sender) })
  }

  /**
   * Collects up to `count` responses in order of arrival, until that many are no longer possible. Then it withdraws the
   * open requests.
   */
  async #first(
    to: readonly string[],
    count: number,
    content: string,
    options: RequestOptions,
  ): Promise<{ messages: AgentMessage[]; failures: Failure[] }> {
    const { signal: given } = options
    const losers = new AbortController()
    const { signal } = losers
    if (given?.aborted) losers.abort(given.reason)
    const stop = given && onAbort(given, () => losers.abort(given.reason))
    const messages: AgentMessage[] = []
    const failures: Failure[] = []
    const group = count > 1 ? this.#begin(count) : 0
    const waiting = group | this.#turn.waitingFor(given)
    try {
      await new Promise<void>((resolve, reject) => {
        const isSettled = () => messages.length === count || failures.length > to.length - count
        const answered = (message: AgentMessage) => {
          if (!isSettled()) messages.push(message)
          if (isSettled()) resolve()
        }
        const failed = (agent: string, error: unknown) => {
          if (!(error instanceof DramatisError)) return reject(error)
          if (!isSettled()) failures.push({ agent, error })
          if (isSettled()) resolve()
        }
        for (const agent of to)
          this.#request(agent, content, { ...options, signal }, waiting).then(answered, (error) => failed(agent, error))
      })
    } finally {
      stop?.()
      this.#end(group)
      losers.abort(new Error('enough of the others have settled it'))
    }
    if (messages.length < count) {
      if (this.#turn.signal.aborted) throw this.#turn.signal.reason
      if (given?.aborted) throw withdrawn(to.join('", "'), given)
    }
    return { messages, failures }
  }

  #request(to: string, content: string, options: RequestOptions, waiting: number): Promise<AgentMessage> {
    return this.#messages.request(to, content, options, 'request', waiting) as Promise<AgentMessage>
  }

  /**
   * Begins a group that waits for so many responses; 0 means all. If no group number is free, returns 0, and each of
   * its requests counts as a wait of its own.
   */
  #begin(need: number): number {
    for (let group = 1; group <= MOST_GROUPS; group++) {
      if (this.#open & (1 << group)) continue
      this.#open |= 1 << group
      this.#thread.writeControl(GROUP, this.#turn.start, group, need)
      return group
    }
    return 0
  }

  #end(group: number): void {
    this.#open &= ~(1 << group)
  }
}

interface Failure {
  agent: string
  error: DramatisError
}

function joined(text: string, failures: readonly Failure[], details: object): DramatisError {
  const listed = failures.map(({ agent, error }) => `"${agent}": ${error.message}`).join(' ')
  return new AgentFailedError(`${text} ${listed}`, {
    ...details,
    failures: failures.map(({ agent, error }) => ({ agent, ...error.toJSON() })),
  })
}

function checkQuorum(to: readonly string[], count: number): void {
  const twice = to.find((name, i) => to.indexOf(name) < i)
  if (twice !== undefined)
    throw wrongArgument('to', to, `it has "${twice}" twice, and an agent counts once for a quorum`)
  if (!Number.isInteger(count) || count < 1 || count > to.length)
    throw wrongArgument('count', count, `an integer from 1 to ${to.length} is needed: so many agents are asked`)
}

function checkSomebody(verb: string, to: readonly string[]): void {
  if (to.length === 0)
    throw new MessageRejectedError(`${verb} needs at least one agent; the list is empty.`, {
      path: 'to',
      got: 'an empty list',
    })
}
