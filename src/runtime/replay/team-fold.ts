/** Fold of the entries of a run: agents, messages, waits, board and tasks as they were after the last one. */
import type { AgentTask } from '../../actors/definition/task.ts'
import { Board } from '../../blackboard/board.ts'
import { actingSender, type Directory, jsonIn } from '../../mailbox/codec.ts'
import { lengthOf, priorityOf, senderOf, timeOf, typeOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { NamedWait } from '../log/alarms.ts'
import type { FrameBlock, LogEntry } from '../log/records.ts'
import { type StatusChange, StatusFold, statusAfter } from '../runs/agent-status.ts'
import { subjectOf } from '../state/call-subject.ts'
import { type IndexOf, type OpenCallFrame, type OpenMessage, type OpenWait, OpenWork } from '../state/open-work.ts'
import type { AgentView, MailboxView, MessageView, RunView } from './run-view.ts'

/** Run whose entries are folded. */
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
    if (entry.kind === 'frames') return this.#frames(entry)
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

  #frames({ memory, from, to }: FrameBlock): void {
    for (let at = from; at < to; at += lengthOf(memory, at)) {
      this.#changed(this.#status.beginsUnannounced(memory, at))
      this.#changed(this.#status.ofSender(memory, at))
      this.#changed(this.#status.ofRecipient(memory, at))
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
