/**
 * Patterns of the keys that a subscriber wants. A key is words separated by dots; a pattern gives each word or a
 * wildcard. User text is never turned into a regular expression, so none can run out of control.
 */
import { inspect } from 'node:util'
import { MessageRejectedError } from '../errors.ts'

const ONE = '*'
const ANY = '**'

/** Maximum length of keys and patterns, in characters. */
export const LONGEST_KEY = 256

/**
 * Compiles a pattern into a test for keys, which can be used for any number of keys. `*` matches one word, `**` matches
 * any number of words, also none; every other word matches itself. So `finding.*` matches `finding.7` but not
 * `finding.7.source`, and `finding.**` matches both and also `finding`.
 *
 * @throws MessageRejectedError if the pattern is empty, longer than 256 characters, has an empty word (`a..b`) or a
 * star inside a word (`find*`, `***`).
 * @example
 * const wanted = compilePattern('finding.*')
 * wanted('finding.7') // true
 */
export function compilePattern(pattern: string): (key: string) => boolean {
  const words = checkedWords(pattern)
  if (!words.some((word) => word === ONE || word === ANY)) return (key) => key === pattern
  return (key) => fits(words, key.split('.'))
}

/**
 * Checks whether one key matches one pattern. For many keys use `compilePattern`.
 *
 * @throws MessageRejectedError like `compilePattern`.
 */
export function matches(pattern: string, key: string): boolean {
  return compilePattern(pattern)(key)
}

function checkedWords(pattern: unknown): string[] {
  if (typeof pattern === 'string' && pattern.length <= LONGEST_KEY) {
    const words = pattern.split('.')
    if (words.every((word) => word !== '' && (word === ONE || word === ANY || !word.includes('*')))) return words
  }
  throw new MessageRejectedError(
    `The pattern ${inspect(pattern, { depth: 0, maxStringLength: 60 })} is none. A pattern is words with dots ` +
      `between them, at most ${LONGEST_KEY} characters: "*" stands for one word, "**" for any number of words, any ` +
      'other word for itself. Write "finding.*", not "finding*".',
    { path: 'pattern' },
  )
}

/**
 * Compares pattern and key word by word. `**` first matches no word. If the rest then fails, the last `**` takes one
 * word more. Earlier `**` need no second attempt, so the work stays below the product of the two lengths.
 */
function fits(pattern: string[], words: string[]): boolean {
  let at = 0
  let word = 0
  let lastAny = -1
  let afterAny = 0
  while (word < words.length) {
    if (pattern[at] === ANY) {
      lastAny = at++
      afterAny = word
    } else if (pattern[at] === ONE || pattern[at] === words[word]) {
      at++
      word++
    } else if (lastAny >= 0) {
      at = lastAny + 1
      word = ++afterAny
    } else return false
  }
  while (pattern[at] === ANY) at++
  return at === pattern.length
}
