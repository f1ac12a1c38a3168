/**
 * Types of the control plane between the host and a worker thread: the assignment that makes a thread an agent, and the
 * thread's answer. Also the JSON contents of control frames.
 */
import type { ErrorData } from '../../shared/errors.ts'
import type { ToolSpec, Watched } from './model.ts'
import type { ContextStrategy, FloorHistory, GuardedBy, RoleInfo } from './role.ts'
import type { AgentStatus } from './task.ts'

/** Part of an assignment that says what a thread loads. */
export interface CodeAssignment {
  role: RoleInfo
  /** Path of the role in the team's options, for errors: `agents[0]`. */
  option: string
  /** Number of threads that take messages from the agent's mailbox. */
  instances: number
  env: Record<string, string>
  /** Names of those that hold secrets: what the agent says leaves its thread without their values. */
  keys: string[]
  code: AgentCode
  tools: AssignedTools
  /** Place of the agent in a thread that several agents share; undefined: the thread is its own. */
  seat?: Seat
}

/** Place of an agent in a thread that it shares with others. */
export interface Seat {
  /** Number of the seat, from 1 on; the thread's bells and the calls of its control plane name it. */
  number: number
  /** A word that the whole thread shares: the seat that it works for now, or worked for last. 0: none so far. */
  atWork: SharedArrayBuffer
}

/** Seat of an agent that has its thread for itself. */
export const OWN_SEAT = 0

export interface Assignment extends CodeAssignment {
  index: number
  epoch: number
  /**
   * Names of the team's agents by index, one a line, as far as the host knows them now. An index of an agent that
   * belongs, or belonged, to a single run has an empty line. One text is cheap to send, however many they are.
   */
  names: string
  channel: SharedArrayBuffer
  team: SharedArrayBuffer
  /** The agent's state as JSON; undefined when its thread starts for the first time. */
  state: string | undefined
  /** The last correlation number that an earlier thread of this agent has used. */
  correlation: number
  /** Seed for the ids of messages; it makes the ids of this thread differ from those of all others. */
  seed: number
  maxMessageBytes: number
  /**
   * Limit of the memory that the thread may hold outside of its heap, in MiB; null: no limit, and nothing is measured.
   */
  maxExternalMb: number | null
  /** True if the team has a durable log: a step that may not run twice begins when that has it. */
  isDurable: boolean
  /** Number of turns that may be open at once, each of another run. */
  concurrency: number
  /** Verbs that the model of this agent is offered as tools. */
  verbs: readonly string[]
  /** Bounds above which the rounds of its model count as a loop; false: rounds are not checked. */
  loops: RoundBounds | false
  /** Number of messages that a turn may send. */
  messagesPerTurn: number
  /** Strategy that chooses the model's context; undefined: the default strategy. */
  contextStrategy: ContextStrategy | undefined
  /** Set if it shares the conversation of a thread with others: what the next speaker sees of it. */
  floor?: FloorHistory | undefined
  /** JSON schema of the answers of its model. */
  output?: object | undefined
  /** Checks that the host has for the agent; undefined without any. */
  guardedBy?: GuardedBy | undefined
}

/** The tools of an agent. `option`: path of a tool in the team's options. `polling`: its calls are polls. */
export interface AssignedTools {
  /**
   * Tools that run in the host. `sequential`: a call runs alone among the calls of one answer. `approval`: a person may
   * have to approve a call.
   */
  host: (ToolSpec & { option: string; sequential: boolean; polling: boolean; approval: boolean })[]
  /** Tools that the thread imports and runs itself. */
  modules: ToolCode[]
  /** Tools that the role mentions by name only: each is one of the tools above, or a verb. */
  names: { name: string; option: string }[]
  /** Set if the rehearsal model may answer in this team. Then the host decides whether a tool of the thread runs. */
  rehearsed?: boolean
}

/** A tool in a module; `export` is its name among the module's exports. */
export interface ToolCode {
  module: string
  bundled: boolean
  shown: string
  export: string
  option: string
}

export type AgentCode =
  /** A module to import; `bundled` if it was compiled from TypeScript and has a source map. */
  | { module: string; bundled: boolean; shown: string }
  /** A module with a protocol script. */
  | { protocol: string; bundled: boolean; shown: string; config: object | undefined }
  /** A role that a language model plays: there is nothing to import. */
  | { model: true }
  /** A role that an agent elsewhere plays; what its memory belongs to. */
  | { remote: 'run' | 'thread' }

/**
 * Arguments of the verb by which a turn asks the agent elsewhere that plays its role. `session`: that of the turn
 * before. `stream`: the words are sent as they come.
 */
export interface RemoteRequest {
  text: string
  session?: string
  stream?: boolean
  watched?: Watched
}

