/**
 * The services as they answer, with figures of one day in July 2026, on the loopback: for a try without a network. Open-Meteo
 * knows Taipei and Tokyo here, Frankfurter USD and JPY in TWD, Stooq the shares of TSMC in New York.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Loopback, onLoopback } from '../lib/loopback.ts'

const DAYS = ['2026-07-03', '2026-07-04', '2026-07-05']

const PLACES = [
  {
    names: ['台北市', 'Taipei'],
    country: '臺灣',
    admin1: '臺北市',
    latitude: 25.05,
    longitude: 121.53,
    rain: [73, 60, 15],
  },
  {
    names: ['東京', 'Tokyo'],
    country: '日本',
    admin1: '東京都',
    latitude: 35.69,
    longitude: 139.69,
    rain: [5, 10, 40],
  },
]

const RATES: Readonly<Record<string, number>> = { 'USD/TWD': 31.913, 'JPY/TWD': 0.2054 }

const PRICES: Readonly<Record<string, string>> = {
  'tsm.us': 'TSM.US,2026-07-02,22:00:07,226.1,229.4,225.7,228.57,9841207',
}

export const recordedServices = (): Promise<Loopback> => onLoopback(answer)

function answer({ url = '' }: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(url, 'http://services')
  const json = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
  if (pathname === '/v1/search') return void json(200, found(searchParams.get('name') ?? ''))
  if (pathname === '/v1/forecast') return void json(200, forecast(Number(searchParams.get('latitude'))))
  if (pathname.startsWith('/v2/rate/')) {
    const [base = '', quote = ''] = pathname.slice('/v2/rate/'.length).split('/')
    const rate = RATES[`${base}/${quote}`]
    return void (rate === undefined
      ? json(404, { status: 404, message: 'not found' })
      : json(200, { date: DAYS[0], base, quote, rate }))
  }
  if (pathname === '/q/l/') {
    const line = PRICES[searchParams.get('s') ?? ''] ?? `${searchParams.get('s')},N/D,N/D,N/D,N/D,N/D,N/D,N/D`
    return void response
      .writeHead(200, { 'content-type': 'text/csv' })
      .end(`Symbol,Date,Time,Open,High,Low,Close,Volume\r\n${line}\r\n`)
  }
  json(404, { error: true, reason: 'Not Found' })
}

function found(name: string): object {
  const results = PLACES.filter(({ names }) => names.includes(name)).map(
    ({ names: _names, rain: _rain, ...place }) => ({
      ...place,
      name,
      country_code: 'TW',
      population: 7_871_900,
    }),
  )
  return { ...(results.length > 0 && { results }), generationtime_ms: 0.5 }
}

function forecast(latitude: number): object {
  const place = PLACES.find((each) => Math.abs(each.latitude - latitude) < 0.5)
  return {
    timezone: 'Asia/Taipei',
    current: {
      time: `${DAYS[0]}T14:15`,
      temperature_2m: 33.1,
      apparent_temperature: 38.4,
      relative_humidity_2m: 62,
      precipitation: 0,
      weather_code: 2,
      wind_speed_10m: 12.3,
    },
    daily: {
      time: DAYS,
      weather_code: [80, 61, 1],
      temperature_2m_min: [26.5, 26.9, 27.1],
      temperature_2m_max: [34.2, 33.8, 35],
      precipitation_probability_max: place?.rain ?? [0, 0, 0],
    },
  }
}
