/** Runs JavaScript that a model wrote, where it can do no harm. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { describe, shown, ToolInputError } from '../errors.ts'
import { needsPackages } from './packages.ts'
import { inSandbox } from './sandbox/sandbox.ts'

const CODE_MS = 5_000
const KILL_AFTER_MS = 10_000
const LONGEST_CODE = 100_000
const LONGEST_INPUT = 1_000_000
const WAITING_MS = 20_000 // for a free thread

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
 *   it
 * takes too long. Both say what it had printed.
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
  readOnly: true,
  outside: true, // in a thread, which virtual time does not wait for
  idempotent: true,
  timeoutMs: CODE_MS + KILL_AFTER_MS + WAITING_MS,
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
  if (json.length <= LONGEST_INPUT) return json
  throw new ToolInputError(
    `The input has ${json.length} characters as JSON, and at most ${LONGEST_INPUT} are possible.`,
  )
}
