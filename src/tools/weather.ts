/** `weather`: how the weather is in a place, and how it will be. */
import { z } from 'zod'
import type { Tool } from '../actors/definition/tool.ts'
import { own } from '../shared/values.ts'
import { checkedOptions } from './options.ts'
import { type Ask, baseUrl, endpoint, failedBy, malformed, parsed, serviceTimeout, serviceTool } from './service.ts'

/** The weather of a day. A value that the models do not give for that place is null. */
export interface DayWeather {
  /** `2026-07-03`, by the place's own calendar. */
  date: string
  conditions: string
  minC: number | null
  maxC: number | null
  rainChancePercent: number | null
}

/** The weather of a place. */
export interface WeatherReport {
  place: string
  latitude: number
  longitude: number
  timezone: string
  current: {
    /** The place's own time, `2026-07-03T14:15`. */
    time: string
    conditions: string
    temperatureC: number | null
    feelsLikeC: number | null
    humidityPercent: number | null
    precipitationMm: number | null
    windKmh: number | null
  }
  /** Today first. */
  days: DayWeather[]
}

/** Fields of the request; metric units are the default. */
const FORECAST = {
  current: 'temperature_2m,apparent_temperature,relative_humidity_2m,precipitation,weather_code,wind_speed_10m',
  daily: 'weather_code,temperature_2m_min,temperature_2m_max,precipitation_probability_max',
  timezone: 'auto',
}

const value = z.number().nullable()
const values = z.array(value)
const answerSchema = z.object({
  timezone: z.string().max(100),
  current: z.object({
    time: z.string().max(40),
    temperature_2m: value,
    apparent_temperature: value,
    relative_humidity_2m: value,
    precipitation: value,
    weather_code: value,
    wind_speed_10m: value,
  }),
  daily: z.object({
    time: z.array(z.string().max(40)),
    weather_code: values,
    temperature_2m_min: values,
    temperature_2m_max: values,
    precipitation_probability_max: values,
  }),
})

function reportFrom(answer: string): Pick<WeatherReport, 'timezone' | 'current' | 'days'> {
  const { timezone, current, daily } = parsed('Open-Meteo', answer, answerSchema)
  if (Object.values(daily).some((list) => list.length !== daily.time.length))
    throw malformed('Open-Meteo', 'daily: lists of several lengths')
  return {
    timezone,
    current: {
      time: current.time,
      conditions: conditionsOf(current.weather_code),
      temperatureC: current.temperature_2m,
      feelsLikeC: current.apparent_temperature,
      humidityPercent: current.relative_humidity_2m,
      precipitationMm: current.precipitation,
      windKmh: current.wind_speed_10m,
    },
    days: daily.time.map((date, day) => ({
      date,
      conditions: conditionsOf(daily.weather_code[day]!),
      minC: daily.temperature_2m_min[day]!,
      maxC: daily.temperature_2m_max[day]!,
      rainChancePercent: daily.precipitation_probability_max[day]!,
    })),
  }
}

const errorSchema = z.object({ reason: z.string() })
const openMeteoReason = (body: unknown) => errorSchema.safeParse(body).data?.reason

/** The codes of the WMO that Open-Meteo uses. */
const CONDITIONS: Readonly<Record<number, string>> = {
  0: 'clear sky',
  1: 'mainly clear',
  2: 'partly cloudy',
  3: 'overcast',
  45: 'fog',
  48: 'fog with rime',
  51: 'light drizzle',
  53: 'drizzle',
  55: 'dense drizzle',
  56: 'light freezing drizzle',
  57: 'freezing drizzle',
  61: 'light rain',
  63: 'rain',
  65: 'heavy rain',
  66: 'light freezing rain',
  67: 'freezing rain',
  71: 'light snow',
  73: 'snow',
  75: 'heavy snow',
  77: 'snow grains',
  80: 'light showers',
  81: 'showers',
  82: 'violent showers',
  85: 'light snow showers',
  86: 'snow showers',
  95: 'thunderstorm',
  96: 'thunderstorm with light hail',
  99: 'thunderstorm with hail',
}

function conditionsOf(code: number | null): string {
  return code === null ? 'unknown' : (CONDITIONS[code] ?? `unknown (code ${code})`)
}

