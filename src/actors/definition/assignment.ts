/** What the host tells a thread when it makes it an agent, over the control plane; and what the thread answers. */
import type { ErrorData } from '../../errors.ts'
import type { RoundBounds } from './cycles.ts'
import type { ToolSpec } from './model.ts'
import type { ContextStrategy, RoleInfo } from './role.ts'
import type { AgentStatus } from './task.ts'

export interface Assignment {
  role: RoleInfo
  /** Where the role stands in the team's options, for errors: `agents[0]`. */
  option: string
  index: number
  epoch: number
  /** Names of the team by index, as far as the host has them now; '' where an agent of one run is, or was. */
  names: string[]
  window: SharedArrayBuffer
  team: SharedArrayBuffer
  /** The agent's state as JSON; undefined in its first life. */
  state: string | undefined
  /** The last correlation that an earlier life has used. */
  correlation: number
  /** For the ids of messages: what tells this life from all others. */
  seed: number
  env: Record<string, string>
  maxMessageBytes: number
  /** What the thread may hold outside of its heap, in MiB; null: nobody looks. */
  maxExternalMb: number | null
  /** How many turns may be open at once, each of another run. */
  concurrency: number
  /** How many threads take from the agent's mailbox. */
  instances: number
  /** The verbs that a model is offered as tools. */
  verbs: readonly string[]
  /** When the rounds of its model are a loop; false: nobody looks. */
  loops: RoundBounds | false
  /** How its model's context is chosen; undefined: as the default says. */
  contextStrategy: ContextStrategy | undefined
  code: AgentCode
  tools: AssignedTools
}

/** The tools of an agent. `option`: where each stands in the team's options. `polling`: its calls are polls. */
export interface AssignedTools {
  /** What the host runs. `sequential`: alone among the calls of one answer. */
  host: (ToolSpec & { option: string; sequential: boolean; polling: boolean })[]
  /** What the thread loads and runs. */
  modules: ToolCode[]
  /** What the role names alone: tools that are among these, or verbs. */
  names: { name: string; option: string }[]
  /** Whether the rehearsal model may answer in this team: then the host says whether a tool of the thread runs. */
  rehearsed?: boolean
}

/** A tool in a module, under that name among its exports. */
export interface ToolCode {
  module: string
  bundled: boolean
  shown: string
  export: string
  option: string
}

export type AgentCode =
  /** A module to import; `bundled` when it was made from TypeScript and has a source map. */
  | { module: string; bundled: boolean; shown: string }
  /** The protocol script in a module. */
  | { protocol: string; bundled: boolean; shown: string; config: object | undefined }
  /** A role that is played by a language model: there is nothing to import. */
  | { model: true }

/** An agent as a protocol script sees it. */
export type RosterEntry = RoleInfo & { status: AgentStatus; playedByModel: boolean }

/** What `start` answers. `state` is the agent's state after its start hook, if it is new or changed. `tools` are the names of its tools, `harmful` of those in modules that are not `readOnly`. */
export type Started =
  | { ok: true; state: string | undefined; tools?: string[]; harmful?: string[] }
  /**
   * `importing`: a module threw; the error's cause is what it threw, and the host knows to say where. It was the agent's, or
   * that of a tool.
   */
  | { ok: false; error: ErrorData; importing?: 'agent' | ToolCode }

/** What a RUN frame says, as JSON in its data; its content is the run's id. */
export interface RunNotice {
  metadata: Record<string, string>
  threadId?: string
  /** This agent's state in that run, as JSON text, if it has any yet. */
  runState?: string
  /** What its answer is to fit, as JSON schema, where its caller has said so. */
  output?: object
  /** For the protocol script: who is there. */
  roster?: RosterEntry[]
  /** Agents of that run alone. */
  agents?: Newcomer[]
}

/** An agent that has come, by its name and what frames call it. */
export interface Newcomer {
  name: string
  index: number
}

/** What a TEAM frame says, as JSON in its data: who has come, or, for the protocol script of a run, who is there now. */
export type TeamNotice = { newcomer: Newcomer } | { roster: RosterEntry[] }

/** What a PATCH frame says. `base` is the first value of a run's state. */
export interface PatchNotice {
  scope: 'agent' | 'run'
  base?: unknown
  patches: readonly object[]
}

/** The control plane of a thread, called through Comlink. Messages never go through it. */
export interface ThreadControl {
  start(assignment: Assignment): Promise<Started>
  /** Aborts what is open, runs the stop hook, then answers. */
  stop(): Promise<void>
}
