/**
 * Takes the thoughts out of answers of models that write them into their text: `<think>...</think>` at its start, or
 * thoughts that only `</think>` ends, because the template of the model has written the tag before them. They become
 * reasoning, so nothing parses them or passes them on.
 */
import type { ModelPiece } from '../../actors/definition/model.ts'

const BEGIN = '<think>'
const END = '</think>'
/** Characters of blanks before the first word for which the tag is waited for. */
const MOST_BLANKS = 1_024

interface Options {
  /** The model thinks at the start of each answer: its words are held back until the tag, or the end. */
  readonly thinks: boolean
  /** Called if the words before a lone `</think>` have been yielded as text. */
  found(): void
}

/** Reads the pieces of one answer, and yields its thoughts as reasoning. */
export class Thoughts {
  readonly #options: Options
  /** 'start': nothing was said; 'thought': before the tag that ends it; 'held': perhaps so; 'answer': behind it. */
  #state: 'start' | 'thought' | 'held' | 'answer' = 'start'
  /** Text that was not yielded. */
  #kept = ''
  /** Place of the kept text. */
  #of: Pick<ModelPiece, 'block' | 'providerData'> = {}
  /** True while blanks between the thoughts and the answer are left out. */
  #isBlank = false
  #lone = new LoneTag()
  /** Pieces but texts, which are said again if the texts become reasoning. */
  #others: ModelPiece[] = []

  constructor(options: Options) {
    this.#options = options
  }

  /** A user's client can yield anything; the reader of the pieces reports what is wrong. */
  *take(piece: ModelPiece): Generator<ModelPiece> {
    const { text, restart, ...rest } = Object(piece) as ModelPiece
    if (restart) {
      this.#state = 'start'
      this.#kept = ''
      this.#isBlank = false
      this.#lone = new LoneTag()
      this.#others = []
    }
    if (typeof text !== 'string') {
      if (this.#lone.isOpen && !restart && rest.usage === undefined) this.#others.push(piece)
      return yield piece
    }
    const { block, providerData, ...more } = rest
    this.#of = { ...(block !== undefined && { block }), ...(providerData !== undefined && { providerData }) }
    if (restart || Object.keys(more).length > 0) yield { ...more, ...(restart && { restart }) }
    yield* this.#read(text)
    if (text === '' && providerData) yield { text, ...this.#of }
  }

  *end(): Generator<ModelPiece> {
    const kept = this.#kept
    this.#kept = ''
    if (kept === '') return
    if (this.#state === 'thought') yield { reasoning: kept, ...this.#of }
    else yield { text: kept, ...this.#of }
  }

  *#read(text: string): Generator<ModelPiece> {
    this.#kept += text
    const isFirst = this.#state === 'start'
    if (isFirst) {
      const begun = this.#kept.trimStart()
      if (BEGIN.startsWith(begun) && begun !== BEGIN && this.#kept.length < MOST_BLANKS) return
      this.#state = begun.startsWith(BEGIN) ? 'thought' : this.#options.thinks ? 'held' : 'answer'
      if (this.#state === 'thought') this.#kept = begun.slice(BEGIN.length)
    }
    if (this.#state === 'thought') yield* this.#think()
    else if (this.#state === 'held') yield* this.#hold(isFirst ? this.#kept : text)
    else yield* this.#answer()
  }

  *#think(): Generator<ModelPiece> {
    const end = this.#kept.indexOf(END)
    const until = end < 0 ? this.#kept.length - partOf(this.#kept) : end
    const reasoning = this.#kept.slice(0, until)
    this.#kept = this.#kept.slice(until)
    if (reasoning !== '') yield { reasoning, ...this.#of }
    if (end >= 0) yield* this.#thought()
  }

  *#hold(text: string): Generator<ModelPiece> {
    const end = this.#lone.read(text)
    if (end === undefined) return
    yield { reasoning: this.#kept.slice(0, end), ...this.#of }
    this.#kept = this.#kept.slice(end)
    yield* this.#thought()
  }

  /** Goes on behind the tag with which the kept text begins. */
  *#thought(): Generator<ModelPiece> {
    this.#kept = this.#kept.slice(END.length)
    this.#state = 'answer'
    this.#lone.isOpen = false
    this.#isBlank = true
    yield* this.#answer()
  }

  *#answer(): Generator<ModelPiece> {
    const text = this.#isBlank ? this.#kept.trimStart() : this.#kept
    this.#kept = ''
    if (text === '') return
    this.#isBlank = false
    const end = this.#lone.isOpen ? this.#lone.read(text) : undefined
    if (end === undefined) return yield { text, ...this.#of }
    this.#options.found()
    const said = this.#lone.texts.join('')
    yield { restart: true }
    yield* this.#others
    yield { reasoning: said.slice(0, end), ...this.#of }
    this.#kept = said.slice(end)
    yield* this.#thought()
  }
}

/** Length of the end of a text that may be the begin of the tag. */
function partOf(text: string): number {
  let length = Math.min(text.length, END.length - 1)
  while (length > 0 && !END.startsWith(text.slice(-length))) length -= 1
  return length
}

/** Looks in a text that comes in pieces for the first `</think>` outside of fences that no `<think>` comes before. */
class LoneTag {
  /** False once no such tag counts any more. */
  isOpen = true
  /** All that was read. */
  readonly texts: string[] = []
  #length = 0
  /** End of the text so far, in which a tag may begin. */
  #tail = ''
  #isFenced = false
  #open = 0

  /** Reads on. Returns the place of the tag in the whole text. */
  read(text: string): number | undefined {
    this.texts.push(text)
    const tail = this.#tail
    const looked = tail + text
    const before = this.#length - tail.length
    this.#length += text.length
    this.#tail = looked.slice(1 - END.length)
    for (const { 0: found, index } of looked.matchAll(/```|<\/?think>/g)) {
      if (index + found.length <= tail.length) continue
      if (found === '```') this.#isFenced = !this.#isFenced
      else if (this.#isFenced) continue
      else if (found === BEGIN) this.#open += 1
      else if (this.#open > 0) this.#open -= 1
      else return before + index
    }
    return undefined
  }
}
