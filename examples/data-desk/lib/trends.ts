/** Was it changing? Each month is compared with the same month of the other years, so the seasons cancel out. */
import { factorial, mean, median, permutationsHeap, sum } from 'simple-statistics'
import { dateOf, type Weather } from './dataset.ts'
import { type Claim, signed, type Table } from './finding.ts'

/** How the claims come about, for a number of years: the fewer they are, the less can be said. */
export function method(years: number): string {
  const orders = factorial(years)
  return [
    'Slope: the median of the differences between the same months of any two years, per year (seasonal Sen slope);',
    'a winter is the January, February and December of one year.',
    'Confidence: 1 - p of the seasonal Mann-Kendall statistic, where p is the share of all orders of the years that',
    'show as strong a trend. Whole years change places, so the weather of one month may resemble the next.',
    `${years} years have ${orders} orders: no trend in them can reach more than ${(1 - 2 / orders).toFixed(2)}, and none`,
    'says anything about the climate.',
  ].join(' ')
}

/** A row for each full year, twelve months in each. */
type Months = number[][]
interface MonthlyTally {
  years: number[]
  highs: Months
  lows: Months
  rain: Months
}

const SEASONS = { winter: [11, 0, 1], spring: [2, 3, 4], summer: [5, 6, 7], autumn: [8, 9, 10] }
const HOT_C = 30
/** One can be left out and two still make a difference. */
const FEWEST_YEARS = 3

/** Means of the temperatures and sums of the rain. Years that miss a day are left out. */
export function tallyMonths(weather: Weather): MonthlyTally {
  const daysOf = new Map<string, number[]>()
  weather.tempMax.forEach((_, day) => {
    const month = dateOf(weather, day).slice(0, 7)
    daysOf.set(month, [...(daysOf.get(month) ?? []), day])
  })
  const monthsOf = (year: number) =>
    Array.from({ length: 12 }, (_, month) => daysOf.get(`${year}-${String(month + 1).padStart(2, '0')}`) ?? [])
  const years = [...new Set([...daysOf.keys()].map((month) => Number(month.slice(0, 4))))].filter(
    (year) => monthsOf(year).flat().length === (isLeap(year) ? 366 : 365),
  )
  const fold = (values: number[], combine: (values: number[]) => number): Months =>
    years.map((year) => monthsOf(year).map((days) => combine(days.map((day) => values[day]!))))
  return {
    years,
    highs: fold(weather.tempMax, mean),
    lows: fold(weather.tempMin, mean),
    rain: fold(weather.precipitation, sum),
  }
}

function isLeap(year: number): boolean {
  return new Date(Date.UTC(year, 1, 29)).getUTCMonth() === 1
}

/** The later minus the earlier value of each pair of years in each month, and how many years lie between. */
function pairs(rows: Months, years: readonly number[]): { difference: number; gap: number }[] {
  const found: { difference: number; gap: number }[] = []
  for (let later = 1; later < rows.length; later += 1) {
    for (let earlier = 0; earlier < later; earlier += 1) {
      rows[later]!.forEach((value, month) => {
        found.push({ difference: value - rows[earlier]![month]!, gap: years[later]! - years[earlier]! })
      })
    }
  }
  return found
}

/**
 * The change a year: the median over all pairs of years of the same month.
 * Hirsch, Slack, Smith: Techniques of trend analysis for monthly water quality data, 1982.
 */
export function seasonalSlope(rows: Months, years: readonly number[]): number {
  return median(pairs(rows, years).map(({ difference, gap }) => difference / gap))
}

/** Rises minus falls, over the same pairs. */
export function seasonalKendall(rows: Months): number {
  return sum(
    pairs(
      rows,
      rows.map((_, index) => index),
    ).map(({ difference }) => Math.sign(difference)),
  )
}

/** The share of all orders of the years that show as strong a trend as the real one, up or down. */
export function trendChance(rows: Months): number {
  const strength = Math.abs(seasonalKendall(rows))
  const orders = permutationsHeap([...rows])
  return orders.filter((order) => Math.abs(seasonalKendall(order)) >= strength).length / orders.length
}

/** One claim for each series. The slopes with one year left out show whether a single year carries it. */
export function trendClaims(tally: MonthlyTally): Claim[] {
  const { years } = tally
  if (years.length < FEWEST_YEARS) return []
  const series = [
    { key: 'finding.trend.highs', label: 'Daily highs', unit: '°C', digits: 2, rows: tally.highs },
    { key: 'finding.trend.lows', label: 'Daily lows', unit: '°C', digits: 2, rows: tally.lows },
    { key: 'finding.trend.rain', label: 'Rain in a month', unit: 'mm', digits: 1, rows: tally.rain },
  ]
  return series.map(({ key, label, unit, digits, rows }): Claim => {
    const slope = seasonalSlope(rows, years)
    const partial = years.map((_, left) =>
      seasonalSlope(
        rows.filter((_, index) => index !== left),
        years.filter((_, index) => index !== left),
      ),
    )
    const range = `${signed(Math.min(...partial), digits)} to ${signed(Math.max(...partial), digits)}`
    const bySeason = Object.entries(SEASONS)
      .map(([season, months]) => {
        const only = rows.map((row) => months.map((month) => row[month]!))
        return `${season} ${signed(seasonalSlope(only, years), digits)}`
      })
      .join(', ')
    const claim = `${label} ${slope < 0 ? 'fell' : 'rose'}: ${signed(slope, digits)} ${unit} a year`
    const statement = `${claim} (${range} with any one year left out). By season: ${bySeason}.`
    return { key, confidence: 1 - trendChance(rows), finding: { topic: 'trend', statement } }
  })
}

/** The years side by side. */
export function yearTable(weather: Weather, { years, highs }: MonthlyTally): Table {
  const rows = years.map((year, place) => {
    const days = weather.tempMax.flatMap((_, day) => (dateOf(weather, day).startsWith(`${year}-`) ? [day] : []))
    const of = (values: number[]) => days.map((day) => values[day]!)
    const warmest = highs[place]!.filter(
      (value, month) => value === Math.max(...highs.map((row) => row[month]!)),
    ).length
    return [
      String(year),
      mean(of(weather.tempMax)).toFixed(1),
      mean(of(weather.tempMin)).toFixed(1),
      String(of(weather.tempMax).filter((high) => high >= HOT_C).length),
      String(of(weather.tempMin).filter((low) => low < 0).length),
      sum(of(weather.precipitation)).toFixed(0),
      String(of(weather.precipitation).filter((rain) => rain > 0).length),
      String(warmest),
    ]
  })
  const columns = [
    'year',
    'mean high °C',
    'mean low °C',
    `days from ${HOT_C} °C`,
    'days with frost',
    'rain mm',
    'days with rain',
    'months it was warmest in',
  ]
  return { columns, rows }
}
