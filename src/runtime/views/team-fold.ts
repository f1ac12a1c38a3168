/** Fold of the entries of a run: agents, messages, waits, board and tasks as they were after the last one. */
import type { AgentStatus, AgentTask } from '../../actors/definition/task.ts'
import { Board } from '../../blackboard/board.ts'
import { actingSender, type Directory, jsonIn } from '../../mailbox/codec.ts'
import { priorityOf, readBody, senderOf, timeOf, typeOf } from '../../mailbox/frame.ts'
import type { MessageType } from '../../mailbox/message.ts'
import { type IndexOf, type OpenCallFrame, type OpenMessage, type OpenWait, OpenWork } from '../durability/open-work.ts'
import { RecoveredTeam } from '../durability/recovered-run.ts'
import type { LogEntry, NamedWait, RecordOf, Unrecorded } from '../log/records.ts'
import { framesIn } from '../log/run-log.ts'
import { type StatusChange, StatusFold, statusAfter } from '../runs/log-events.ts'
import type { EndingState } from '../settings/team-shape.ts'
import { subjectOf } from '../verbs/calls.ts'

/** An agent at a moment of a run. */
export interface AgentView {
  agent: string
  /** Status that follows from what the agent did in this run, and from the life of its thread. */
  status: AgentStatus
}

/** A message that an agent had at a moment of a run, and had not handled. */
export interface MessageView {
  id: string
  type: MessageType
  from: string
  content: string
  priority: number
  /** Epoch ms. */
  sentAt: number
  /** 1 for the first attempt. */
  attempt: number
  /**
   * True if the log says that a turn of the agent has the message. In a team without a durable log only turns that take
   * longer are announced, so it may be false for a turn that has just begun.
   */
  inTurn: boolean
}

/** The messages of one agent, in the order in which they were sent: in its mailbox, in a turn, or waiting for room. */
export interface MailboxView {
  agent: string
  messages: MessageView[]
}

/** State of a run at a moment. */
export interface RunView {
  /** Agents that the log had mentioned by then. */
  agents: AgentView[]
  /** Mailboxes that had messages of this run. */
  mailboxes: MailboxView[]
  /**
   * Waits of the turns of this run, one entry for each. `kind` is `request` or `delegate`, with the agent that
   * is asked in `for`; or the verb that the runtime had not answered yet (`model`, `tool`, `ask`, `sync`,
   * `blackboard.waitFor`, ...), with the name of the tool, sync point or key in `for`.
   */
  waits: NamedWait[]
  /** Value of each key of the blackboard, without those that were superseded. */
  board: Record<string, unknown>
  /** Tasks that had been given, in that order. */
  tasks: AgentTask[]
}

export interface RunMoment {
  seq: number
  /** Epoch ms. */
  at: number
  /** Description for people. Words of agents, models and people are cut after 120 characters. */
  sentence: string
}

/**
 * The past of a run, as its log has it: what was logged until `team.replay` was called.
 *
 * @example
 * const past = await team.replay('report-7')
 * for (const { seq, sentence } of past.moments) console.log(sentence, past.at(seq).waits)
 */
export interface RunReplay {
  /** Number of moments: entries of the log that concern the run. */
  readonly length: number
  /** Number of each moment, ascending. An event's `seq` lies at or behind that of the entry that it comes from. */
  readonly seqs: readonly number[]
  /** Moments that have something to tell to a person, in order. The others are housekeeping of the runtime. */
  readonly moments: readonly RunMoment[]
  /**
   * Returns the state after everything up to that number; any number is accepted. Steps forward cost what is logged
   * between; a step back begins at the start of the run.
   *
   * @throws {ConfigurationError} if it is no number.
   */
  at(seq: number): RunView
}

/*
 * Fold of what a team brings to a run: states of agents, conversations of threads, shared state and the board of the
 * team. What a compaction has carried on is there with its value of then.
 */

export class TeamBefore {
  readonly #team = new RecoveredTeam(0)
  readonly #names = new Map<number, string>()
  readonly #launched = new Map<number, RecordOf<'run.launched'>>()

