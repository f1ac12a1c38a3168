/** The weather as columns: compact enough for the blackboard, since a day's date follows from its place. */
import { parse } from 'csv-parse/sync'
import { z } from 'zod'

const DAY_MS = 86_400_000

/** `tempMax` and `tempMin` in degrees Celsius, `precipitation` in millimetres; one value a day, no day left out. */
export const WeatherSchema = z
  .object({
    firstDay: z.iso.date(),
    tempMax: z.array(z.number()),
    tempMin: z.array(z.number()),
    precipitation: z.array(z.number()),
  })
  .refine((weather) => weather.tempMax.length > 0, 'there is no day in it')
  .refine(
    ({ tempMax, tempMin, precipitation }) =>
      tempMax.length === tempMin.length && tempMax.length === precipitation.length,
    'the columns differ in length',
  )
export type Weather = z.infer<typeof WeatherSchema>

// Number('') is 0: an empty cell must not become a frosty day.
const cell = z.string().trim().min(1).transform(Number).pipe(z.number())
const RowSchema = z.object({
  date: z.iso.date(),
  temp_max: cell,
  temp_min: cell,
  precipitation: cell.pipe(z.number().min(0)),
})

/** Reads the CSV. Throws at the first row that is not a reading or not of the day after the row before. */
export function parseWeather(csv: string): Weather {
  const rows = parse<Record<string, string>>(csv, { columns: true, bom: true, skipEmptyLines: true })
  const weather: Weather = { firstDay: rows[0]?.date ?? '', tempMax: [], tempMin: [], precipitation: [] }
  for (const [index, row] of rows.entries()) {
    const reading = RowSchema.safeParse(row)
    if (!reading.success)
      throw new Error(`Row ${index + 1} of the data is no reading: ${z.prettifyError(reading.error)}`)
    const { date, temp_max, temp_min, precipitation } = reading.data
    const expected = dateOf(weather, index)
    if (date !== expected)
      throw new Error(`Row ${index + 1} of the data is ${date}, not ${expected}: a day is missing or doubled.`)
    weather.tempMax.push(temp_max)
    weather.tempMin.push(temp_min)
    weather.precipitation.push(precipitation)
  }
  return WeatherSchema.parse(weather)
}

/** The ISO date of the day at `index`. */
export function dateOf(weather: Pick<Weather, 'firstDay'>, index: number): string {
  return new Date(Date.parse(weather.firstDay) + index * DAY_MS).toISOString().slice(0, 10)
}

/** 0 to 365, the same for a date in every year: February 29 has a place of its own. */
export function calendarDay(date: string): number {
  return (Date.parse(`2000${date.slice(4)}`) - Date.UTC(2000, 0, 1)) / DAY_MS
}
