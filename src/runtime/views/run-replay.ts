/** Steps through the entries of a run, and shows the state after each of them. */
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
import type { Memory } from '../../mailbox/frame.ts'
import * as frame from '../../mailbox/frame.ts'
import { ConfigurationError, shown, UnknownRunError } from '../../shared/errors.ts'
import type { IndexOf } from '../durability/open-work.ts'
import { directoryOf, type RunState } from '../host/run.ts'
import { toolEventOf } from '../log/host-frames.ts'
import { type HostRecord, type LogEntry, SEQ_STEP, type ToolEvent, toolEventFrom } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import { subjectOf } from '../verbs/calls.ts'
import { type FoldedRun, type RunMoment, type RunReplay, type RunView, TeamFold } from './team-fold.ts'

/** Most characters of what an agent, a model or a person has said. */
const LONGEST_QUOTE = 120

class MomentWords {
  readonly #directory: Directory
  readonly #redactor: Redactor
  readonly #calls = new Map<string, string>()
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
    const agent = this.#directory.name(frame.senderOf(memory, at))
    const tool = toolEventOf(memory, at, agent)
    if (tool) return this.#toolWords(tool)
    if (isMessage(memory, at)) return isCopy(memory, at) ? undefined : this.#message(memory, at)
    const { content, data } = frame.readBody(memory, at)
    switch (frame.kindOf(memory, at)) {
      case frame.END:
        return frame.flagsOf(memory, at) & frame.BEGINS_AGAIN
          ? `${agent} fails, and tries its turn again`
          : `${agent} has handled the message of ${this.#senders.get(frame.idOf(memory, at)) ?? 'another agent'}`
      case frame.CALL: {
        const verb = this.#verbWords(content, Object(jsonIn(data)))
        this.#calls.set(`${frame.senderOf(memory, at)} ${frame.correlationOf(memory, at)}`, verb)
        return `${agent} calls ${verb}`
      }
      case frame.RESULT:
        return this.#result(memory, at)
      case frame.STEP_BEGAN:
        return `${agent} begins the step "${content}"`
      case frame.STEP_DONE: {
        const failure = isFailure(memory, at) ? ` fails: ${this.#quoted(errorOf(memory, at).message)}` : ' is done'
        return `the step "${content}" of ${agent}${failure}`
      }
      case frame.REPLAYED:
        return `the step "${content}" of ${agent} is answered from the log`
      case frame.CANCEL:
        return `${agent} withdraws a request or call`
      case frame.REFUSED:
        return `a message of ${this.#directory.name(frame.recipientOf(memory, at))} is refused: ${this.#quoted(errorOf(memory, at).message)}`
      case frame.SLEEP:
        return `${agent} sleeps for ${Math.round(frame.limitOf(memory, at))} ms`
      case frame.SLEPT:
        return `${agent} has slept`
      case frame.LOG:
        return `${agent} logs ${this.#quoted(content)}`
      default:
        return undefined
    }
  }

  #message(memory: Memory, at: number): string {
    const kind = frame.kindOf(memory, at)
    const { sender: agent, recipient, content } = decodeMessage(memory, at, this.#directory)
    if (kind === frame.END || kind === frame.RESPONSE) {
      if (isFailure(memory, at)) return `${agent} fails for ${recipient}: ${this.#quoted(content)}`
      return `${agent} answers ${recipient}: ${this.#quoted(content)}`
    }
    this.#senders.set(frame.idOf(memory, at), agent)
    const to = Array.isArray(recipient) ? recipient.join(', ') : recipient === null ? 'all' : undefined
    return `${agent} sends ${to ?? addresseeOf(memory, at, this.#directory)} a ${frame.typeOf(memory, at)}: ${this.#quoted(content)}`
  }

  #result(memory: Memory, at: number): string {
    const agent = this.#directory.name(frame.recipientOf(memory, at))
    const key = `${frame.recipientOf(memory, at)} ${frame.correlationOf(memory, at)}`
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
      case 'question.voted':
        return `${this.#quoted(record.by)} agrees to what ${record.agent} asks${this.#withInput(record)}`
      case 'steer':
        return `${record.by === null ? 'a person' : this.#quoted(record.by)} says to ${record.to ?? 'all'}: ${this.#quoted(record.text)}`
      case 'steer.read':
        return `${record.agent} reads what was said`
      case 'steer.again':
        return `${record.agent} has no answer to what was said, and reads it once more`
      case 'steer.unread':
        return `nobody has read what was said to ${record.to ?? 'all'}: ${this.#quoted(record.text)}`
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
        const { agent, model, usage, money, error } = record
        if (error) return `the model ${model} has no answer for ${agent}: ${this.#quoted(error.message)}`
        const cost = money === undefined ? '' : ` and ${money} of money`
        return `the model ${model} has answered ${agent}, for ${usage.totalTokens} tokens${cost}`
      }
      case 'model.switched':
        return `${record.to} answers ${record.agent} in place of ${record.from}: ${record.reason}`
      case 'budget':
        return `${record.agent ?? record.tenant ?? 'the team'} has used ${record.used} of ${record.limit} ${record.unit ?? 'tokens'}`
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

