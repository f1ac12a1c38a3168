/**
 * A run as a chat tells it. A fold of its events: whoever reads the run, and whenever, gets the same pieces. So no
 * route of a chat keeps anything, and one that was cut off goes on behind the event that its client has seen last.
 */
import type { RuntimeEvent } from '../../index.ts'
import { STREAMED, type StreamPart, StreamParts } from '../../runtime/runs/stream-parts.ts'
import { refusalFor } from '../http/problem.ts'
import type { FoundTask } from '../http/task-view.ts'

type EventOf<Type extends RuntimeEvent['type']> = Extract<RuntimeEvent<unknown>, { type: Type }>

/** Question as it is shown now; `agreed`: people who have agreed to that. */
export type Asked = EventOf<'question'> & { readonly agreed: readonly { id: string; at: number }[] }

export type Piece =
  | { kind: 'agent'; agent: string; messageId: string; isDone: boolean }
  /** Words come in parts, which are open until their end. Joined, the texts that do not fall are the answer. */
  | { kind: 'begin'; part: Words; id: string; agent: string }
  | { kind: 'words'; part: Words; id: string; text: string }
  | { kind: 'end'; part: Words; id: string }
  /** The text of that part is not the answer: it stands before a call of a tool, or was made again. */
  | { kind: 'fell'; id: string; reason: string }
  | { kind: 'call'; callId: string; tool: string; agent: string; input: unknown }
  | { kind: 'progress'; callId: string; note: string }
  | { kind: 'output'; callId: string; output: unknown }
  | { kind: 'failed'; callId: string; error: string }
  | { kind: 'denied'; callId: string }
  /** `refusal`: why the reader may not answer; undefined: it may. */
  | { kind: 'asked'; question: Asked; refusal: string | undefined }
  | { kind: 'closed'; question: Asked; end: EventOf<'question.closed'> }
  /** The reader has to answer before there is more. */
  | { kind: 'pause' }
  | { kind: 'over'; result: EventOf<'run.finished'>['result'] }
  /** The run goes on in another process, or later. */
  | { kind: 'interrupted' }

type Words = 'text' | 'reasoning'

/** A piece, and the `seq` of the event up to which the run is told with it. */
export type Told = Piece & { readonly seq: number }

const TYPES: RuntimeEvent['type'][] = [...STREAMED, 'turn.started', 'turn.finished']

export interface Reading {
  /** `seq` of the event up to which the reader has the run. Default: it has nothing of it. */
  readonly after?: number | undefined
  /** false: ends with what is known now. Default: true. */
  readonly follow?: boolean
  readonly signal: AbortSignal
}

/**
 * Yields a run for its reader from its begin, or behind the event with the `seq` that was told last, until it is over
 * or waits for the reader.
 */
export async function* storyOf(
  { run, caller, approveOwn }: FoundTask,
  { after = -1, signal, follow = true }: Reading,
): AsyncGenerator<Told> {
  const story = new Story()
  const shown = new Map<string, string>()
  let seq = -1
  /** Says what is asked now. Returns true if the reader has to answer first. */
  function* asking(): Generator<Told, boolean> {
    let isOffered = false
    for (const question of story.questions.values()) {
      const { questionId, digest } = question
      const refusal = refusalFor(caller, question, run.metadata, approveOwn)?.text
      isOffered ||= refusal === undefined
      const state = `${digest} ${refusal}`
      if (shown.get(questionId) !== state) yield { kind: 'asked', question, refusal, seq }
      shown.set(questionId, state)
    }
    const isPaused = isOffered && run.questions.every(({ questionId }) => shown.has(questionId))
    if (isPaused) for (const piece of [...story.close(), { kind: 'pause' } as const]) yield { ...piece, seq }
    return isPaused
  }
  for (const isLive of follow ? [false, true] : [false]) {
    for await (const event of run.events({ types: TYPES, follow: isLive, signal, after: seq })) {
      if (seq <= after && event.seq > after) Array.from(story.close()) // at a pause no part is open
      seq = event.seq
      for (const piece of story.of(event)) if (seq > after) yield { ...piece, seq }
      if (event.type === 'run.finished') return
      if (isLive && (yield* asking())) return
    }
    if (signal.aborted) return
    if (!isLive && (yield* asking())) return // what was answered until now is not asked again
  }
  if (follow) yield { kind: 'interrupted', seq }
}

class Story {
  readonly #parts = new StreamParts<unknown>()
  /** Parts that are open, by id. */
  readonly #open = new Map<string, Words>()
  /** Number of times that the words of a call of a model fell, by its id. */
  readonly #fallen = new Map<string, number>()
  /** Texts that came, by the id of their part. */
  readonly #texts = new Set<string>()
  /** Calls of tools that were told, and those that have no end yet. */
  readonly #calls = new Set<string>()
  readonly #running = new Set<string>()
  /** Questions that nobody has answered, by id. */
  readonly questions = new Map<string, Asked>()

