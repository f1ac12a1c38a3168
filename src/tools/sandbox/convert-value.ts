/** Units into units, and CSV, JSON and YAML into each other. */
import { convertData, isDataFormat } from './convert-data.ts'
import { Refused } from './task.ts'

export async function convertValue({ value, from, to }: { value: string; from: string; to: string }): Promise<string> {
  if (isDataFormat(from) && isDataFormat(to)) return convertData(value, from, to)
  if (isDataFormat(from) || isDataFormat(to)) {
    throw new Refused(`"${from}" and "${to}" do not go together: give two units, or two of csv, json and yaml.`)
  }
  return (await import('./convert-units.ts')).convertUnits(value, from, to)
}