interface Names {
  readonly names: Directory
  readonly indexOf: IndexOf
}

/**
 * Copies the entries of a run: the memory of a log that is full is used again.
 *
 * @throws UnknownRunError if its oldest entries were discarded.
 */
export function pastInMemory(run: RunState, { names, indexOf }: Names): Past {
  const { forgotten } = run.log
  if (forgotten > 0) {
    const text = `The oldest ${forgotten} entries of run "${run.id}" are no longer in memory, so its past cannot be told. With stateManagement: { path } the log keeps them.`
    throw new UnknownRunError(text, { runId: run.id, forgotten })
  }
  const entries = Array.from(run.log.entries(), copied)
  return { before: [], entries, directory: directoryOf(run, names), indexOf }
}

function copied(entry: LogEntry): LogEntry {
  if (entry.kind !== 'frames') return entry
  const bytes = entry.to - entry.from
  const memory = frame.allocate(bytes)
  memory.u8.set(entry.memory.u8.subarray(entry.from, entry.to))
  return { ...entry, memory, from: 0, to: bytes }
}

export interface Past extends FoldedRun {
  /** State of the team when the run was launched, as entries. */
  readonly before: readonly LogEntry[]
  /** Entries of the run, in the order of their numbers. Nobody changes them. */
  readonly entries: readonly LogEntry[]
}

export class LoggedReplay implements RunReplay {
  readonly #past: Past
  readonly #redactor: Redactor
  /** Each entry, and each frame of a block, by itself. */
  readonly #entries: readonly LogEntry[]
  readonly seqs: readonly number[]
  #fold: TeamFold
  #seen = 0
  #moments: readonly RunMoment[] | undefined

  constructor(past: Past, redactor: Redactor) {
    this.#past = past
    this.#redactor = redactor
    this.#entries = past.entries.flatMap((entry) => [...momentsOf(entry)])
    this.seqs = this.#entries.map(({ seq }) => seq)
    this.#fold = this.#begin()
  }

  get length(): number {
    return this.seqs.length
  }

  get moments(): readonly RunMoment[] {
    this.#moments ??= this.#redactor.data(this.#told())
    return this.#moments
  }

  #told(): RunMoment[] {
    const words = new MomentWords(this.#past.directory, this.#redactor)
    return this.#entries.flatMap((entry) => {
      const sentence = words.of(entry)
      return sentence === undefined ? [] : [{ seq: entry.seq, at: entry.at, sentence }]
    })
  }

  at(seq: number): RunView {
    if (typeof seq !== 'number' || Number.isNaN(seq)) {
      const accepted = 'a number: one of `seqs`, or the `seq` of an event'
      throw new ConfigurationError(`seq: ${shown(seq)}; accepted: ${accepted}.`, { path: 'seq', got: seq, accepted })
    }
    const end = this.#countUpTo(seq)
    if (end < this.#seen) {
      this.#fold = this.#begin()
      this.#seen = 0
    }
    for (; this.#seen < end; this.#seen++) this.#fold.see(this.#entries[this.#seen]!)
    return this.#redactor.data(this.#fold.view())
  }

  #begin(): TeamFold {
    const fold = new TeamFold(this.#past)
    for (const entry of this.#past.before) fold.see(entry)
    return fold
  }

  /** Returns the number of moments up to that one. */
  #countUpTo(seq: number): number {
    let low = 0
    let high = this.seqs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.seqs[middle]! <= seq) low = middle + 1
      else high = middle
    }
    return low
  }
}

function* momentsOf(entry: LogEntry): Iterable<LogEntry> {
  if (entry.kind !== 'frames') return yield entry
  let { seq, from } = entry
  for (; from < entry.to; seq += SEQ_STEP) {
    const to = from + frame.lengthOf(entry.memory, from)
    yield { ...entry, seq, from, to, count: 1 }
    from = to
  }
}