/*
 * Which place of the world a name means, by Open-Meteo's geocoding. It knows a name in the language that it is asked in
 * alone, so the script of the name says in which; and it does not know "Paris, Texas", so what stands after a comma
 * chooses among what it finds. Source: open-meteo.com/en/docs/geocoding-api; open-meteo/geocoding-api, issue 20.
 */

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
const placesSchema = z.object({ results: z.array(placeSchema).default([]) }) // it leaves `results` out if there is none

type Place = z.output<typeof placeSchema>

const MOST_FOUND = 20

/** Throws `ToolFailedError` if there is no such place, or several and none that is meant. */
async function findPlace(wanted: string, base: string, ask: Ask): Promise<Place> {
  const [name = '', ...within] = wanted
    .split(/[,，、]/u)
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const language = languageOf(name)
  const found: Place[] = []
  for (const spelling of spellings(name, language)) {
    const url = endpoint(base, '/v1/search', { name: spelling, count: MOST_FOUND, language, format: 'json' })
    const text = await ask({ service: 'Open-Meteo', url, reasonIn: openMeteoReason })
    found.push(...parsed('Open-Meteo', text, placesSchema).results)
  }
  const fitting = found.filter((place) => within.every((part) => liesIn(place, part)))
  const named = fitting.filter((place) => spellings(name, language).some((spelling) => same(place.name, spelling)))
  const [place] =
    named.length > 0 ? named.sort((one, other) => (other.population ?? 0) - (one.population ?? 0)) : fitting
  if (place) return place
  const shown = JSON.stringify(wanted)
  if (found.length === 0) {
    const advice = 'Give the town alone, or its name in English.'
    throw failedBy('Open-Meteo', `Open-Meteo knows no place ${shown}. ${advice}`)
  }
  const choices = [...new Set(found.map(regionOf))].slice(0, 5).join('; ')
  const message = `Open-Meteo knows ${JSON.stringify(name)}, but not as ${shown}: ${choices}. Choose one of these.`
  throw failedBy('Open-Meteo', message)
}

/** The country and the region of a place, as a person would add them. */
function regionOf({ name, admin1, country }: Place): string {
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

const optionsSchema = z.strictObject({
  baseURL: baseUrl.optional(),
  days: z.int().min(1).max(16).default(3),
  timeoutMs: serviceTimeout,
})

const inputSchema = z.strictObject({
  place: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .describe(
      'A town, in English or in its own script; after a comma its region or country, if there are several: "Paris, Texas"',
    ),
})

/**
 * A tool that gives the weather of a place, now and for some days: by Open-Meteo (open-meteo.com), which needs no key
 * for use that is not commercial. Of places with the same name, the one with the most people is meant.
 *
 * @param options `baseURL`: one server for geocoding and forecast, if not the public ones; `days`: 3 by default, 16 at
 *   most;
 *   `timeoutMs`: for all questions of a call together, 15,000 by default.
 * @throws ToolFailedError there is no such place, or the service cannot be reached, refuses or has a fault;
 *   `details.status`.
 * @throws ToolTimeoutError it took longer than `timeoutMs`.
 * @example
 * { name: 'weather', tools: [weather()] }
 */
export function weather(
  options: { baseURL?: string; days?: number; timeoutMs?: number } = {},
): Tool<{ place: string }, WeatherReport> {
  const { baseURL, days, timeoutMs } = checkedOptions('weather', optionsSchema, options)
  const geocoding = baseURL ?? 'https://geocoding-api.open-meteo.com'
  const forecast = baseURL ?? 'https://api.open-meteo.com'
  return serviceTool({
    name: 'weather',
    description: `Gives the weather of a place: now, and for ${days === 1 ? 'today' : `${days} days from today`}. Temperatures are in °C.`,
    input: inputSchema,
    timeoutMs,
    async run({ place }, ask) {
      const found = await findPlace(place, geocoding, ask)
      const { latitude, longitude } = found
      const url = endpoint(forecast, '/v1/forecast', { latitude, longitude, ...FORECAST, forecast_days: days })
      const report = reportFrom(await ask({ service: 'Open-Meteo', url, reasonIn: openMeteoReason }))
      return { place: regionOf(found), latitude, longitude, ...report }
    },
  })
}
