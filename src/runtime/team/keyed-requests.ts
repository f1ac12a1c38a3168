/**
 * Requests with a key. The asking turn waits for a call that the host serves, so its log has the request and the
 * answer; the work is a run of its own, whose id follows from the run and the call that ask: who asks again after a
 * crash finds the same run. In a cluster that run is in the shard of the key; the cluster carries requests there.
 */
import { v5 } from 'uuid'
import { KEYED } from '../../actors/definition/role.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import {
  CancelledError,
  type DramatisError,
  type ErrorData,
  errorData,
  errorFrom,
  RequestTimeoutError,
} from '../../shared/errors.ts'
import { onAbort, unlessAborted } from '../../shared/on-abort.ts'
import type { Agent } from '../host/agent.ts'
import type { RunState } from '../host/run.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { RunHandle } from '../runs/run-handle.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { HostCaller } from '../verbs/calls.ts'

/** Request with a key as it goes to where the key is, as JSON: processes of several versions read it. */
export interface KeyedRequest {
  readonly agent: string
  readonly key: string
  readonly content: string
  readonly structuredData?: unknown
  readonly metadata?: object
  readonly priority: number
  readonly timeoutMs: number
}

/** End of a request with a key, as JSON. */
export interface KeyedEnd {
  readonly success: boolean
  readonly finalOutput: string | null
  readonly structuredData?: unknown
  readonly error: ErrorData | null
}

/** Carries requests to the team that has their key. */
export interface KeyedCarrier {
  /** Resolves with the end of the request, whoever does it. The same request may be asked for again under its id. */
  ask(id: string, request: KeyedRequest, signal: AbortSignal): Promise<KeyedEnd>
  /** Nobody waits for it any more. */
  withdraw(id: string, request: KeyedRequest): void
}

/** Wait of a turn of this team for a request with a key. */
export interface KeyedWait {
  readonly id: string
  /** Agent whose turn waits. */
  readonly by: Agent
  readonly run: RunState
  /** Number of the call in its agent. */
  readonly correlation: number
  /** Agent that is asked. */
  readonly agent: string
  /** Epoch ms. */
  readonly since: number
  reject(error: DramatisError): void
}

/** Request with a key that is this team's to do. */
interface Served {
  readonly id: string
  /** Request with the same agent and key that is done before it. */
  before: Served | undefined
  run: RunHandle<unknown> | undefined
  isWithdrawn: boolean
  readonly ended: Promise<unknown>
  end(): void
}

/** Namespace of the ids. */
const REQUESTS = '5b0c3d1e-8f27-5c64-9a0e-3e7d1b6f2a49'
const LONGEST_RUN_MS = 2 ** 31 - 1

export class KeyedRequests {
  readonly supervisor: Supervisor
  /** Shard of the team, in a cluster. */
  shard: number | null = null
  readonly waits = new Map<string, KeyedWait>()
  readonly served = new Map<string, Served>()
  readonly #book: RunBook
  readonly #carrier: () => KeyedCarrier | undefined
  readonly #look: () => void
  /** Last request of each agent and key. */
  readonly #last = new Map<string, Served>()

  /**
   * `look`: called when a turn begins to wait. `carrier`: returns what brings requests to other teams, if any do.
   */
  constructor(supervisor: Supervisor, book: RunBook, look: () => void, carrier: () => KeyedCarrier | undefined) {
    this.supervisor = supervisor
    this.#book = book
    this.#look = look
    this.#carrier = carrier
    supervisor.calls.register([[KEYED, (args, caller, signal) => this.#ask(args as KeyedRequest, caller, signal)]])
  }

  // ---- who asks

  async #ask(given: KeyedRequest, caller: HostCaller, signal: AbortSignal): Promise<AgentMessage> {
    const { agent: by, run, callId, correlation } = caller
    const { directory, clock, pauses } = this.supervisor
    const callee = directory.require(given.agent, run)
    const limit = Math.min(given.timeoutMs ?? callee.settings.responseTimeoutMs, LONGEST_RUN_MS)
    const request: KeyedRequest = { ...given, timeoutMs: limit }
    const id = v5(JSON.stringify([run.id, by.name, callId]), REQUESTS)
    const rejected = new AbortController()
    const reject = (error: DramatisError) => rejected.abort(error)
    this.waits.set(id, { id, by, run, correlation, agent: callee.name, since: clock.now(), reject })
    this.#look()
    const stop = onAbort(signal, () => rejected.abort(signal.reason))
    const carrier = this.#carrier() ?? this.#here
    try {
      const asked = carrier.ask(id, request, rejected.signal)
      const end = await pauses.during(caller, () => unlessAborted(rejected.signal, asked), 'model')
      if (end.success) return this.#answer(id, request, caller, end)
      throw end.error ? this.#told(errorFrom(end.error), request, caller) : new CancelledError(ENDED, { id })
    } catch (error) {
      if (rejected.signal.aborted && !this.#isLeft) carrier.withdraw(id, request)
      throw error
    } finally {
      stop()
      this.waits.delete(id)
    }
  }

  /** True when another process goes on with the turns that wait here: they ask again. */
  get #isLeft(): boolean {
    return this.#book.endings.lost !== undefined || (this.#book.closing && this.supervisor.journal.isKept)
  }

  readonly #here: KeyedCarrier = {
    ask: async (id, request) => {
      const run = await this.begin(id, request)
      const end = this.endOf(run, await run.result)
      return end ?? new Promise<never>(() => {}) // a later process goes on with both
    },
    withdraw: (id) => this.withdraw(id),
  }

  #answer(id: string, request: KeyedRequest, { agent: by, run, callId }: HostCaller, end: KeyedEnd): AgentMessage {
    return {
      id,
      type: 'response',
      sender: request.agent,
      recipient: by.name,
      content: end.finalOutput ?? '',
      structuredData: end.structuredData ?? null,
      priority: request.priority,
      requiresResponse: false,
      responseTimeoutMs: null,
      threadId: request.key,
      metadata: {},
      runId: run.id,
      correlationId: callId,
      sentAt: this.supervisor.clock.now(),
    }
  }

