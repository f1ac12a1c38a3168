/**
 * Prompts of strategies. The defaults of each strategy are in one file of this folder; a user's own text replaces a
 * default by its name. `{word}` is a placeholder for a value that the strategy knows when it sends the prompt.
 */

import { ConfigurationError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import { own } from '../../own.ts'
import { type Check, isObject, NO_SUCH_OPTION } from '../../runtime/checks/checks.ts'
import { refused } from '../../runtime/checks/refused.ts'

/** Prompts by name. */
export type Prompts<Name extends string> = Readonly<Record<Name, string>>

const placeholder = () => /\{(\p{L}[\p{L}\p{Nd}]*)\}/gu

/** Returns the prompt of that name with its placeholders filled. A value is inserted as it is, whatever it contains. */
export type Speak<Name extends string> = (name: Name, values: Readonly<Record<string, string | number>>) => string

/**
 * Returns a function that fills the strategy's prompts, or the user's that replace them.
 *
 * @example
 * const say = speaking(DEBATE, config.prompts)
 * await orchestrator.request(judge, say('judge', { query, transcript }))
 */
export function speaking<Name extends string>(
  defaults: Prompts<Name>,
  texts: Partial<Record<string, string>> = {},
): Speak<Name> {
  return (name, values) =>
    (own(texts, name) ?? defaults[name]).replaceAll(placeholder(), (whole, word: string) =>
      String(own(values, word) ?? whole),
    )
}

/**
 * Returns a check of a user's own prompts: each must have the name of one of the strategy's, and no placeholder that
 * this one does not have.
 */
export function promptsOf(defaults: Prompts<string>): Check {
  const names = Object.keys(defaults)
  return (given, path) => {
    if (!isObject(given)) throw refused(path, given, `an object with texts of your own for ${names.join(', ')}`)
    for (const [name, text] of Object.entries(given)) {
      const ours = own(defaults, name)
      if (ours === undefined) throw unknownPrompt(`${path}.${name}`, name, names)
      if (text === undefined) continue
      if (typeof text !== 'string' || text.trim() === '')
        throw refused(`${path}.${name}`, text, 'a text that is not empty')
      const places = placesOf(ours)
      const other = placesOf(text).find((place) => !places.includes(place))
      if (other !== undefined) throw unknownPlace(`${path}.${name}`, other, places)
    }
  }
}

const placesOf = (text: string): string[] => [...new Set([...text.matchAll(placeholder())].map(([whole]) => whole))]

function unknownPrompt(path: string, name: string, names: readonly string[]): ConfigurationError {
  const meant = nearest(name, names)
  const advice = meant === undefined ? 'remove it.' : `did you mean "${meant}"?`
  const accepted = names.join(', ')
  const message = `${path}: this strategy has no such text; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: NO_SUCH_OPTION, accepted })
}

function unknownPlace(path: string, place: string, places: readonly string[]): ConfigurationError {
  const accepted = places.join(', ') || 'none'
  const meant = nearest(place, places)
  const advice = meant === undefined ? 'remove it' : `did you mean ${meant}?`
  const message = `${path}: nothing is known here that ${place} could stand for; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: place, accepted })
}
