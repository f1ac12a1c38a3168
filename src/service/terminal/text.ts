/** Text for a terminal: as wide as it looks, and nothing in it steers the terminal. */
import stringWidth from 'string-width'
import { oneLine } from '../one-line.ts'

const LONGEST = 2_000

/** Columns that a text takes on a terminal. */
export const columns = (text: string): number => stringWidth(text)

/** Returns the text in exactly that many columns: cut with an ellipsis, or filled with spaces. */
export function fit(text: string, width: number, side: 'left' | 'right' = 'left'): string {
  const shown = cut(text, width)
  const space = ' '.repeat(Math.max(0, width - stringWidth(shown)))
  return side === 'left' ? shown + space : space + shown
}

/** Returns the text in at most that many columns. */
export function cut(text: string, width: number): string {
  const clean = oneLine(text, LONGEST)
  if (stringWidth(clean) <= width) return clean
  let shown = ''
  let used = 0
  for (const letter of clean) {
    const columns = stringWidth(letter)
    if (used + columns > width - 1) break
    shown += letter
    used += columns
  }
  return width > 0 ? `${shown}…` : ''
}

/** Breaks a text into lines of at most that many columns: at spaces where there are some. */
export function wrapped(text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = []
    let line = ''
    for (const word of words(oneLine(paragraph, LONGEST), width)) {
      const longer = line === '' ? word : `${line} ${word}`
      if (stringWidth(longer) <= width) line = longer
      else {
        lines.push(line)
        line = word
      }
    }
    return [...lines, line]
  })
}

/** Yields the words of a line, those that are too long in pieces. */
function* words(line: string, width: number): Iterable<string> {
  for (const word of line.split(' ')) {
    let piece = ''
    for (const letter of word) {
      if (piece !== '' && stringWidth(piece + letter) > width) {
        yield piece
        piece = ''
      }
      piece += letter
    }
    yield piece
  }
}

/** Returns a bar that shows a share from 0 to 1. `mark`: share at which it has a line. */
export function bar(share: number, cells: number, mark?: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * cells)
  const plain = `${'#'.repeat(full)}${'.'.repeat(cells - full)}`
  if (mark === undefined) return `[${plain}]`
  const at = Math.round(mark * cells)
  return `[${plain.slice(0, at)}|${plain.slice(at)}]`
}