  #idOf(callId: string): string {
    return `${callId}:${this.#fallen.get(callId) ?? 0}`
  }

  *of(event: RuntimeEvent<unknown>): Generator<Piece> {
    if (event.type === 'turn.started' || event.type === 'turn.finished') {
      const { agent, messageId, type } = event
      if (!agent.startsWith('$')) yield { kind: 'agent', agent, messageId, isDone: type === 'turn.finished' }
    } else if (!isUnheard(event)) for (const part of this.#parts.of(event)) yield* this.#of(part)
  }

  *#of(part: StreamPart<unknown>): Generator<Piece> {
    switch (part.type) {
      case 'text':
        if (part.final) yield* this.#words('text', part)
        return
      case 'reasoning':
        return yield* this.#words('reasoning', part)
      case 'superseded':
        return yield* this.#fell(part)
      case 'tool.started':
        return yield* this.#call(part)
      case 'tool.progress':
        return yield { kind: 'progress', callId: part.callId, note: part.note }
      case 'tool.finished':
        if (!this.#running.delete(part.callId)) return
        if (part.error) yield { kind: 'failed', callId: part.callId, error: part.error.message }
        else yield { kind: 'output', callId: part.callId, output: part.output ?? null }
        return
      case 'question':
        this.questions.set(part.questionId, { ...part, agreed: [] })
        return yield* this.#call(part)
      case 'question.voted':
        return this.#voted(part)
      case 'question.closed':
        return yield* this.#closed(part)
      case 'run.finished':
        yield* this.close()
        for (const callId of this.#running) yield { kind: 'failed', callId, error: 'The run is over without its end.' }
        yield { kind: 'over', result: part.result }
    }
  }

  /** Ends the parts that are open. */
  *close(isMeant: (id: string, part: Words) => boolean = () => true): Generator<Piece> {
    for (const [id, part] of this.#open) {
      if (!isMeant(id, part)) continue
      this.#open.delete(id)
      yield { kind: 'end', part, id }
    }
  }

  *#words(part: Words, { callId, agent, text }: { callId: string; agent: string; text: string }): Generator<Piece> {
    if (text === '') return
    const id = `${part === 'text' ? 't' : 'r'}:${this.#idOf(callId)}`
    if (!this.#open.has(id)) {
      if (part === 'text') yield* this.close((other, kind) => kind === 'text' || other === `r:${this.#idOf(callId)}`)
      this.#open.set(id, part)
      if (part === 'text') this.#texts.add(id)
      yield { kind: 'begin', part, id, agent }
    }
    yield { kind: 'words', part, id, text }
  }

  *#fell({ callId, reason }: { callId: string; reason: string }): Generator<Piece> {
    const id = this.#idOf(callId)
    yield* this.close((other) => other.slice(2) === id)
    if (this.#texts.delete(`t:${id}`)) yield { kind: 'fell', id: `t:${id}`, reason }
    this.#fallen.set(callId, (this.#fallen.get(callId) ?? 0) + 1)
  }

  /** A call is told once, also if it asks before it begins, or is made again after a crash. */
  *#call({ callId, tool, agent, input }: Partial<Omit<EventOf<'tool.started'>, 'type'>>): Generator<Piece> {
    if (callId === undefined || this.#calls.has(callId)) return
    yield* this.close()
    this.#calls.add(callId)
    this.#running.add(callId)
    yield { kind: 'call', callId, tool: tool!, agent: agent!, input: input ?? {} }
  }

  #voted({ questionId, digest, by, at, input, text }: EventOf<'question.voted'>): void {
    const question = this.questions.get(questionId)
    if (!question) return
    const edited = text !== undefined && { text, input }
    const agreed = [...(edited ? [] : question.agreed), { id: by, at }]
    this.questions.set(questionId, { ...question, ...edited, digest, agreed })
  }

  *#closed(end: EventOf<'question.closed'>): Generator<Piece> {
    const question = this.questions.get(end.questionId)
    if (!question) return
    this.questions.delete(end.questionId)
    yield { kind: 'closed', question, end }
    const isDenied = question.kind === 'approval' && !(end.how === 'answered' && end.answer === 'yes')
    if (isDenied && this.#running.delete(question.callId!)) yield { kind: 'denied', callId: question.callId! }
  }
}

/** Words of several of whom one is chosen: what is chosen comes as a whole. */
const isUnheard = (event: RuntimeEvent<unknown>): boolean =>
  event.type === 'model.delta' && event.part === 'text' && event.answerOf !== 'run'
