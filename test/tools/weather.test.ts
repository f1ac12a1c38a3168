/** weather, against a server that answers as Open-Meteo's geocoding and forecast do. */

import type { Test } from 'tap'
import t from 'tap'
import { weather } from '../../src/tools/weather.ts'
import { call, definitionOf } from './calls.ts'
import { serve } from './servers.ts'

const place = (name: string, country: string, admin1: string, population?: number) => ({
  id: 1,
  name,
  latitude: 25.05,
  longitude: 121.53,
  elevation: 11,
  feature_code: 'PPLC',
  country_code: country.slice(0, 2).toUpperCase(),
  admin1_id: 2,
  timezone: 'Asia/Taipei',
  population,
  country_id: 3,
  country,
  admin1,
})
// what the service knows, in each language by itself
const known: Record<string, object[]> = {
  'en Taipei': [place('Taipei', 'Taiwan', 'Taipei', 7_871_900)],
  'en Paris': [
    place('Paris', 'France', 'Île-de-France', 2_138_551),
    { ...place('Paris', 'United States', 'Texas', 24_782), country_code: 'US' },
    place('Paris Township', 'United States', 'Ohio', 5_000_000),
  ],
  'en Sao Paulo': [place('Sao Paulo', 'Angola', 'Luanda', 10), place('São Paulo', 'Brazil', 'São Paulo', 10_021_295)],
  'zh 台北': [place('台北', '中国', '湖南省')],
  'zh 台北市': [place('台北市', '臺灣', '臺北市', 7_871_900)],
  'ja さいたま': [place('さいたま', '日本', '埼玉県', 1_193_350)],
  'ru Москва': [place('Москва', 'Россия', 'Москва', 10_381_222)],
}
const forecast = {
  latitude: 25.0625,
  longitude: 121.5,
  generationtime_ms: 0.12,
  utc_offset_seconds: 28800,
  timezone: 'Asia/Taipei',
  timezone_abbreviation: 'GMT+8',
  elevation: 11,
  current_units: { time: 'iso8601', interval: 'seconds', temperature_2m: '°C' },
  current: {
    time: '2026-07-03T14:15',
    interval: 900,
    temperature_2m: 33.1,
    apparent_temperature: 38.4,
    relative_humidity_2m: 62,
    precipitation: 0,
    weather_code: 95,
    wind_speed_10m: 12.3,
  },
  daily_units: { time: 'iso8601' },
  daily: {
    time: ['2026-07-03', '2026-07-04'],
    weather_code: [80, 1234],
    temperature_2m_min: [26.5, 26.9],
    temperature_2m_max: [34.2, 33.8],
    precipitation_probability_max: [73, null],
  },
}

async function openMeteo(t: Test, answer: object = forecast) {
  return serve(t, ({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://loopback')
    response.setHeader('content-type', 'application/json; charset=utf-8')
    if (pathname === '/v1/forecast') return response.end(JSON.stringify(answer))
    const results = known[`${searchParams.get('language')} ${searchParams.get('name')}`]
    response.end(JSON.stringify({ ...(results && { results }), generationtime_ms: 0.5 }))
  })
}

t.test('gives the weather of a place, with units', async (t) => {
  const server = await openMeteo(t)
  t.same(await call(weather({ baseURL: server.origin, days: 2 }), { place: 'Taipei' }), {
    place: 'Taipei, Taipei, Taiwan',
    latitude: 25.05,
    longitude: 121.53,
    timezone: 'Asia/Taipei',
    current: {
      time: '2026-07-03T14:15',
      conditions: 'thunderstorm',
      temperatureC: 33.1,
      feelsLikeC: 38.4,
      humidityPercent: 62,
      precipitationMm: 0,
      windKmh: 12.3,
    },
    days: [
      { date: '2026-07-03', conditions: 'light showers', minC: 26.5, maxC: 34.2, rainChancePercent: 73 },
      { date: '2026-07-04', conditions: 'unknown (code 1234)', minC: 26.9, maxC: 33.8, rainChancePercent: null },
    ],
  })
  const query = new URL(server.asked[1]!, server.origin).searchParams
  t.match(Object.fromEntries(query), { latitude: '25.05', longitude: '121.53', forecast_days: '2', timezone: 'auto' })
})

t.test('finds a place in the script of its name, and the one with the most people', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  const found = async (name: string) => (await call(tool, { place: name })).place
  t.equal(await found('台北'), '台北市, 臺北市, 臺灣', 'a city of two characters, and not the village of that name')
  t.equal(await found('台北市'), '台北市, 臺北市, 臺灣')
  t.equal(await found('さいたま'), 'さいたま, 埼玉県, 日本')
  t.equal(await found('Москва'), 'Москва, Москва, Россия')
  t.equal(await found('Paris'), 'Paris, Île-de-France, France')
  t.equal(await found('Sao Paulo'), 'São Paulo, São Paulo, Brazil')
})

