/**
 * Which place of the world a name means, by Open-Meteo's geocoding. It knows a name in the language that it is asked in
 * alone, so the script of the name says in which; and it does not know "Paris, Texas", so what stands after a comma
 * chooses among what it finds. Source: open-meteo.com/en/docs/geocoding-api; open-meteo/geocoding-api, issue 20.
 */

import { z } from 'zod'
import { ToolFailedError } from '../errors.ts'
import { own } from '../own.ts'
import { openMeteoReason } from './weather-report.ts'
import { type Ask, endpoint, parsed } from './web/service.ts'

const placeSchema = z.object({
  name: z.string().max(200),
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
  country: z.string().max(200).optional(),
  country_code: z.string().max(10).optional(),
  admin1: z.string().max(200).optional(),
  admin2: z.string().max(200).optional(),
  population: z.number().optional(),
})
const answerSchema = z.object({ results: z.array(placeSchema).default([]) }) // it leaves `results` out if there is none

export type Place = z.output<typeof placeSchema>

const MOST_FOUND = 20

/** Throws `ToolFailedError` if there is no such place, or several and none that is meant. */
export async function findPlace(wanted: string, base: string, ask: Ask): Promise<Place> {
  const [name = '', ...within] = wanted
    .split(/[,，、]/u)
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const language = languageOf(name)
  const found: Place[] = []
  for (const spelling of spellings(name, language)) {
    const url = endpoint(base, '/v1/search', { name: spelling, count: MOST_FOUND, language, format: 'json' })
    const text = await ask({ service: 'Open-Meteo', url, reasonIn: openMeteoReason })
    found.push(...parsed('Open-Meteo', text, answerSchema).results)
  }
  const fitting = found.filter((place) => within.every((part) => liesIn(place, part)))
  const named = fitting.filter((place) => spellings(name, language).some((spelling) => same(place.name, spelling)))
  const [place] =
    named.length > 0 ? named.sort((one, other) => (other.population ?? 0) - (one.population ?? 0)) : fitting
  if (place) return place
  const shown = JSON.stringify(wanted)
  if (found.length === 0) {
    throw new ToolFailedError(`Open-Meteo knows no place ${shown}. Give the town alone, or its name in English.`, {
      service: 'Open-Meteo',
    })
  }
  const choices = [...new Set(found.map(regionOf))].slice(0, 5).join('; ')
  throw new ToolFailedError(
    `Open-Meteo knows ${JSON.stringify(name)}, but not as ${shown}: ${choices}. Choose one of these.`,
    {
      service: 'Open-Meteo',
    },
  )
}

/** The country and the region of a place, as a person would add them. */
export function regionOf({ name, admin1, country }: Place): string {
  return [name, admin1, country].filter((part) => part !== undefined && part !== '').join(', ')
}

/** A Chinese city is known as 北京市, and a name of two characters is matched whole. */
function spellings(name: string, language: string): string[] {
  const complete = language !== 'zh' || name.length > 3 || /[市县縣区區镇鎮乡鄉村省州]$/u.test(name)
  return complete ? [name] : [name, `${name}市`]
}

function languageOf(name: string): string {
  const scripts: [RegExp, string][] = [
    [/[\p{Script=Hiragana}\p{Script=Katakana}]/u, 'ja'],
    [/\p{Script=Han}/u, 'zh'],
    [/\p{Script=Hangul}/u, 'ko'],
    [/\p{Script=Cyrillic}/u, 'ru'],
    [/\p{Script=Arabic}/u, 'ar'],
    [/\p{Script=Hebrew}/u, 'he'],
    [/\p{Script=Greek}/u, 'el'],
    [/\p{Script=Thai}/u, 'th'],
    [/\p{Script=Devanagari}/u, 'hi'],
  ]
  return scripts.find(([script]) => script.test(name))?.[1] ?? 'en'
}

/** Common spellings of country codes. */
const CODES: Readonly<Record<string, string>> = { UK: 'GB', USA: 'US', UAE: 'AE' }

function liesIn({ country, country_code, admin1, admin2 }: Place, part: string): boolean {
  const meant = own(CODES, part.toUpperCase().replaceAll('.', '')) ?? part
  return [country, country_code, admin1, admin2].some((region) => region !== undefined && same(region, meant))
}

/** Whatever the case and the accents. */
function same(one: string, other: string): boolean {
  const bare = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return bare(one) === bare(other)
}
