/** Units into units, and CSV, JSON and YAML into each other. */
import { parse as parseCsv } from 'csv-parse/sync'
import { stringify as stringifyCsv } from 'csv-stringify/sync'
import { parseDocument, stringify as stringifyYaml } from 'yaml'
import { own } from '../shared/values.ts'
import { Refused } from './options.ts'

const formats = ['csv', 'json', 'yaml', 'yml'] as const
type DataFormat = (typeof formats)[number]

const LARGEST_RESULT = 1_000_000 // characters
const MOST_ALIASES = 100 // an alias of aliases of aliases grows without bound
const LONGEST_CELL = 100_000

function isDataFormat(name: string): name is DataFormat {
  return formats.some((format) => format === name)
}

function convertData(value: string, from: DataFormat, to: DataFormat): string {
  const text = written(read(value, from), to)
  if (text.length <= LARGEST_RESULT) return text
  throw new Refused(
    `The result has ${text.length} characters, and at most ${LARGEST_RESULT} are possible. Convert parts.`,
  )
}

function read(value: string, from: DataFormat): unknown {
  try {
    if (from === 'csv') return recordsOf(parseCsv(value, { bom: true, max_record_size: LONGEST_CELL * 10 }))
    if (from === 'json') return JSON.parse(value)
    return yamlOf(value)
  } catch (error) {
    if (error instanceof Refused) throw error
    throw new Refused(`The value is no ${from.toUpperCase()}: ${error instanceof Error ? error.message : error}`)
  }
}

/** Objects by the names of the first row. All values are texts: CSV has no others. */
function recordsOf(rows: string[][]): object[] {
  const [names, ...records] = rows
  const twice = names?.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new Refused(`The CSV has two columns ${JSON.stringify(twice)}. Name each differently.`)
  // from entries, so that a column "__proto__" is one like any other
  return records.map((cells) => Object.fromEntries(cells.map((cell, index) => [names![index], cell])))
}

function yamlOf(value: string): unknown {
  const document = parseDocument(value, { uniqueKeys: true, logLevel: 'error' })
  const [error] = document.errors
  if (error) throw error
  return document.toJS({ maxAliasCount: MOST_ALIASES })
}

function written(data: unknown, to: DataFormat): string {
  if (to === 'csv') return csvOf(data)
  const json = jsonOf(data)
  return to === 'json' ? json : stringifyYaml(JSON.parse(json)) // without aliases, and without what JSON does not have
}

function jsonOf(data: unknown): string {
  try {
    return JSON.stringify(data, null, 2) ?? 'null'
  } catch {
    throw new Refused('The value cannot be written: a part of it has itself within.')
  }
}

/** Returns CSV with a row for each object or list, and a header of all names if there are objects. */
function csvOf(data: unknown): string {
  if (!Array.isArray(data)) throw new Refused('Only a list becomes CSV: of objects, of lists, or of plain values.')
  if (!data.some(isRecord)) return stringifyCsv(data.map((row) => (Array.isArray(row) ? row : [row]).map(agentOf)))
  if (!data.every(isRecord)) throw new Refused('Only a list of one kind becomes CSV: all objects, or none.')
  const names = [...new Set(data.flatMap((record) => Object.keys(record)))]
  const rows = data.map((record) =>
    names.map((name) => (Object.hasOwn(record, name) ? agentOf(own(record, name)) : '')),
  )
  return stringifyCsv([names, ...rows])
}

function isRecord(row: unknown): row is Record<string, unknown> {
  return typeof row === 'object' && row !== null && !Array.isArray(row)
}

function agentOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? jsonOf(value) : String(value)
}

export async function convertValue({ value, from, to }: { value: string; from: string; to: string }): Promise<string> {
  if (isDataFormat(from) && isDataFormat(to)) return convertData(value, from, to)
  if (isDataFormat(from) || isDataFormat(to)) {
    throw new Refused(`"${from}" and "${to}" do not go together: give two units, or two of csv, json and yaml.`)
  }
  return (await import('./convert-units.ts')).convertUnits(value, from, to)
}