  /** Returns the error as one of a request has it. */
  #told(error: DramatisError, { agent, key, timeoutMs }: KeyedRequest, { agent: by }: HostCaller): DramatisError {
    if (error.code !== 'RUN_TIMEOUT') return error
    const text = `"${agent}" has not answered "${by.name}" within ${timeoutMs} ms, with the key "${key}". Raise timeoutMs of the request, or look at what its run waits for.`
    return new RequestTimeoutError(text, { agent, key, timeoutMs, runId: error.details.runId }, error)
  }

  // ---- who is asked

  /** Begins a request when those before it with the same agent and key have ended, or goes on with it. */
  async begin(id: string, request: KeyedRequest): Promise<RunHandle<unknown>> {
    const { agent, key, content } = request
    const line = JSON.stringify([agent, key])
    const served = this.#enter(id, line)
    try {
      const known = this.#book.find(id)
      if (!known) await served.before?.ended
      served.before = undefined
      if (served.isWithdrawn) throw new CancelledError(WITHDRAWN, { id, agent, key })
      const callee = this.supervisor.directory.require(agent, undefined)
      served.run = known ?? this.#launched(id, request, content, callee)
    } catch (error) {
      this.#leave(served, line)
      throw error
    }
    const left = () => this.#leave(served, line)
    served.run.result.then(left, left)
    return served.run
  }

  #enter(id: string, line: string): Served {
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const served = { id, before: this.#last.get(line), run: undefined, isWithdrawn: false, ended, end }
    this.#last.set(line, served)
    this.served.set(id, served)
    return served
  }

  #leave(served: Served, line: string): void {
    if (this.#last.get(line) === served) this.#last.delete(line)
    if (this.served.get(served.id) === served) this.served.delete(served.id)
    served.end()
  }

  #launched(id: string, request: KeyedRequest, content: string, callee: Agent): RunHandle<unknown> {
    const { key, priority, timeoutMs, structuredData, metadata } = request
    const asked = {
      ...(structuredData !== undefined && { data: JSON.stringify(structuredData) }),
      ...(metadata !== undefined && { metadata: JSON.stringify(metadata) }),
    }
    const run = this.#book.launch(content, { runId: id, threadId: key, priority, timeoutMs }, callee, false, asked)
    run.state.held ??= false
    return run
  }

  /** Nobody waits for it any more. */
  withdraw(id: string): void {
    const served = this.served.get(id)
    if (!served) return
    served.isWithdrawn = true
    if (served.run) this.#book.endings.cancel(served.run.state, WITHDRAWN)
  }

  /** Returns the end of a request; undefined for one that a later process goes on with. */
  endOf(run: RunHandle<unknown>, result: MultiAgentResult<unknown>): KeyedEnd | undefined {
    if (run.status === 'interrupted') return undefined
    if (!result.success) return { success: false, finalOutput: null, error: errorData(result.error) }
    const said =
      run.state.structured ?? result.messageHistory.findLast(({ type }) => type === 'response')?.structuredData
    return { success: true, finalOutput: result.finalOutput, structuredData: said ?? null, error: null }
  }
}

const WITHDRAWN = 'nobody waits for it any more'
const ENDED = 'The request has ended without an answer and without an error.'