t.test('what stands after the comma chooses', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  for (const name of [
    'Paris, Texas',
    'Paris,texas, us',
    'Paris, Texas, USA',
    'Paris, U.S.A.',
    'Paris，TEXAS',
    ' Paris , United States',
  ]) {
    t.equal((await call(tool, { place: name })).place, 'Paris, Texas, United States', name)
  }
  t.equal((await call(tool, { place: '台北，臺灣' })).place, '台北市, 臺北市, 臺灣')
  await t.rejects(call(tool, { place: 'Paris, Japan' }), {
    code: 'TOOL_FAILED',
    message:
      /knows "Paris", but not as "Paris, Japan": Paris, Île-de-France, France; Paris, Texas, United States; .*Choose one/,
  })
})

t.test('says that it knows no such place', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  for (const name of [
    'Atlantis',
    '台',
    ',',
    'Taipei City, Taiwan',
    '../../v1/forecast',
    'x&language=en',
    'a\r\nHost: b',
    '\0',
  ]) {
    await t.rejects(call(tool, { place: name }), {
      code: 'TOOL_FAILED',
      message: /knows no place .*its name in English/,
    })
  }
  t.ok(server.asked.every((path) => path.startsWith('/v1/search?name=')))
})

t.test('says what Open-Meteo refuses', async (t) => {
  const refusals: [number, string][] = [
    [400, 'Parameter count must be between 1 and 100.'],
    [429, 'Daily API request limit exceeded. Please try again tomorrow.'],
  ]
  for (const [status, reason] of refusals) {
    const server = await serve(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: true, reason }))
    })
    const message = new RegExp(`^Open-Meteo answered with status ${status}: ${reason}`)
    await t.rejects(call(weather({ baseURL: server.origin }), { place: 'Taipei' }), { code: 'TOOL_FAILED', message })
  }
})

t.test('a forecast of another form is no forecast', async (t) => {
  const { daily, current } = forecast
  const wrong = [
    { ...forecast, current: undefined },
    { ...forecast, current: { ...current, temperature_2m: '33' } },
    { ...forecast, daily: { ...daily, weather_code: [80] } },
    { ...forecast, daily: { ...daily, time: 'today' } },
    [],
    { error: true, reason: 'a good status, and yet' },
  ]
  for (const answer of wrong) {
    const server = await openMeteo(t, answer)
    await t.rejects(call(weather({ baseURL: server.origin }), { place: 'Taipei' }), {
      code: 'TOOL_FAILED',
      message: /^Open-Meteo answered in a form that is not its own/,
    })
  }
})

t.test('takes one place', async (t) => {
  const tool = weather({ days: 1 })
  for (const input of [{}, { place: ' ' }, { place: 'x'.repeat(300) }, { place: 1 }, { place: 'x', days: 2 }]) {
    await t.rejects(call(tool, input), { code: 'TOOL_INPUT' })
  }
  const { name, idempotent, description } = definitionOf(tool)
  t.match({ name, idempotent, description }, { name: 'weather', idempotent: true, description: /now, and for today/ })
  t.throws(() => weather({ days: 17 }), { code: 'CONFIGURATION', details: { path: 'weather.days' } })
})
