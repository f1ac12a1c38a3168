/**
 * Reads JSON that is still being written. The part that is there is closed where it ends: open strings, lists and
 * objects are ended. What cannot be known yet is left out: a key without a value, a number that may go on, half a
 * literal.
 */

/** Up to this length a text is read with each piece; a longer one each time it has grown by a 32nd. */
const SHORT = 2_048
const GROWTH = 32
/** Number of levels beyond which a value is not read while it is written. */
const DEEPEST = 256

export class PartialJson {
  #text = ''
  /** Pieces that are not read yet. */
  #news = ''
  #at = 0
  /** The closing brackets of what is open, innermost last. */
  #open: ('}' | ']')[] = []
  #quoted = false
  /** True if the next string is a key. */
  #expectsKey = false
  /** True for a string that is a key. */
  #isKey = false
  /** True within a number or a literal. */
  #bare = false
  /** End of the part that can be closed. Nothing was opened or closed behind it. */
  #safe = 0
  /** True if what follows changes nothing: the value is complete, or too deep. */
  #isOver = false

  /** Adds a piece. Returns the value so far; undefined if it is not read yet, or if there is none. */
  push(piece: string): { value: unknown } | undefined {
    if (this.#isOver) return undefined
    this.#news += piece
    const { length } = this.#text
    if (length > SHORT && this.#news.length < length / GROWTH) return undefined
    this.#text += this.#news
    this.#news = ''
    if (this.#at === 0 && !this.#begin()) return undefined
    while (this.#at < this.#text.length && !this.#isOver) {
      const letter = this.#text[this.#at]!
      if (this.#quoted) this.#inString(letter)
      else this.#outside(letter)
      this.#at += 1
    }
    return this.#read()
  }

  /** Skips what stands before the first object or list, such as the begin of a code fence. */
  #begin(): boolean {
    const begin = this.#text.search(/[{[]/)
    this.#text = begin < 0 ? '' : this.#text.slice(begin)
    return begin >= 0
  }

  #read(): { value: unknown } | undefined {
    const inValue = this.#quoted && !this.#isKey
    const said = inValue ? `${withoutHalf(this.#text)}"` : this.#text.slice(0, this.#safe)
    try {
      return { value: JSON.parse(said + this.#open.toReversed().join('')) }
    } catch {
      return undefined // it is no JSON; the end of the answer says so
    }
  }

  #inString(letter: string): void {
    if (letter === '\\') this.#at += 1
    else if (letter === '"') {
      this.#quoted = false
      if (!this.#isKey) this.#safe = this.#at + 1
    }
  }

  #outside(letter: string): void {
    if (this.#bare && END_OF_BARE.test(letter)) {
      this.#bare = false
      this.#safe = this.#at
    }
    if (letter === '"') {
      this.#quoted = true
      this.#isKey = this.#expectsKey
    } else if (letter === '{' || letter === '[') {
      this.#open.push(letter === '{' ? '}' : ']')
      this.#expectsKey = letter === '{'
      this.#safe = this.#at + 1
      this.#isOver = this.#open.length > DEEPEST
    } else if (letter === '}' || letter === ']') {
      this.#open.pop()
      this.#safe = this.#at + 1
      this.#isOver = this.#open.length === 0
    } else if (letter === ',' || letter === ':') this.#expectsKey = letter === ',' && this.#open.at(-1) === '}'
    else if (!SPACE.test(letter)) this.#bare = true
  }
}

const SPACE = /\s/
const END_OF_BARE = /[\s,\]}]/
/** Half an escape sequence at the end, and the first of two that make one character. */
const HALVES = [/\\(?:u[\dA-Fa-f]{0,3})?$/, /\\u[dD][89abAB][\dA-Fa-f]{2}$/]
const LONGEST_ESCAPE = 6

/** Returns a text that ends within a string, without an escape sequence that is not complete. */
function withoutHalf(text: string): string {
  let end = text.length
  for (const half of HALVES) {
    const from = Math.max(0, end - LONGEST_ESCAPE)
    const found = text.slice(from, end).search(half)
    if (found >= 0 && !isEscaped(text, from + found)) end = from + found
  }
  return text.slice(0, end)
}

/** Checks for a backslash that belongs to the one before it. */
function isEscaped(text: string, at: number): boolean {
  let before = at
  while (text[before - 1] === '\\') before -= 1
  return (at - before) % 2 === 1
}
