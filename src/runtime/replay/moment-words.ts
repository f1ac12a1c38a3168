/** Says in one sentence what happened at a moment of a run: at an entry of its log, or at one frame. */
import type { TaskStatus } from '../../actors/definition/task.ts'
import {
  addresseeOf,
  type Directory,
  decodeMessage,
  errorOf,
  isCopy,
  isFailure,
  isMessage,
  jsonIn,
} from '../../mailbox/codec.ts'
import {
  BEGINS_AGAIN,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  LOG,
  limitOf,
  REFUSED,
  REPLAYED,
  RESPONSE,
  RESULT,
  recipientOf,
  SLEEP,
  SLEPT,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { type ToolEvent, toolEventFrom } from '../log/tool-event.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import type { Redactor } from '../logging/redactor.ts'
import { subjectOf } from '../state/call-subject.ts'

/** Most characters of what an agent, a model or a person has said. */
const LONGEST_QUOTE = 120

export class MomentWords {
  readonly #directory: Directory
  readonly #redactor: Redactor
  /** Names of the verbs that agents wait for, by agent and number of the call. */
  readonly #calls = new Map<string, string>()
  /** Senders of messages, by id. */
  readonly #senders = new Map<string, string>()

  constructor(directory: Directory, redactor: Redactor) {
    this.#directory = directory
    this.#redactor = redactor
  }

  /** Returns the sentence for an entry with at most one frame; undefined if it says nothing to a person. */
  of(entry: LogEntry): string | undefined {
    return entry.kind === 'frames' ? this.#frame(entry.memory, entry.from) : this.#record(entry)
  }

  #frame(memory: Memory, at: number): string | undefined {
    const agent = this.#directory.name(senderOf(memory, at))
    const tool = toolEventOf(memory, at, agent)
    if (tool) return this.#toolWords(tool)
    if (isMessage(memory, at)) return isCopy(memory, at) ? undefined : this.#message(memory, at, agent)
    const { content, data } = readBody(memory, at)
    switch (kindOf(memory, at)) {
      case END:
        return flagsOf(memory, at) & BEGINS_AGAIN
          ? `${agent} fails, and tries its turn again`
          : `${agent} has handled the message of ${this.#senders.get(idOf(memory, at)) ?? 'another agent'}`
      case CALL: {
        const verb = this.#verbWords(content, Object(jsonIn(data)))
        this.#calls.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, verb)
        return `${agent} calls ${verb}`
      }
      case RESULT:
        return this.#result(memory, at)
      case STEP_BEGAN:
        return `${agent} begins the step "${content}"`
      case STEP_DONE: {
        const failure = isFailure(memory, at) ? ` fails: ${this.#quoted(errorOf(memory, at).message)}` : ' is done'
        return `the step "${content}" of ${agent}${failure}`
      }
      case REPLAYED:
        return `the step "${content}" of ${agent} is answered from the log`
      case CANCEL:
        return `${agent} withdraws a request or call`
      case REFUSED:
        return `a message of ${this.#directory.name(recipientOf(memory, at))} is refused: ${this.#quoted(errorOf(memory, at).message)}`
      case SLEEP:
        return `${agent} sleeps for ${Math.round(limitOf(memory, at))} ms`
      case SLEPT:
        return `${agent} has slept`
      case LOG:
        return `${agent} logs ${this.#quoted(content)}`
      default:
        return undefined
    }
  }

  #message(memory: Memory, at: number, agent: string): string {
    const kind = kindOf(memory, at)
    const { content } = decodeMessage(memory, at, this.#directory)
    if (kind === END || kind === RESPONSE) {
      const to = this.#directory.name(recipientOf(memory, at))
      if (isFailure(memory, at)) return `${agent} fails for ${to}: ${this.#quoted(content)}`
      return `${agent} answers ${to}: ${this.#quoted(content)}`
    }
    this.#senders.set(idOf(memory, at), agent)
    const { recipient } = decodeMessage(memory, at, this.#directory)
    const to = Array.isArray(recipient) ? recipient.join(', ') : recipient === null ? 'all' : undefined
    return `${agent} sends ${to ?? addresseeOf(memory, at, this.#directory)} a ${typeOf(memory, at)}: ${this.#quoted(content)}`
  }

  #result(memory: Memory, at: number): string {
    const agent = this.#directory.name(recipientOf(memory, at))
    const key = `${recipientOf(memory, at)} ${correlationOf(memory, at)}`
    const verb = this.#calls.get(key) ?? 'a call'
    this.#calls.delete(key)
    return isFailure(memory, at)
      ? `${verb} of ${agent} fails: ${this.#quoted(errorOf(memory, at).message)}`
      : `${verb} of ${agent} is done`
  }

  #record(record: HostRecord): string | undefined {
    switch (record.kind) {
      case 'log.opened':
        return 'a process takes the log'
      case 'run.started':
        return `the run starts: ${this.#quoted(record.query)}`
      case 'run.finished':
        return record.error ? `the run fails: ${this.#quoted(record.error.message)}` : 'the run is finished'
      case 'run.aborted':
        return `the run is aborted: ${this.#quoted(record.reason)}`
      case 'agent.ready':
        return `${record.agent} is ready`
      case 'agent.crashed':
        return `${record.agent} crashes: ${this.#quoted(record.error.message)}`
      case 'agent.reloaded':
        return `${record.agent} runs newly loaded code`
      case 'agent.exited':
        return record.how === 'crashed' ? undefined : `the thread of ${record.agent} ends: ${record.how}`
      case 'agent.status':
        return record.status === 'failed' ? `${record.agent} is stopped for good` : undefined
      case 'turn.started': {
        const { agent, attempt, messageId } = record
        const again = attempt > 1 ? ` (attempt ${attempt})` : ''
        return `${agent} takes the message of ${this.#senders.get(messageId) ?? 'another agent'}${again}`
      }
      case 'message.dead': {
        const { message, reason } = record.letter
        return `a message of ${message.sender} is a dead letter: ${reason}`
      }
      case 'task': {
        const { assignedTo, description, status } = record.task
        return `a task of ${assignedTo ?? 'nobody'} is ${TASK_WORDS[status] ?? status}: ${this.#quoted(description)}`
      }
      case 'blackboard':
        return `${record.entry.author} writes "${record.entry.key}" on the blackboard, version ${record.entry.version}`
      case 'decision':
        return `decision: ${this.#quoted(record.question)}: ${this.#quoted(record.choice)}`
      case 'question':
        return `${record.agent} asks a person: ${this.#quoted(record.text)}`
      case 'answer':
        return `${record.by === undefined ? 'a person' : this.#quoted(record.by)} answers ${record.agent}: ${this.#quoted(record.answer)}${this.#withInput(record)}`
      case 'question.closed':
        return `a question of ${record.agent} ${record.how === 'late' ? 'was not answered in time' : 'was withdrawn'}`
      case 'alarm':
        return `${record.name}: ${record.sentence}`
      case 'sync': {
        const { arrived, missing } = record.result
        const without = missing.length > 0 ? ` without ${missing.join(', ')}` : ''
        return `sync point ${record.point}: ${arrived.join(', ') || 'nobody'} met${without}`
      }
      case 'handoff':
        return `handoff from ${record.from} to ${record.to}: ${record.step}`
      case 'reassignment':
        return `reassignment from ${record.from} to ${record.to}: ${record.step}`
      case 'tool.started':
      case 'tool.finished':
      case 'tool.progress':
        return this.#toolWords(toolEventFrom(record))
      case 'model.called': {
        const { agent, model, usage, error } = record
        if (error) return `the model ${model} has no answer for ${agent}: ${this.#quoted(error.message)}`
        return `the model ${model} has answered ${agent}, for ${usage.totalTokens} tokens`
      }
      case 'budget':
        return `${record.agent ?? 'the team'} has used ${record.used} of ${record.limit} tokens`
      case 'turn.retried':
        return `${record.agent} tries its turn again, for the ${record.tried}. time: ${this.#quoted(record.error.message)}`
      case 'request.retried':
        return `${record.caller} waits for ${record.agent} again, for the ${record.tried}. time`
      case 'escalated':
        return `${record.to} is told of the failure of ${record.agent}: ${this.#quoted(record.error.message)}`
      case 'step.mismatch':
        return `${record.agent} did not repeat its steps: ${this.#quoted(record.error.message)}`
      default:
        return undefined
    }
  }

  #verbWords(verb: string, args: Readonly<Record<string, unknown>>): string {
    const subject = subjectOf(args)
    return subject === undefined ? verb : `${verb} ${this.#quoted(subject)}`
  }

  #toolWords(event: ToolEvent): string {
    const { agent, tool } = event
    switch (event.type) {
      case 'tool.started':
        return `${agent} uses the tool ${tool}${event.simulated ? ', simulated' : ''}`
      case 'tool.finished':
        return `the tool ${tool} of ${agent} ${event.error ? `fails: ${this.#quoted(event.error.message)}` : 'is done'}`
      case 'tool.progress':
        return `the tool ${tool} of ${agent}: ${this.#quoted(event.note)}`
    }
  }

  /** Keys are removed before the text is cut: half a key is not found. */
  #withInput({ input, reason }: { input?: unknown; reason?: string }): string {
    if (reason !== undefined) return `, since ${this.#quoted(reason)}`
    return input === undefined ? '' : `, with the input ${this.#quoted(JSON.stringify(input))}`
  }

  #quoted(text: string): string {
    const letters = [...this.#redactor.text(text)]
    const isLong = letters.length > LONGEST_QUOTE
    return `"${isLong ? `${letters.slice(0, LONGEST_QUOTE - 1).join('')}…` : letters.join('')}"`
  }
}

const TASK_WORDS: Partial<Record<TaskStatus, string>> = { in_progress: 'in progress', handed_off: 'handed off' }
