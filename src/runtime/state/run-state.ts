/** What the supervisor knows of one run. What happened in it is in its log. */
import type { AgentTask } from '../../actors/definition/task.ts'
import type { Board } from '../../blackboard/board.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DramatisError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { RunLog } from '../log/run-log.ts'
import type { TokenLimit } from '../settings/options.ts'
import type { TraceHeaders } from '../settings/telemetry.ts'
import type { RunOutput } from './run-output.ts'
import { Spent } from './spent.ts'

/** One agent that watches another. */
export interface Watch {
  /** Their indices: another run may have an agent of that name, too. */
  readonly watcher: number
  readonly index: number
  readonly agent: string
  /** The end that it was told of last. */
  told: DramatisError | undefined
  /** It is to be told of the next. */
  open: boolean
}

/** What an agent has asked a person, who has not answered yet. */
export interface OpenQuestion {
  readonly agent: string
  readonly text: string
  readonly choices: readonly string[] | undefined
  settle(answer: string): void
}

export class RunState {
  /** What frames call it; 0 is no run. */
  readonly index: number
  readonly id: string
  readonly query: string
  readonly metadata: Readonly<Record<string, string>>
  readonly threadId: string | undefined
  readonly log = new RunLog()
  readonly startedAt: number
  /** Messages that were accepted or are parked, and are neither handled nor dead. */
  open = 0
  /** Set when the run is to end: nothing more is accepted in it. */
  ending: DramatisError | undefined
  /** Its answer is there (or its error). Messages that nobody waits for may still be under way. */
  over = false
  /** The indices of those who have been told of it: nobody else writes in it. */
  readonly members = new Set<number>()
  /** Other runs of a shared blackboard see the same one. */
  board: Board | undefined
  readonly boardOver = new AbortController()
  /** Code outside of the team has it too, and may write. */
  boardLent = false
  /** false: its caller waits for its end alone. Else somebody has a handle of it, or its id, and may write in it yet. */
  held: boolean | undefined
  /** How many read along what is said in it. */
  readers = 0
  /** What its agents keep for this run, by their index. */
  readonly states = new Map<number, object>()
  /** By the id of the request that a task is. */
  readonly tasks = new Map<string, AgentTask>()
  /** Tasks that are not done, by the index of who has given them and its number for the request. */
  readonly openTasks = new Map<number, Map<number, string>>()
  /** Questions to a person that nobody has answered yet, by their ids. */
  readonly questions = new Map<string, OpenQuestion>()
  /** Other models by the names that its agents use. */
  models: Readonly<Record<string, string>> = {}
  /** Of its own, before those that the team has for each run. */
  budget: TokenLimit | undefined
  /** What its answer is to fit. */
  output: RunOutput | undefined
  /** The rehearsal model has been asked in it: what its agents say and do from now on may be made up. */
  rehearsed = false
  /** What models have cost in it. */
  readonly spent = new Spent()
  /** Its place in its caller's trace, where the team has telemetry. */
  traceHeaders: TraceHeaders | undefined
  /** How many duties were handed off in it. */
  handoffs = 0
  /** By the id of a task that was handed off or reassigned: the one that it became. */
  readonly successors = new Map<string, string>()
  /** How many open delegations each task waits for. */
  readonly delegated = new Map<string, number>()
  readonly failures: { agent: string; taskId?: string; error: DramatisError }[] = []
  /** The first message about an entry that was written last: those to other subscribers are copies of it. */
  told: { entry: BlackboardEntry; message: Memory } | undefined
  /** Agents that were made in this run and go with it: their indices by name. The log goes on naming them. */
  readonly agents = new Map<string, number>()
  /** How many agents were made in it. */
  spawned = 0
  /** What ends each, by agent and pattern. */
  readonly subscriptions = new Map<string, () => void>()
  /** By watcher and agent. */
  readonly watches = new Map<string, Watch>()

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

  /** For its agents: the run's own place in the trace stands for that of its caller. */
  get toldMetadata(): Record<string, string> {
    if (!this.traceHeaders) return { ...this.metadata }
    const { traceparent: _callers, tracestate: _too, ...rest } = this.metadata
    return { ...rest, ...this.traceHeaders }
  }

  /** Of an agent that is, or was, of this run alone. */
  agentName(index: number): string | undefined {
    if (this.agents.size > 0) for (const [name, own] of this.agents) if (own === index) return name
    return undefined
  }

  /** That agent has left: what it kept and what it listened for here are not for who has its name next. */
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

/** For the folds over one run's log: they can be made long after the team has forgotten the run. */
export function directoryOf(run: RunState, names: Pick<Directory, 'name'>): Directory {
  return {
    name: (index) => run.agentName(index) ?? names.name(index),
    runId: (index) => (index === run.index ? run.id : ''),
  }
}
