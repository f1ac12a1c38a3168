/** Sights of cities, by any of their names. */
import t from 'tap'
import { sights } from '../../src/tools/index.ts'
import { SIGHTS } from '../../src/tools/sights.ts'
import { call } from './calls.ts'

const CITIES = SIGHTS.split('\n').filter((line) => line.includes('|'))

t.test('a city is found by its English name, its own and its Chinese one', async (t) => {
  for (const [city, name] of [
    ['Tokyo', 'Tokyo'],
    ['東京', 'Tokyo'],
    ['东京', 'Tokyo'],
    ['東京市', 'Tokyo'],
    ['台北', 'Taipei'],
    ['臺北市', 'Taipei'],
    ['서울', 'Seoul'],
    ['부산시', 'Busan'],
    ['Москва', 'Moscow'],
    ['МОСКВА', 'Moscow'],
    ['القاهرة', 'Cairo'],
    ['กรุงเทพ', 'Bangkok'],
    ['मुंबई', 'Mumbai'],
    ['Αθήνα', 'Athens'],
    ['münchen', 'Munich'],
    ['Munchen', 'Munich'],
    ['são paulo', undefined],
    ['Krakow, Poland', 'Kraków'],
    ['new york city', 'New York'],
    ['Mexico City', 'Mexico City'],
    ['  paris ', 'Paris'],
    ['Paris, France', 'Paris'],
    ['Paris, Texas', undefined],
    ['Atlantis', undefined],
    ['市', undefined],
  ] as const) {
    if (name === undefined)
      await t.rejects(
        call(sights, { city }),
        { code: 'TOOL_FAILED', message: /in the list\. It has Amsterdam, / },
        city,
      )
    else t.match(await call(sights, { city }), { city: name }, city)
  }
})

t.test('each city of the list is found by each of its names, with sights that have a source', async (t) => {
  t.ok(CITIES.length >= 60, `${CITIES.length} cities`)
  for (const line of CITIES) {
    const names = line.split(' | ').slice(0, -1)
    t.ok(names.length >= 2 && names.some((name) => /\p{Script=Han}/u.test(name)), `${line}: a Chinese name`)
    for (const city of names) {
      const found = (await call(sights, { city })) as { city: string; country: string; sights: object[] }
      t.equal(found.city, names[0], city)
      t.ok(found.country !== '' && found.sights.length >= 3, city)
      for (const sight of found.sights)
        t.match(sight, { name: /./, about: /^[^:|]{8,}$/, source: /^https:\/\/en\.wikipedia\.org\/wiki\/\S+$/ })
    }
  }
})
