/** State that the supervisor keeps for one run. What happened in the run is in its log. */
import type { ModelMessage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { Board } from '../../blackboard/board.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DramatisError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import type { ReadBytes } from '../../mailbox/stored-parts.ts'
import { RunLog } from '../log/run-log.ts'
import type { TokenLimit } from '../settings/options.ts'
import type { TraceHeaders } from '../settings/telemetry.ts'
import type { OpenQuestion } from './open-question.ts'
import type { RunOutput } from './run-output.ts'
import { Spent } from './spent.ts'
import type { TurnFrames } from './turn-frames.ts'

interface StoppableClock {
  readonly leftMs: number
  pause(): void
  resume(): void
}

/** Watch of one agent by another. */
export interface Watch {
  /** Agents by index: another run may have an agent of the same name. */
  readonly watcher: number
  readonly index: number
  readonly agent: string
  /** End of the agent that the watcher was last notified of. */
  told: DramatisError | undefined
  /** True if the watcher has to be notified of the next end. */
  open: boolean
}

export class RunState {
  /** Number of the run in frames; 0 means no run. It is final once the run has a frame. */
  index: number
  readonly id: string
  readonly query: string
  readonly metadata: Readonly<Record<string, string>>
  readonly threadId: string | undefined
  readonly log = new RunLog()
  readonly startedAt: number
  /** Number of messages that were accepted or are parked, and are neither handled nor dead. */
  open = 0
  /** Called when the last of them is handled or dead. Set once it is to be known. */
  onQuiet: (() => void) | undefined
  /** Set when the run is to end: it accepts nothing more. */
  ending: DramatisError | undefined
  /** True when the run has its answer (or its error). Messages that nobody waits for may still be under way. */
  over = false
  /** True for the work that a message from outside has caused: it has no query and no answer. */
  isOwn = false
  /** Indices of the agents that were notified of the run. Frames of other agents are not accepted in it. */
  readonly members = new Set<number>()
  /** Blackboard of the run. With a shared blackboard other runs use the same one. */
  board: Board | undefined
  /** Number of entries on the blackboard of the team when this run ended, if the run has that one. */
  boardRevision: number | undefined
  /** True if code outside of the team has the blackboard too, and may write. */
  boardLent = false
  /**
   * false: the caller waits only for the end of the run. Otherwise somebody has a handle of the run, or its id, and may
   * still write in it.
   */
  held: boolean | undefined
  /** True if models answer in pieces for those who watch the run, whether or not somebody does. */
  streams = false
  /** Parts of the query, if it is more than a text. */
  parts: readonly MessagePart[] | undefined
  /** Bytes of the large parts that the run refers to, by their hashes. */
  readonly stored: Map<string, Uint8Array> = new Map()
  /** Conversation that the caller has given: model agents of the team begin with it. */
  messages: readonly ModelMessage[] = []
  /** Frames of turns that the log in memory has given up, read from the durable log again, by message. */
  readonly reread = new WeakMap<Envelope<RunState>, TurnFrames>()
  /** States that agents keep for this run, by agent index. */
  readonly states = new Map<number, object>()
  /** Agents whose state here began outside of the run, and is not in its log yet. */
  readonly unlogged = new Set<number>()
  /** Tasks by id, which is the id of the request. */
  readonly tasks = new Map<string, AgentTask>()
  /** Tasks that are not done, by the index of the agent that gave them and its number for the request. */
  readonly openTasks = new Map<number, Map<number, string>>()
  /** Questions to a person that nobody has answered yet, by id. */
  readonly questions = new Map<string, OpenQuestion>()
  /** Clock of its time limit, which stands still while a question is open. */
  #clock: StoppableClock | undefined
  /** Inputs of the tool calls that a person has approved, as JSON, by the ids of the calls. */
  readonly approved = new Map<string, string>()
  /** Replacement models by the names that the agents use. */
  models: Readonly<Record<string, string>> = {}
  /** Budget of this run. It comes before the one that the team has for each run. */
  budget: TokenLimit | undefined
  /** Schema that the answer must fit. */
  output: RunOutput | undefined
  /** Structured data of the answer as its agent gave them; undefined if a guardrail has changed the answer. */
  structured: unknown
  /** Number of its frames that have passed the livelock detector while it was a run of code. */
  framesPassed = 0
  /** True if an agent that a model plays has asked somebody. */
  askedByModel = false
  /** True if the rehearsal model was called: what agents say and do from then on may be made up. */
  rehearsed = false
  /** Tokens that models have used in this run. */
  readonly spent = new Spent()
  /** Hash of the script that an earlier process ran. */
  script: string | undefined
  /** Place of the run in the caller's trace, if the team has telemetry. */
  traceHeaders: TraceHeaders | undefined
  /** Number of handoffs in this run. */
  handoffs = 0
  /** Successor of each task that was handed off or reassigned, by the id of that task. */
  readonly successors = new Map<string, string>()
  /** Number of open delegations that each task waits for. */
  readonly delegated = new Map<string, number>()
  readonly failures: { agent: string; taskId?: string; error: DramatisError }[] = []
  /** First message about the entry that was written last. Messages to other subscribers are copies of it. */
  told: { entry: BlackboardEntry; message: Memory; agents: Set<number> } | undefined
  /** Indices by name of the agents that were made in this run and end with it. The log continues to use their names. */
  readonly agents = new Map<string, number>()
  /** Number of agents that were made in this run. */
  spawned = 0
  /** Functions that end each subscription, by agent and pattern. */
  readonly subscriptions = new Map<string, () => void>()
  /** Watches by watcher and agent. */
  readonly watches = new Map<string, Watch>()
  #ended: AbortController | undefined
  #reason: (() => DramatisError) | undefined

  constructor(
    index: number,
    id: string,
    query: string,
    startedAt: number,
    metadata: Readonly<Record<string, string>> = {},
    threadId?: string,
  ) {
    this.index = index
    this.id = id
    this.query = query
    this.startedAt = startedAt
    this.metadata = metadata
    this.threadId = threadId
  }

  /** Notes that one of its open messages is handled or dead. */
  messageEnded(): void {
    this.open -= 1
    if (this.open <= 0) this.onQuiet?.()
  }

  /** Aborted when the run is over. Made when it is asked for: most runs have nobody who waits for it. */
  get ended(): AbortSignal {
    if (!this.#ended) {
      this.#ended = new AbortController()
      if (this.#reason) this.#ended.abort(this.#reason())
    }
    return this.#ended.signal
  }

  /** Aborts `ended`. `reason` is called only if somebody asks for the signal: an error with its stack is costly. */
  end(reason: () => DramatisError): void {
    this.#reason ??= reason
    if (this.#ended && !this.#ended.signal.aborted) this.#ended.abort(this.#reason())
  }

  /** Metadata for the agents of the run: its own place in the trace replaces that of the caller. */
  get toldMetadata(): Record<string, string> {
    if (!this.traceHeaders) return { ...this.metadata }
    const { traceparent: _callers, tracestate: _too, ...rest } = this.metadata
    return { ...rest, ...this.traceHeaders }
  }

  /**
   * Takes the schema of a caller who gives the id of this run. Its code checks what is still to come.
   *
   * @throws ConfigurationError if the run was begun with another one.
   */
  takeOutput(given: RunOutput | undefined): void {
    const before = this.output?.from === 'resumer' ? undefined : this.output?.logged
    if (!given || !before) return
    given.assertIs(before)
    if (this.output?.from === 'log' && !this.over) this.output = given.goOnFrom(before)
  }

  /** Sets the clock of its time limit. */
  clockOn(clock: StoppableClock): void {
    this.#clock = clock
    if (this.questions.size > 0) clock.pause()
  }

  /** Time that the run still has, in ms. */
  get leftMs(): number {
    return this.#clock?.leftMs ?? Number.POSITIVE_INFINITY
  }

  /** Adds a question to a person. */
  asks(questionId: string, question: OpenQuestion): void {
    this.questions.set(questionId, question)
    this.#clock?.pause()
  }

  /** Removes a question that is closed. */
  closes(questionId: string): void {
    if (this.questions.delete(questionId) && this.questions.size === 0) this.#clock?.resume()
  }

  /** Returns the values on the blackboard: those of the end, if the run has ended. */
  boardValues(): Record<string, unknown> | null {
    const { board } = this
    return board ? board.at(this.revisionOf(board)).snapshot() : null
  }

  /** Number of entries that the blackboard has for this run: those of its end, if it has ended. */
  revisionOf({ revision }: Board): number {
    return Math.min(this.boardRevision ?? revision, revision)
  }

  /** Returns the name of an agent that belongs, or belonged, to this run alone. */
  agentName(index: number): string | undefined {
    if (this.agents.size > 0) for (const [name, own] of this.agents) if (own === index) return name
    return undefined
  }

  /** Forgets an agent that has left: its state and subscriptions here are not for the next agent with that name. */
  forgetAgent(index: number): void {
    this.states.delete(index)
    for (const [key, stop] of this.subscriptions) {
      if (!key.startsWith(`${index} `)) continue
      stop()
      this.subscriptions.delete(key)
    }
    for (const [key, { watcher }] of this.watches) if (watcher === index) this.watches.delete(key)
  }
}

/** Returns what reads the bytes with that hash; undefined if they are not there. */
export function readerOf(stored: ReadonlyMap<string, Uint8Array>, hash: string): ReadBytes | undefined {
  const bytes = stored.get(hash)
  return bytes && (() => bytes)
}

/**
 * Returns the names for a fold over one run's log. Such a fold can be made long after the team has forgotten the run.
 */
export function directoryOf(run: RunState, names: Pick<Directory, 'name'>): Directory {
  return {
    name: (index) => run.agentName(index) ?? names.name(index),
    runId: (index) => (index === run.index ? run.id : ''),
    bytesOf: (index, hash) => (index === run.index ? readerOf(run.stored, hash) : undefined),
  }
}

/** Returns the id of the message that has the duty of that one now, after handoffs and reassignments. */
export function lastSuccessor({ successors }: RunState, id: string): string {
  let last = id
  for (let next = successors.get(last); next !== undefined; next = successors.get(next)) last = next
  return last
}
