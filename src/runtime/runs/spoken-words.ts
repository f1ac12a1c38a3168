/**
 * The words of a run as they are said, for a reader that cannot take words back. Where others follow that do not go on
 * with them, a gap stands between: after a round of tools, at the next speaker, and where an answer is made again. The
 * words of a run that succeeds end with its answer, unless a script of the user's says something else in its place.
 */
import type { RuntimeEvent } from './events.ts'
import { type StreamPart, StreamParts } from './stream-parts.ts'

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
    if (event.type === 'run.finished') return this.#rest(event.result.finalOutput ?? '')
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
    return this.#call === part.callId ? this.#goOn(part.text) : this.#begin(part.text, part.callId)
  }

  #goOn(text: string): string[] {
    this.#said += text
    return [text]
  }

  #begin(text: string, call: string): string[] {
    const words = this.#said === '' ? [text] : [GAP, text]
    this.#call = call
    this.#said = text
    return words
  }

  #rest(answer: string): string[] {
    if (answer === '' || this.#said.endsWith(answer)) return []
    if (this.#call !== undefined && answer.startsWith(this.#said)) return [answer.slice(this.#said.length)]
    return this.#call === OF_SCRIPT ? [] : this.#begin(answer, OF_SCRIPT)
  }
}
