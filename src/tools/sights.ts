/** `sights`: what there is to see in a city, from a list that is built in. Source: document 004, its travel agent. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { ToolFailedError } from '../errors.ts'
import { SIGHTS } from './sights-data.ts'

/** A sight of a city. */
export interface Sight {
  name: string
  about: string
  /** Address of the page that says so. */
  source: string
}

/** Sights of a city, by `sights`. */
export interface CitySights {
  city: string
  country: string
  sights: Sight[]
}

const TIMEOUT_MS = 5_000

/**
 * The tool `sights`: sights of some sixty large cities, each with what it is and its page in the English Wikipedia. It
 * asks nobody. A city is found by its English name, by its own in its script, and by its Chinese one.
 *
 * @throws ToolFailedError for a city that is not in the list; the error has the list.
 * @example
 * { name: 'travel', tools: [weather(), sights] } // a model's call: { city: '台北' }
 */
export const sights = defineTool({
  name: 'sights',
  description: 'Gives sights of a large city, each with what it is and the page that says so.',
  input: z.strictObject({
    city: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .describe('The city, in English, in its own script or in Chinese; after a comma its country, if you like'),
  }),
  readOnly: true,
  idempotent: true,
  timeoutMs: TIMEOUT_MS,
  run({ city }): CitySights {
    const [name = '', country] = city.split(/[,，、]/u).map(bare)
    const found = CITIES.find(
      (each) => each.names.some((one) => bare(one) === name) && (!country || bare(each.country) === country),
    )
    if (found) return { city: found.names[0]!, country: found.country, sights: found.sights }
    const known = CITIES.map(({ names: [first] }) => first).join(', ')
    throw new ToolFailedError(`There are no sights of ${JSON.stringify(city)} in the list. It has ${known}.`, { city })
  },
})

interface City {
  names: string[]
  country: string
  sights: Sight[]
}

const CITIES: readonly City[] = SIGHTS.split(/\n(?=[^\n]*\|)/).map((text) => {
  const [head = '', ...lines] = text.split('\n')
  const names = head.split(' | ')
  const country = names.pop()!
  return { names, country, sights: lines.map(sightIn) }
})

function sightIn(line: string): Sight {
  const end = line.indexOf(': ')
  const name = line.slice(0, end)
  const page = encodeURIComponent(name.replaceAll(' ', '_'))
  return { name, about: line.slice(end + 2), source: `https://en.wikipedia.org/wiki/${page}` }
}

/** Returns a name without case, accents and the words for city at its end. */
function bare(text: string): string {
  const letters = text.normalize('NFD').replace(/\p{M}/gu, '').normalize('NFC').toLowerCase().trim()
  return letters.length > 2 ? letters.replace(/(?:市|시| city)$/u, '') : letters
}
