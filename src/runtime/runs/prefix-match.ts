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
