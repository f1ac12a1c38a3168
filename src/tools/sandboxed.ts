/** Tools whose work is done in a thread that can be killed: arithmetic, conversions, programs. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { describe, shown, ToolInputError } from '../shared/errors.ts'
import { needsPackages } from './options.ts'
import { inSandbox } from './sandbox.ts'

const LONGEST_EXPRESSION = 1_000
const KILL_AFTER_MS = 10_000
const WAITING_MS = 20_000 // for a free thread

/** Fields of a tool that works in a thread of the sandbox, which virtual time does not wait for. */
const IN_THREAD = { readOnly: true, outside: true, idempotent: true, timeoutMs: KILL_AFTER_MS + WAITING_MS }

/**
 * The tool `calculator`: the value of an expression of numbers, as text. Decimals are exact (0.1 + 0.2 is 0.3); what is
 * not, such as 1/3 or a root, has 60 digits. Complex values have the 15 digits of a double.
 *
 * It knows + - * / ^ % mod !, comparisons, lists such as [1, 2, 3], pi, e, tau, phi, i, and the usual functions of
 * roots, powers, logarithms, trigonometry, combinatorics and statistics; no variables, units, texts or definitions. The
 * expression has up to 1,000 characters; it is parsed and walked by a maths library (mathjs), never run as code, in a
 * thread that is killed after 10 s, so that no expression holds the host up.
 *
 * @throws ToolInputError for what is no such expression, or has no finite value; ToolTimeoutError.
 * @example
 * const tools = [calculator] // a model's call: { expression: '1000 * 1.05 ^ 30' }
 */
export const calculator = defineTool({
  name: 'calculator',
  description:
    'Calculates an expression of numbers exactly, such as "1000 * 1.05 ^ 30", "sqrt(2) / 3" or "mean([1, 2, 4])". It has no variables and no units.',
  input: z.strictObject({ expression: z.string().min(1).max(LONGEST_EXPRESSION).describe('The expression.') }),
  ...IN_THREAD,
  precondition: () => needsPackages('calculator', ['mathjs']),
  run: ({ expression }, { signal }) => inSandbox({ kind: 'calculate', expression }, signal, KILL_AFTER_MS),
})

const LONGEST_VALUE = 262_144

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
  ...IN_THREAD,
  precondition: () => needsPackages('convert', ['mathjs', 'csv-parse', 'csv-stringify']),
  run: ({ value, from, to }, { signal }) => inSandbox({ kind: 'convert', value, from, to }, signal, KILL_AFTER_MS),
})

const CODE_MS = 5_000
const LONGEST_CODE = 100_000
const LONGEST_INPUT = 1_000_000

/**
 * The tool `run_code`: runs JavaScript (ES2023, with `await` at the top) and answers with what it printed by
 * `console.log`, then the value of its last expression, as text; objects as JSON. `input` is there under that name.
 *
 * The code runs in QuickJS, compiled to WebAssembly, in a thread of its own: it has no file, network, process, module,
 * timer or part of the host; 64 MiB of memory, 256 KiB of stack, 5 s. Of what it prints the first and the last 16 KiB
 * are kept. The few built-in operations that cannot be interrupted (joining an array of a hundred million, say) end
 * with their thread, 10 s after its start. Every call begins anew.
 *
 * @throws ToolFailedError when the code throws, needs more memory, or waits for what never comes; ToolTimeoutError when
 *   it takes too long. Both say what it had printed.
 * @example
 * const tools = [runCode]
 * // a model's call: { code: 'input.prices.reduce((a, b) => a + b)', input: { prices: [1, 2] } }
 */
export const runCode = defineTool({
  name: 'run_code',
  description:
    'Runs JavaScript in a sandbox, without files, network, timers or modules, for at most 5 seconds. Answers with what console.log printed and the value of the last expression.',
  input: z.strictObject({
    code: z.string().min(1).max(LONGEST_CODE).describe('The program. Top-level await is possible; return is not.'),
    input: z.unknown().optional().describe('A JSON value that the program finds in the variable "input".'),
  }),
  ...IN_THREAD,
  timeoutMs: CODE_MS + IN_THREAD.timeoutMs,
  precondition: () => needsPackages('runCode', ['quickjs-wasi']),
  run: ({ code, input }, { signal }) =>
    inSandbox({ kind: 'run-code', code, input: jsonOf(input), limitMs: CODE_MS }, signal, KILL_AFTER_MS),
})

function jsonOf(input: unknown = null): string {
  let json: string | undefined
  try {
    json = JSON.stringify(input)
  } catch (error) {
    throw new ToolInputError(`The input is no JSON value: ${describe(error)}.`)
  }
  if (json === undefined) throw new ToolInputError(`The input is no JSON value: it is ${shown(input)}.`)
  const tooLong = `The input has ${json.length} characters as JSON, and at most ${LONGEST_INPUT} are possible.`
  if (json.length > LONGEST_INPUT) throw new ToolInputError(tooLong)
  return json
}
