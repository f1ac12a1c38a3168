/** Data that a thread has about the runs of its messages. */

import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { Subscriptions } from '../../blackboard/entry.ts'
import { type Memory, readBody, runOf } from '../../mailbox/frame.ts'
import { FIXED_NAMES, jsonIssue } from '../../mailbox/message.ts'
import { hashOf, referenceTo } from '../../mailbox/stored-parts.ts'
import { MessageRejectedError, shown } from '../../shared/errors.ts'
import type { Newcomer, RosterEntry, RunNotice } from '../definition/assignment.ts'
import type { PartKeeper } from '../definition/content.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Outbox } from './link.ts'

/*
 * Agent names known to one thread. Frames carry indices only. A team agent keeps its index permanently. An agent of a
 * single run has its index until the run ends, and is known by name in that run only.
 */

export class Names {
  readonly #text: string
  #list: string[] | undefined
  /** Indices of the agents that this thread has written to by name, or has learned of. */
  readonly #indices = new Map<string, number>()
  /** Names of agents of a single run, by index. Each entry is the last agent that had the index. */
  readonly #ofRuns: string[] = []
  /** Names learned after the start. Messages addressed to them by name may still be in transit. */
  readonly late = new Set<string>()

  /** `text`: `names` of the assignment. */
  constructor(text: string) {
    this.#text = text
  }

  /** Names of the team by index. Many threads need none of them, and a team can have thousands. */
  get #ofTeam(): string[] {
    this.#list ??= this.#text.split('\n')
    return this.#list
  }

  /** Checks whether the index belongs permanently to one agent whose name is known. */
  isKnown(index: number): boolean {
    return index < FIXED_NAMES.length || ((this.#list ?? this.#ofTeam)[index] ?? '') !== ''
  }

  name(index: number): string {
    const list = this.#list ?? this.#ofTeam
    return FIXED_NAMES[index] ?? (list[index] || (this.#ofRuns[index] ?? `#${index}`))
  }

  indexOf(name: string, run: RunView): number | undefined {
    return run.agents?.get(name) ?? this.#indices.get(name) ?? this.#find(name)
  }

  /**
   * Names that start with "$" belong to the runtime and have no mailbox: the host decides about messages to them. An
   * empty name stands for an agent of a single run.
   */
  #find(name: string): number | undefined {
    if (name === '' || name.startsWith('$')) return undefined
    const index = this.#ofTeam.indexOf(name)
    if (index < 0) return undefined
    this.#indices.set(name, index)
    return index
  }

  /** Adds an agent that has joined: to a run if one is given, otherwise to the team. */
  learn(name: string, index: number, run: RunView | undefined): void {
    this.late.add(name)
    if (run) {
      run.agents ??= new Map()
      run.agents.set(name, index)
      this.#ofRuns[index] = name
    } else {
      this.#ofTeam[index] = name
      this.#indices.set(name, index)
    }
  }
}

/** Question of a thread. The host posts its answer, then sets the word and wakes the thread. */
export interface AskedBytes {
  readonly hash: string
  readonly word: Int32Array
}

export interface AnsweredBytes {
  readonly hash: string
  readonly bytes: Uint8Array | undefined
}

/** Time after which a thread goes on without the bytes: its host does not answer. */
const LONGEST_WAIT_MS = 60_000

export function downloadsFrom(port: MessagePort): (hash: string) => Uint8Array | undefined {
  return (hash) => {
    const word = new Int32Array(new SharedArrayBuffer(4))
    port.postMessage({ hash, word } satisfies AskedBytes)
    Atomics.wait(word, 0, 0, LONGEST_WAIT_MS)
    for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) {
      const answer = got.message as AnsweredBytes
      if (answer.hash === hash) return answer.bytes // others came too late for who has asked
    }
    return undefined
  }
}

/** Returns the keeper for parts of frames of that run. To be used before the frame is begun. */
export const uploadsFor = (outbox: Outbox, { index, stored }: RunView): PartKeeper => ({
  knowsAll: false,
  has: (hash) => stored.has(hash),
  keep(bytes) {
    const hash = hashOf(bytes)
    if (!stored.has(hash)) outbox.writePart(index, bytes)
    stored.add(hash)
    return referenceTo({ hash, bytes: bytes.length })
  },
})

export interface RunView {
  readonly index: number
  readonly id: string
  readonly metadata: Readonly<Record<string, string>>
  readonly tenant: string | undefined
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
  tenant: undefined,
  threadId: undefined,
  roster: [],
  agents: undefined,
  output: undefined,
  streams: false,
  runState: {},
  based: true,
  stored: new Set(),
}

/** The runs that were announced to a thread and are not over, by their index. */
export class RunViews extends Map<number, RunView> {
  readonly #initial: AgentHandlers['initialRunState']
  /** The initial state of all runs, unless a function makes each. */
  #first: object | undefined
  readonly #agent: string

  constructor(initial: AgentHandlers['initialRunState'], agent: string) {
    super()
    this.#initial = initial
    this.#agent = agent
  }

  /** True if a callback of a run waits for entries: it would end with its thread. */
  get listens(): boolean {
    for (const { listeners } of this.values()) if (listeners && !listeners.isEmpty) return true
    return false
  }

  idOf(run: number): string {
    return this.get(run)?.id ?? ''
  }

  /** Stores the host's description of a run. Returns the agents that belong to that run only. */
  announce(memory: Memory, at: number): readonly Newcomer[] {
    const { content, data } = readBody(memory, at)
    const notice = JSON.parse(data ?? '{}') as RunNotice
    this.set(runOf(memory, at), {
      index: runOf(memory, at),
      id: content,
      metadata: Object.freeze(notice.metadata),
      tenant: notice.tenant,
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
