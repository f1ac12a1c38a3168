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

export const grouped = (value: number): string => String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ',')

/** Returns a time span in words: 0.4 s, 12 s, 3 min, 2 h. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  return minutes < 120 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`
}

/** Returns a bar that shows a share from 0 to 1. */
export function bar(share: number, cells: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * cells)
  return `[${'#'.repeat(full)}${'.'.repeat(cells - full)}]`
}
