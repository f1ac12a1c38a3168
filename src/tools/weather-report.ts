/** A forecast of Open-Meteo, in words and with units. Source: open-meteo.com/en/docs. */
import { z } from 'zod'
import { malformed, parsed } from './web/service.ts'

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
export const FORECAST = {
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

export function reportFrom(answer: string): Pick<WeatherReport, 'timezone' | 'current' | 'days'> {
  const { timezone, current, daily } = parsed('Open-Meteo', answer, answerSchema)
  const lists = [
    daily.weather_code,
    daily.temperature_2m_min,
    daily.temperature_2m_max,
    daily.precipitation_probability_max,
  ]
  if (lists.some((list) => list.length !== daily.time.length))
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

/** `{"error": true, "reason": "..."}` */
export function openMeteoReason(body: unknown): string | undefined {
  return errorSchema.safeParse(body).data?.reason
}

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
