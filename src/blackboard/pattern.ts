/**
 * Which keys a subscriber wants. A key is words with dots between them; a pattern names each word, or leaves it open.
 * No regular expression is made from what a user wrote, so none can run away.
 */
import { inspect } from 'node:util'
import { MessageRejectedError } from '../errors.ts'

const ONE = '*'
const ANY = '**'

/** Keys and patterns are at most this long. */
export const LONGEST_KEY = 256

/**
 * Turns a pattern into a test for keys, once for all the keys to come. `*` stands for one word, `**` for any number of
 * words, also none; every other word stands for itself. So `finding.*` takes `finding.7` but not `finding.7.source`,
 * and `finding.**` takes both and `finding` too.
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
 * Whether one key fits one pattern; `compilePattern` is for many keys.
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
 * Walks both lists once. The one catch is `**`: it takes no word at first; where the rest then fails, the last `**`
 * takes one word more. Earlier ones need no second chance, so the work stays below words times words.
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