export interface RemoteAnswer {
  text: string
  session: string
}

/** An agent as a protocol script sees it. */
export type RosterEntry = RoleInfo & {
  status: AgentStatus
  playedByModel: boolean
  keys?: readonly string[]
  inherits?: 'summary' | 'full'
}

/**
 * The thread's answer to `start`. `state`: the agent's state after its start hook, if the state is new or has changed.
 * `tools`: names of its tools. `harmful`: names of those among them that come from modules and are not `readOnly`.
 */
export type Started =
  | { ok: true; state: string | undefined; tools?: string[]; harmful?: string[] }
  /**
   * `importing`: set if a module threw while it was imported, either the agent's module or that of a tool. The cause of
   * `error` is the thrown value; the host adds the place to the message.
   */
  | { ok: false; error: ErrorData; importing?: 'agent' | ToolCode }

/** Data of a RUN frame, as JSON; the frame's content is the run's id. */
export interface RunNotice {
  metadata: Record<string, string>
  tenant?: string
  threadId?: string
  /** This agent's state in that run, as JSON text, if it has any yet. */
  runState?: string
  /** The log does not have that state: the first commit of a change has to bring it. */
  isUnlogged?: true
  /** JSON schema that the agent's answer has to fit, if the caller has given one. */
  output?: object
  /** Models answer in pieces for those who watch the run. */
  streams?: true
  /** Agents of the team; present for the protocol script only. */
  roster?: RosterEntry[]
  /** Agents that belong to that run alone. */
  agents?: Newcomer[]
}

/** An agent that has joined: its name, and the index by which frames refer to it. */
export interface Newcomer {
  name: string
  index: number
}

/**
 * Data of a TEAM frame, as JSON: an agent that has joined, or, for the protocol script of a run, the present agents.
 */
export type TeamNotice = { newcomer: Newcomer } | { roster: RosterEntry[] }

/**
 * Data of a PATCH frame. `base`: value of a run's state to which the patches apply, if the log has none yet. It is the
 * changed value already, without patches, unless the state is a conversation that goes on across runs.
 */
export interface PatchNotice {
  scope: 'agent' | 'run'
  base?: unknown
  patches: readonly object[]
}

/** The control plane of a thread, called through Comlink. Messages between agents never use it. */
export interface ThreadControl {
  /** Imports a module of the package. Called before the thread has an agent. */
  warmUp(href: string): Promise<void>
  /** Imports the code and the tools and checks them, without a start. `start` then uses what was loaded. */
  load(assignment: CodeAssignment): Promise<Started>
  start(assignment: Assignment): Promise<Started>
  /**
   * Resolves to false if the agent has something to do: a turn, a message that waits for room, a timer, a connection.
   */
  isIdle(seat: number): Promise<boolean>
  /** Aborts all open turns of the agent, runs its stop hook, then resolves. */
  stop(seat: number): Promise<void>
  /** Ends an agent of a shared thread at once. It has written nothing more when this resolves. */
  leave(seat: number): Promise<void>
}

/*
 * Finds short sequences that repeat, as a pure fold over a sequence of keys: A-A-A, A-B-A-B, A-B-C-A-B-C, up to eight
 * keys before the first comes again. The fold keeps the last eight keys and eight counts; each key costs eight
 * comparisons.
 *
 * Source: OpenHands' stuck detector (the same action with the same result, A-B-A-B).
 */

/** The largest number of different keys in a cycle. */
const LONGEST_CYCLE = 8

export interface Sequence {
  /** The last keys, the newest first. */
  readonly last: readonly string[]
  /**
   * Counts by cycle length minus one: how many of the last keys, without a gap, equal the key that many places before.
   */
  readonly same: readonly number[]
}

export const NO_SEQUENCE: Sequence = { last: [], same: Array.from({ length: LONGEST_CYCLE }, () => 0) }

export const withKey = ({ last, same }: Sequence, key: string): Sequence => ({
  last: [key, ...last.slice(0, LONGEST_CYCLE - 1)],
  same: same.map((count, at) => (last[at] === key ? count + 1 : 0)),
})

/** Returns the shortest cycle whose repetitions reach `least`: its length, and how often in a row it has come. */
export function cycleIn(
  { same }: Sequence,
  least: (length: number) => number,
): { length: number; times: number } | undefined {
  for (const [at, count] of same.entries()) {
    const length = at + 1
    const times = Math.floor(count / length) + 1
    if (times >= least(length)) return { length, times }
  }
  return undefined
}

/** Bounds for the rounds of a model. `ends`: whether a loop that continues after all notices ends the turn. */
export interface RoundBounds {
  readonly maxRepeats: number
  readonly ends: boolean
}