  see(entry: LogEntry): void {
    if (entry.kind === 'frames') {
      const { run } = entry
      const { threadId, floor } = this.#launched.get(run) ?? {}
      const shares = (agent: number) => floor?.includes(this.#names.get(agent) ?? '') === true
      for (const [memory, at] of framesIn([entry])) this.#team.states.frame(memory, at, run, threadId, floor && shares)
      return
    }
    this.#team.see(entry)
    switch (entry.kind) {
      case 'name':
        if (entry.run === 0) this.#names.set(entry.index, entry.name)
        return
      case 'agent.left':
        this.#names.delete(entry.index)
        return this.#team.forgetAgent(entry.index)
      case 'run.launched':
        this.#launched.set(entry.run, entry)
        return
      case 'run.finished':
        this.#team.states.forget(entry.run)
    }
  }

  /** Forgets what ends with a session that was closed in order and has left no open run. */
  endSession(ends: readonly EndingState[]): void {
    this.#team.endSession(ends)
  }

  /** Returns what the team has now, as records. Empty if no run has left anything. */
  facts(): Unrecorded[] {
    const facts = [...this.#team.facts((index) => this.#names.has(index))].flatMap((fact): Unrecorded[] => {
      if (fact.kind !== 'thread') return [fact]
      return fact.speaker ? [{ ...fact, owner: null }] : [] // whoever rehearses it is nobody's caller
    })
    const names = Array.from(this.#names, ([index, name]): Unrecorded => ({ kind: 'name', index, name }))
    return facts.length === 0 ? [] : [...names, ...facts]
  }
}

export interface FoldedRun {
  readonly directory: Directory
  readonly indexOf: IndexOf
}

export class TeamFold {
  readonly #directory: Directory
  readonly #work: OpenWork
  readonly #status: StatusFold
  readonly #agents = new Map<number, AgentView>()
  /** Open turns that the log tells of: instance by agent and message. */
  readonly #turns = new Map<string, { index: number; instance: number | undefined }>()
  readonly #board = new Board({ onCallbackError: () => {} })
  readonly #tasks = new Map<string, AgentTask>()

  constructor({ directory, indexOf }: FoldedRun) {
    this.#directory = directory
    this.#work = new OpenWork(indexOf)
    this.#status = new StatusFold((index) => directory.name(index))
  }

  see(entry: LogEntry): void {
    this.#work.see(entry)
    if (entry.kind === 'frames') {
      for (const [memory, at] of framesIn([entry]))
        for (const change of this.#status.frame(memory, at)) this.#changed(change)
      return
    }
    this.#changed(statusAfter(entry, this.#status))
    switch (entry.kind) {
      case 'turn.started':
        return this.#begun(entry.index, entry.messageId, entry.instance ?? 0)
      case 'turns':
        for (const [index, , , id] of entry.turns) this.#begun(index, id, undefined)
        return
      case 'log.opened': // the threads of the process before are gone
        return this.#turns.clear()
      case 'agent.exited':
        return this.#exited(entry.index, entry.instance ?? 0)
      case 'blackboard':
        return this.#board.restore(entry.entry)
      case 'task':
        this.#tasks.set(entry.task.id, entry.task)
    }
  }

  #changed(change: StatusChange | undefined): void {
    if (change) this.#agents.set(change.index, { agent: change.agent, status: change.status })
  }

  #begun(index: number, messageId: string, instance: number | undefined): void {
    this.#turns.set(keyOf(index, messageId), { index, instance })
  }

  /** The turns of a thread that has ended give their messages back. */
  #exited(index: number, instance: number): void {
    for (const [key, turn] of this.#turns)
      if (turn.index === index && (turn.instance ?? instance) === instance) this.#turns.delete(key)
  }

  view(): RunView {
    return {
      agents: Array.from(this.#agents.values(), (agent) => ({ ...agent })),
      mailboxes: this.#mailboxes(),
      waits: [
        ...Array.from(this.#work.waits, (wait) => this.#wait(wait)),
        ...Array.from(this.#work.calls, (call) => this.#call(call)),
      ],
      board: this.#board.snapshot(),
      tasks: Array.from(this.#tasks.values(), (task) => ({ ...task })),
    }
  }

  #mailboxes(): MailboxView[] {
    const byAgent = new Map<number, MessageView[]>()
    for (const message of this.#work.messages()) {
      const messages = byAgent.get(message.recipient)
      if (messages) messages.push(this.#message(message))
      else byAgent.set(message.recipient, [this.#message(message)])
    }
    return Array.from(byAgent, ([index, messages]) => ({ agent: this.#directory.name(index), messages }))
  }

  #message({ id, recipient, memory, at, attempt }: OpenMessage): MessageView {
    return {
      id,
      type: typeOf(memory, at),
      from: actingSender(memory, at) ?? this.#directory.name(senderOf(memory, at)),
      content: readBody(memory, at).content,
      priority: priorityOf(memory, at),
      sentAt: timeOf(memory, at),
      attempt,
      inTurn: this.#turns.has(keyOf(recipient, id)),
    }
  }

  #wait({ caller, message }: OpenWait): NamedWait {
    return {
      agent: this.#directory.name(caller),
      for: [this.#directory.name(message.recipient)],
      kind: typeOf(message.memory, message.at),
    }
  }

  #call({ caller, memory, at }: OpenCallFrame): NamedWait {
    const { content: kind, data } = readBody(memory, at)
    const concerns = subjectOf(Object(jsonIn(data)))
    return { agent: this.#directory.name(caller), for: concerns === undefined ? [] : [concerns], kind }
  }
}

const keyOf = (index: number, messageId: string): string => `${index} ${messageId}`
