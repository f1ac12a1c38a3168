/** Data that a thread has about the runs of its messages. */
import type { Subscriptions } from '../../blackboard/subscriptions.ts'
import { MessageRejectedError, shown } from '../../errors.ts'
import { runOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import type { Newcomer, RosterEntry, RunNotice } from '../definition/assignment.ts'
import type { AgentHandlers } from '../definition/definition.ts'

export interface RunView {
  readonly index: number
  readonly id: string
  readonly metadata: Readonly<Record<string, string>>
  readonly threadId: string | undefined
  roster: readonly RosterEntry[]
  /** Indices by name, for agents of this run only. */
  agents: Map<string, number> | undefined
  /** JSON schema of the run's answer. */
  readonly output: object | undefined
  /** True if models answer in pieces for those who watch the run. */
  readonly streams: boolean
  /** This agent's state in the run; undefined until it is first read. */
  runState: object | undefined
  /** True if the host and its log know the initial value of the run's state. */
  based: boolean
  /** Hashes of the parts whose bytes the host has for the run. */
  readonly stored: Set<string>
  /** Callbacks of this thread for entries of the run's blackboard. */
  listeners?: Subscriptions
}

/** Placeholder for the start hook, which belongs to no run. */
export const NO_RUN: RunView = {
  index: 0,
  id: '',
  metadata: {},
  threadId: undefined,
  roster: [],
  agents: undefined,
  output: undefined,
  streams: false,
  runState: {},
  based: true,
  stored: new Set(),
}

export class RunViews {
  readonly #views = new Map<number, RunView>()
  readonly #initial: AgentHandlers['initialRunState']
  /** The initial state of all runs, unless a function makes each. */
  #first: object | undefined
  readonly #agent: string

  constructor(initial: AgentHandlers['initialRunState'], agent: string) {
    this.#initial = initial
    this.#agent = agent
  }

  /** True if a callback of a run waits for entries: it would end with its thread. */
  get listens(): boolean {
    for (const { listeners } of this.#views.values()) if (listeners && !listeners.isEmpty) return true
    return false
  }

  has(run: number): boolean {
    return this.#views.has(run)
  }

  get(run: number): RunView {
    const view = this.#views.get(run)
    if (view) return view
    throw new Error(`Run ${run} was never announced to this thread.`)
  }

  idOf(run: number): string {
    return this.#views.get(run)?.id ?? ''
  }

  /** Returns the run with that index, if it was announced and is not over. */
  find(run: number): RunView | undefined {
    return this.#views.get(run)
  }

  /** Stores the host's description of a run. Returns the agents that belong to that run only. */
  announce(memory: Memory, at: number): readonly Newcomer[] {
    const { content, data } = readBody(memory, at)
    const notice = JSON.parse(data ?? '{}') as RunNotice
    this.#views.set(runOf(memory, at), {
      index: runOf(memory, at),
      id: content,
      metadata: Object.freeze(notice.metadata),
      threadId: notice.threadId,
      roster: notice.roster ?? [],
      agents: undefined,
      output: notice.output,
      streams: notice.streams === true,
      runState: notice.runState === undefined ? undefined : deepFreeze(JSON.parse(notice.runState) as object),
      based: notice.runState !== undefined && !notice.isUnlogged,
      stored: new Set(),
    })
    return notice.agents ?? []
  }

  over(run: number): void {
    this.#views.delete(run)
  }

  /** Returns the agent's state in that run. The first call creates the initial state. */
  stateOf(view: RunView): object {
    view.runState ??= this.#firstState()
    return view.runState
  }

  #firstState(): object {
    const initial = this.#initial
    const firstOf = (made: unknown) => firstState(made, 'initialRunState', this.#agent)
    if (typeof initial === 'function') return firstOf((initial as () => object)())
    this.#first ??= firstOf(initial)
    return this.#first
  }
}

/** Returns the initial state of an agent or a run, as a frozen copy of the value in the definition. */
export function firstState(made: unknown, path: string, agent: string): object {
  if (made === undefined) return deepFreeze({})
  const issue = typeof made === 'object' && made !== null ? jsonIssue(made, path) : { path, got: shown(made) }
  if (!issue) return deepFreeze(structuredClone(made as object))
  throw new MessageRejectedError(
    `${issue.path} of agent "${agent}" is ${issue.got}; a state is an object of JSON values.`,
    { agent, ...issue },
  )
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const field of Object.values(value)) deepFreeze(field)
  }
  return value
}
