/** Tool that converts a value: units, and formats of data. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { needsPackages } from './packages.ts'
import { inSandbox } from './sandbox/sandbox.ts'

const LONGEST_VALUE = 262_144
const KILL_AFTER_MS = 10_000
const WAITING_MS = 20_000 // for a free thread

/**
 * The tool `convert`: a number from one unit into another (`km` to `mile`, `degC` to `degF`, `km/h` to `m/s`; the units
 * of mathjs, to 15 digits; no money), or data between `csv`, `json` and `yaml`.
 *
 * CSV has its names in the first row and its values as texts; only a list becomes CSV, and what is nested becomes JSON
 * in its cell. Whole numbers beyond 2^53 lose digits in JSON and YAML. YAML is 1.2, with at most 100 aliases resolved.
 * Up to 262,144 characters go in, and a million come out; it all happens in a thread that is killed after 10 s.
 *
 * @throws ToolInputError that says where the value is wrong; ToolTimeoutError.
 * @example
 * const tools = [convert] // a model's call: { value: '100', from: 'degF', to: 'degC' }
 */
export const convert = defineTool({
  name: 'convert',
  description:
    'Converts a number between units ("km" to "mile", "degC" to "degF", "km/h" to "m/s"), or data between the formats "csv", "json" and "yaml".',
  input: z.strictObject({
    value: z.string().min(1).max(LONGEST_VALUE).describe('The number, or the data as text.'),
    from: z.string().min(1).max(60).describe('The unit or the format that it has.'),
    to: z.string().min(1).max(60).describe('The unit or the format that it gets.'),
  }),
  readOnly: true,
  outside: true, // in a thread, which virtual time does not wait for
  idempotent: true,
  timeoutMs: KILL_AFTER_MS + WAITING_MS,
  precondition: () => needsPackages('convert', ['mathjs', 'csv-parse', 'csv-stringify']),
  run: ({ value, from, to }, { signal }) => inSandbox({ kind: 'convert', value, from, to }, signal, KILL_AFTER_MS),
})
