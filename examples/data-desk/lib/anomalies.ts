/** Days that stand out: far from their season in temperature, far up the ranks in rain, and long spells. */
import { binomialDistribution, errorFunction, mad, median, quantile } from 'simple-statistics'
import { calendarDay, dateOf, type Weather } from './dataset.ts'
import { type Claim, signed } from './finding.ts'

/** Days on each side that make a day's season. A calendar month would call warm each last of April. */
const SEASON_DAYS = 15
const CALENDAR_DAYS = 366
/** Makes the MAD of a normal distribution equal its standard deviation. */
const MAD_TO_DEVIATION = 1.4826
const OUTLIER = 3
/** From here on a day is a wet one: the usual line of climatology (ETCCDI). */
const WET_MM = 1
const HEAVY_QUANTILE = 0.99

export const METHOD = [
  `Temperature: a robust z-score, (high - median) / (${MAD_TO_DEVIATION} * MAD), against the highs of all years`,
  `within ${SEASON_DAYS} days of the date; beyond ${OUTLIER} is reported, and the hottest day to compare.`,
  'Confidence: the chance that as many normally distributed days hold none so far out.',
  `Rain: days above the ${HEAVY_QUANTILE * 100}th percentile of days with ${WET_MM} mm or more.`,
  'Confidence: the binomial chance that a day of that rank lies above the true percentile.',
  'Spells are counted, so their confidence is 1.',
].join(' ')

interface TemperatureDay {
  date: string
  high: number
  usual: number
  z: number
  confidence: number
}

/** Each day against its season over all years, in order of time. */
export function temperatureDays(weather: Weather): TemperatureDay[] {
  const dates = weather.tempMax.map((_, index) => dateOf(weather, index))
  const byCalendarDay: number[][] = Array.from({ length: CALENDAR_DAYS }, () => [])
  dates.forEach((date, index) => {
    byCalendarDay[calendarDay(date)]!.push(weather.tempMax[index]!)
  })
  const seasons = byCalendarDay.map((_, day) => {
    const highs: number[] = []
    for (let offset = -SEASON_DAYS; offset <= SEASON_DAYS; offset += 1) {
      highs.push(...byCalendarDay[(day + offset + CALENDAR_DAYS) % CALENDAR_DAYS]!)
    }
    // A date that the data never comes near has no season, and no day that would ask for it.
    return highs.length === 0 ? null : { usual: median(highs), spread: MAD_TO_DEVIATION * mad(highs) }
  })
  return dates.map((date, index) => {
    const { usual, spread } = seasons[calendarDay(date)]!
    const high = weather.tempMax[index]!
    // A season without spread has no outliers to speak of.
    const z = spread === 0 ? 0 : (high - usual) / spread
    // The share of a normal distribution that lies nearer; near zero the approximation dips below it.
    const nearer = Math.max(0, errorFunction(Math.abs(z) / Math.SQRT2))
    return { date, high, usual, z, confidence: nearer ** dates.length }
  })
}

export function temperatureClaims(weather: Weather): Claim[] {
  const days = temperatureDays(weather)
  const hottest = days.reduce((best, day) => (day.high > best.high ? day : best))
  return days
    .filter((day) => Math.abs(day.z) >= OUTLIER || day === hottest)
    .map((day) => {
      const difference = day.high - day.usual
      const [feel, side] = difference < 0 ? ['cold', 'below'] : ['hot', 'above']
      const hottestOfAll = day === hottest ? ', the hottest of all' : ''
      const season = `${Math.abs(difference).toFixed(1)} ${side} the ${day.usual.toFixed(1)} of its season`
      const high = `a high of ${day.high.toFixed(1)} °C${hottestOfAll}`
      const statement = `${day.date} was unusually ${feel}: ${high}, ${season} (robust z ${signed(day.z, 1)}).`
      return {
        key: `finding.anomaly.${day.date}`,
        confidence: day.confidence,
        finding: { topic: 'temperature', statement },
      }
    })
}

/** The chance that the day of this rank (1 is the wettest) lies above the true quantile. No distribution is assumed. */
export function confidenceOfRank(rank: number, days: number, atQuantile: number): number {
  const chances = binomialDistribution(days, 1 - atQuantile)
  if (chances === undefined) throw new RangeError(`There is no binomial distribution of ${days} days at ${atQuantile}.`)
  const fewer = chances.slice(0, rank).reduce((sum, chance) => sum + chance, 0)
  return Math.min(1, Math.max(0, 1 - fewer))
}

export function rainClaims(weather: Weather): Claim[] {
  const wet = weather.precipitation.filter((rain) => rain >= WET_MM)
  if (wet.length === 0) return []
  const heavy = quantile(wet, HEAVY_QUANTILE)
  const share = `${Math.round((1 - HEAVY_QUANTILE) * 100)} %`
  const claims: Claim[] = []
  weather.precipitation.forEach((rain, index) => {
    if (rain < WET_MM || rain <= heavy) return
    // Days that tie share the last of their ranks: the careful one.
    const rank = wet.filter((other) => other >= rain).length
    const ties = wet.filter((other) => other === rain).length
    const place = `number ${rank}${ties > 1 ? ' (tied)' : ''} of ${wet.length}`
    const date = dateOf(weather, index)
    claims.push({
      key: `finding.heavy_rain.${date}`,
      confidence: confidenceOfRank(rank, wet.length, HEAVY_QUANTILE),
      finding: {
        topic: 'rain',
        statement: `${date} was among the wettest ${share} of wet days: ${rain.toFixed(1)} mm, ${place}.`,
      },
    })
  })
  return claims
}

/** The first of the longest runs of days that `holds` accepts; length 0 if there is none. */
export function longestRun(
  values: readonly number[],
  holds: (value: number) => boolean,
): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let start = 0
  values.forEach((value, index) => {
    if (!holds(value)) start = index + 1
    else if (index - start + 1 > best.length) best = { start, length: index - start + 1 }
  })
  return best
}

export function spellClaims(weather: Weather): Claim[] {
  const spells = [
    { key: 'finding.spell.dry', what: 'without measurable rain', holds: (rain: number) => rain === 0 },
    {
      key: 'finding.spell.nearly_dry',
      what: `with less than ${WET_MM} mm of rain a day`,
      holds: (rain: number) => rain < WET_MM,
    },
    { key: 'finding.spell.wet', what: 'with some rain each day', holds: (rain: number) => rain > 0 },
  ]
  return spells.flatMap(({ key, what, holds }): Claim[] => {
    const { start, length } = longestRun(weather.precipitation, holds)
    if (length === 0) return []
    const span = `${dateOf(weather, start)} to ${dateOf(weather, start + length - 1)}`
    return [
      {
        key,
        confidence: 1,
        finding: { topic: 'spell', statement: `The longest run of days ${what}: ${length}, ${span}.` },
      },
    ]
  })
}
