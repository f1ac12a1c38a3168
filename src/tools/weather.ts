/** `weather`: how the weather is in a place, and how it will be. */
import { z } from 'zod'
import { defineTool, type Tool } from '../actors/definition/tool.ts'
import { checkedOptions } from './options.ts'
import { findPlace, regionOf } from './weather-places.ts'
import { FORECAST, openMeteoReason, reportFrom, type WeatherReport } from './weather-report.ts'
import { MARGIN_MS } from './web/deadline.ts'
import { asking, baseUrl, endpoint, serviceTimeout } from './web/service.ts'

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
  return defineTool({
    name: 'weather',
    description: `Gives the weather of a place: now, and for ${days === 1 ? 'today' : `${days} days from today`}. Temperatures are in °C.`,
    input: inputSchema,
    readOnly: true,
    outside: true,
    idempotent: true,
    timeoutMs: timeoutMs + MARGIN_MS,
    run: ({ place }, context) =>
      asking('weather', timeoutMs, context, async (ask) => {
        const found = await findPlace(place, geocoding, ask)
        const { latitude, longitude } = found
        const url = endpoint(forecast, '/v1/forecast', { latitude, longitude, ...FORECAST, forecast_days: days })
        const report = reportFrom(await ask({ service: 'Open-Meteo', url, reasonIn: openMeteoReason }))
        return { place: regionOf(found), latitude, longitude, ...report }
      }),
  })
}
