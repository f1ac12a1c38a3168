/**
 * Turns the events of a run into the parts that a chat shows: text, reasoning and tool inputs as models write them, and
 * what of it does not count. Joined, the texts with `final` that were not superseded are the answer of the run, also
 * where an agent with code or a script has made it.
 */
import type { Watched } from '../../actors/definition/model.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { PartialJson } from '../../shared/partial-json.ts'
import type { ToolFinished, ToolProgress, ToolStarted } from '../log/records.ts'
import type { RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'

/**
 * Compares a text with what a script says, both of which come in pieces: does the text begin with the words of the
 * script? Each letter is compared once, when the other side has got as far.
 */
type Side = 'text' | 'script'

export class PrefixMatch {
  /** Pieces of the longer side that the other one has not reached, and how much of the first it has. */
  #ahead: string[] = []
  #next = 0
  #from = 0
  #longer: Side = 'text'
  #differs = false

  /** True if the text begins with all that the script has said. */
  get isScriptCovered(): boolean {
    return !this.#differs && (this.#longer === 'text' || this.#ahead.length === 0)
  }

  add(side: Side, piece: string): void {
    if (this.#differs) return
    const rest = side === this.#longer ? piece : this.#compared(piece)
    if (rest === '') return
    this.#longer = side
    this.#ahead.push(rest)
  }

  /** Compares a piece with what is ahead of it. Returns the end of it that is ahead itself. */
  #compared(piece: string): string {
    let at = 0
    while (at < piece.length && this.#next < this.#ahead.length) {
      const ahead = this.#ahead[this.#next]!
      const size = Math.min(piece.length - at, ahead.length - this.#from)
      if (!ahead.startsWith(piece.slice(at, at + size), this.#from)) {
        this.#differs = true
        this.#ahead = []
        return ''
      }
      at += size
      this.#from += size
      if (this.#from < ahead.length) continue
      this.#next += 1
      this.#from = 0
    }
    if (this.#next < this.#ahead.length) return ''
    this.#ahead = []
    this.#next = 0
    return piece.slice(at)
  }
}

/** A value of which any part may not be there yet. */
export type DeepPartial<T> = T extends readonly (infer Item)[]
  ? DeepPartial<Item>[]
  : T extends object
    ? { [Key in keyof T]?: DeepPartial<T[Key]> }
    : T

/** Reason why pieces do not count. */
export type SupersededReason = 'tool_calls' | 'retried' | 'steered' | 'replaced'

type Part<Type extends string, Fields> = { type: Type; seq: number; at: number } & Fields

/** Call of a model that a part belongs to. `round`: the round of model and tools of the turn, from 1 on. */
interface OfCall {
  agent: string
  messageId: string
  callId: string
  round: number
}

/**
 * Part of a run as it comes, from `run.stream()`. `seq` ascends; `at` is epoch ms. A part with the type of an event is
 * that event.
 *
 * @example
 * for await (const part of run.stream()) {
 *   if (part.type === 'text' && part.final) show(part.callId, part.text)
 *   if (part.type === 'superseded') hide(part.callId)
 * }
 */
export type StreamPart<T = undefined> =
  /** `final`: part of the answer of the run, unless it is superseded later. */
  | Part<'text', OfCall & { text: string; final: boolean }>
  | Part<'reasoning', OfCall & { text: string }>
  /** Part of the input of a tool, as the model writes it. `toolCallId`: the provider's id of the call. */
  | Part<'tool.input', OfCall & { toolCallId: string; tool: string; text: string }>
  /**
   * The words of the call do not count. 'tool_calls': its text, because the round ended in tool calls; 'retried': all
   * of them, because the model is asked again; 'steered': all of them, because somebody has said something to the run;
   * 'replaced': its text, because the answer of the run is another one.
   */
  | Part<'superseded', OfCall & { reason: SupersededReason }>
  /** The answer so far, in a run with `output`. Not checked: the checked value is `result.data`. */
  | Part<'object', OfCall & { object: DeepPartial<T> }>
  /** That agent speaks from now on; `from`: who did so until now. */
  | Part<'speaker', { agent: string; from: string | null }>
  | Part<'tool.started', ToolStarted>
  | Part<'tool.progress', ToolProgress>
  | Part<'tool.finished', ToolFinished>
  | Extract<RuntimeEvent, { type: 'question' | 'question.voted' | 'question.closed' }>
  | Extract<RuntimeEvent, { type: 'steer' | 'steer.read' | 'steer.unread' }>
  | Part<'run.finished', { result: MultiAgentResult<T> }>

/** Types of the events that the parts are made of. */
export const STREAMED: readonly RuntimeEvent['type'][] = [
  'model.delta',
  'model.superseded',
  'output.delta',
  'speaker',
  'tool.started',
  'tool.progress',
  'tool.finished',
  'question',
  'question.voted',
  'question.closed',
  'steer',
  'steer.read',
  'steer.unread',
  'run.finished',
]

/** Words of a call of a model. */
interface Said {
  readonly of: OfCall
  readonly answerOf: Watched['answerOf']
  /** Text so far, if it may be the answer of the run. */
  text: string
  /** Comparison of that text with what the script has said so far. */
  relay: PrefixMatch
  hasText: boolean
  /** Number of pieces that were not superseded. */
  count: number
  json: PartialJson | undefined
}

type Unnumbered<T> = StreamPart<T> extends infer P ? (P extends { seq: number } ? Omit<P, 'seq' | 'at'> : never) : never

/** Stands for the call where the script has the words, or an agent with code, and no model. */
const SCRIPT: OfCall = { agent: ORCHESTRATOR, messageId: '', callId: '', round: 1 }

const mayBeOfRun = (answerOf: Watched['answerOf']): boolean => answerOf === 'run' || answerOf === 'choice'

/** Numbers that an entry of the log leaves for its parts. */
const MOST_NUMBERS = 7

export class StreamParts<T> {
  readonly #objectIn: ((answer: unknown) => unknown) | undefined
  readonly #calls = new Map<string, Said>()
  /** Last call of each turn, by the message that it handles. */
  readonly #ofTurns = new Map<string, Said>()
  /** Texts that may be the answer. */
  readonly #candidates = new Set<Said>()
  /** Words of the script as the answer, and the part of them that was yielded as its own. */
  #script = ''
  #yielded = ''

  /** `objectIn`: returns what a part of an answer has of the object that a schema asks for. Absent: none asks. */
  constructor(objectIn?: (answer: unknown) => unknown) {
    this.#objectIn = objectIn
  }

  /** Returns the parts of an event. All events of `STREAMED` have to come, in order. */
  of(event: RuntimeEvent<T>): StreamPart<T>[] {
    const { seq, at } = event
    return [...this.#of(event)].map(
      (part, i) => ({ ...part, seq: seq + Math.min(i, MOST_NUMBERS), at }) as unknown as StreamPart<T>,
    )
  }

  *#of(event: RuntimeEvent<T>): Generator<Unnumbered<T>> {
    switch (event.type) {
      case 'model.delta':
        yield* this.#delta(event)
        return
      case 'model.superseded': {
        const said = this.#calls.get(event.callId)
        if (said && said.count > 0) yield this.#supersede(said, event.reason)
        return
      }
      case 'output.delta':
        if (event.final) yield* this.#scripted(event.chunk)
        return
      case 'run.finished': {
        const { result } = event
        if (result.success) yield* this.#finished(result.finalOutput)
        yield { type: event.type, result }
        return
      }
      case 'speaker':
      case 'tool.started':
      case 'tool.progress':
      case 'tool.finished':
      case 'question':
      case 'question.voted':
      case 'question.closed':
      case 'steer':
      case 'steer.read':
      case 'steer.unread':
        yield event as unknown as Unnumbered<T>
    }
  }

  *#delta(event: Extract<RuntimeEvent<T>, { type: 'model.delta' }>): Generator<Unnumbered<T>> {
    const { agent, messageId, callId, round, answerOf, part, text } = event
    let said = this.#calls.get(callId)
    if (!said) {
      const of = { agent, messageId, callId, round }
      said = { of, answerOf, text: '', relay: new PrefixMatch(), hasText: false, count: 0, json: undefined }
      yield* this.#begin(said)
    }
    said.count += 1
    const { of } = said
    if (part === 'reasoning') yield { type: 'reasoning', ...of, text }
    else if (part === 'tool_input')
      yield { type: 'tool.input', ...of, toolCallId: event.toolCallId ?? '', tool: event.tool ?? '', text }
    else {
      said.hasText = true
      const final = mayBeOfRun(answerOf)
      if (final) this.#mayBeAnswer(said, text)
      yield { type: 'text', ...of, text, final }
      yield* this.#object(said, text)
    }
  }

  /** Keeps the words of a text that may be the answer. A reader keeps no others: a run may be long. */
  #mayBeAnswer(said: Said, text: string): void {
    if (text === '') return
    if (!this.#candidates.has(said)) {
      this.#candidates.add(said)
      said.relay = new PrefixMatch()
      said.relay.add('script', this.#script)
    }
    said.text += text
    said.relay.add('text', text)
  }

  /** A turn that asks its model again without having called a tool has dropped what it was told. */
  *#begin(said: Said): Generator<Unnumbered<T>> {
    const { messageId, callId } = said.of
    this.#calls.set(callId, said)
    if (said.answerOf === 'call') return
    const before = this.#ofTurns.get(messageId)
    this.#ofTurns.set(messageId, said)
    if (before?.hasText) yield this.#supersede(before, 'retried')
  }

  *#object(said: Said, text: string): Generator<Unnumbered<T>> {
    if (!this.#objectIn || !mayBeOfRun(said.answerOf)) return
    said.json ??= new PartialJson()
    const read = said.json.push(text)
    const object = read && this.#objectIn(read.value)
    if (object !== undefined) yield { type: 'object', ...said.of, object: object as DeepPartial<T> }
  }

  #supersede(said: Said, reason: SupersededReason): Unnumbered<T> {
    this.#candidates.delete(said)
    said.text = ''
    said.hasText = false
    said.count = 0
    said.json = undefined
    return { type: 'superseded', ...said.of, reason }
  }

  /** The script mostly relays what a model has said. Only what is more, or something else, is a part of its own. */
  *#scripted(chunk: string): Generator<Unnumbered<T>> {
    const isFirst = this.#yielded === ''
    this.#script += chunk
    for (const { relay } of this.#candidates) relay.add('script', chunk)
    if (isFirst && [...this.#candidates].some(({ relay }) => relay.isScriptCovered)) return
    yield* this.#own(isFirst ? this.#script : chunk, this.#script)
  }

  *#finished(answer: string): Generator<Unnumbered<T>> {
    const candidates = this.#yielded === '' ? [...this.#candidates] : []
    const said =
      candidates.findLast(({ text }) => text === answer) ?? candidates.findLast(({ text }) => answer.startsWith(text))
    if (!said) return yield* this.#say(answer)
    for (const other of candidates) if (other !== said) yield this.#supersede(other, 'replaced')
    const rest = answer.slice(said.text.length)
    if (rest !== '') yield { type: 'text', ...SCRIPT, text: rest, final: true }
  }

  /** Yields what is missing of an answer that no model has said. */
  *#say(answer: string): Generator<Unnumbered<T>> {
    const isMore = answer.startsWith(this.#yielded)
    if (!isMore) yield { type: 'superseded', ...SCRIPT, reason: 'replaced' }
    yield* this.#own(isMore ? answer.slice(this.#yielded.length) : answer, answer)
  }

  /** Yields words of the script as a part of its own. `all`: its words until then, and these. */
  *#own(text: string, all: string): Generator<Unnumbered<T>> {
    for (const said of [...this.#candidates]) yield this.#supersede(said, 'replaced')
    if (text !== '') yield { type: 'text', ...SCRIPT, text, final: true }
    this.#yielded = all
  }
}

/*
 * The words of a run as they are said, for a reader that cannot take words back. Where others follow that do not go on
 * with them, a gap stands between: after a round of tools, at the next speaker, and where an answer is made again. The
 * words of a run that succeeds end with its answer, unless a script of the user's says something else in its place.
 */

/** Types of the events that have the words of a run. */
export const SPOKEN = [
  'model.delta',
  'model.superseded',
  'output.delta',
  'run.finished',
] as const satisfies readonly RuntimeEvent['type'][]

const GAP = '\n\n'
/** Number of the call where a script has the words. */
const OF_SCRIPT = ''

export class SpokenWords {
  readonly #parts = new StreamParts<unknown>()
  /** Call whose words are said now; undefined if what comes next does not go on with them. */
  #call: string | undefined
  /** Words since the last gap. */
  #said = ''

  /** Returns the words of an event. All events of `SPOKEN` have to come, in order. */
  of(event: RuntimeEvent<unknown>): string[] {
    if (event.type === 'run.finished') return this.rest(event.result.finalOutput ?? '')
    // An answer that several may have is read when it is chosen.
    if (event.type === 'model.delta' && (event.answerOf !== 'run' || event.part !== 'text')) return []
    if (event.type === 'model.superseded' && event.reason === 'tool_calls') {
      if (event.callId === this.#call) this.#call = undefined
      return [] // the words were said: a script may relay them still
    }
    return this.#parts.of(event).flatMap((part) => this.#words(part))
  }

  #words(part: StreamPart<unknown>): string[] {
    if (part.type === 'superseded' && part.callId === this.#call) this.#call = undefined
    if (part.type !== 'text' || part.text === '') return []
    if (this.#call === OF_SCRIPT && part.callId !== OF_SCRIPT) return [] // who emits decides what is read
    if (this.#call !== part.callId) return this.#begin(part.text, part.callId)
    this.#said += part.text
    return [part.text]
  }

  #begin(text: string, call: string): string[] {
    const words = this.#said === '' ? [text] : [GAP, text]
    this.#call = call
    this.#said = text
    return words
  }

  /** Returns words that are none of the speaker's, between gaps. */
  aside(text: string): string[] {
    if (this.#call === OF_SCRIPT) return [GAP, text, GAP]
    const words = this.#begin(text, '')
    this.#call = undefined
    return words
  }

  /** Returns what is missing of the words of a run that ends with that answer. */
  rest(answer: string): string[] {
    if (answer === '' || this.#said.endsWith(answer)) return []
    if (this.#call !== undefined && answer.startsWith(this.#said)) return [answer.slice(this.#said.length)]
    return this.#call === OF_SCRIPT ? [] : this.#begin(answer, OF_SCRIPT)
  }
}
