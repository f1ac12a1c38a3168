/**
 * Limits the nesting depth of JSON from other sources. Values are processed by recursion, and one nested some thousand
 * levels deep would end the process.
 */

/** Maximum nesting depth. The same limit applies to senders (message.ts). */
export const MOST_LEVELS = 1_000

/**
 * Checks whether a JSON text is nested deeper than MOST_LEVELS. A text with few brackets is not read character by
 * character.
 */
export function nestsTooDeep(text: string): boolean {
  if (text.length <= 2 * MOST_LEVELS) return false // each level has two brackets
  if (countUpTo(MOST_LEVELS, '[', text) + countUpTo(MOST_LEVELS, '{', text) <= MOST_LEVELS) return false
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]
    if (isQuoted) {
      if (letter === '\\') at += 1
      else if (letter === '"') isQuoted = false
    } else if (letter === '"') isQuoted = true
    else if (letter === '[' || letter === '{') {
      depth += 1
      if (depth > MOST_LEVELS) return true
    } else if (letter === ']' || letter === '}') depth -= 1
  }
  return false
}

/** Counts the occurrences of the letter, up to `most` + 1. */
function countUpTo(most: number, letter: string, text: string): number {
  let count = 0
  for (let at = text.indexOf(letter); at >= 0 && count <= most; at = text.indexOf(letter, at + 1)) count += 1
  return count
}
