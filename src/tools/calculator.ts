/** Arithmetic, exactly. */
import { z } from 'zod'
import { defineTool } from '../actors/definition/tool.ts'
import { needsPackages } from './packages.ts'
import { inSandbox } from './sandbox/sandbox.ts'

const LONGEST_EXPRESSION = 1_000
const KILL_AFTER_MS = 10_000
const WAITING_MS = 20_000 // for a free thread

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
  readOnly: true,
  outside: true, // in a thread, which virtual time does not wait for
  idempotent: true,
  timeoutMs: KILL_AFTER_MS + WAITING_MS,
  precondition: () => needsPackages('calculator', ['mathjs']),
  run: ({ expression }, { signal }) => inSandbox({ kind: 'calculate', expression }, signal, KILL_AFTER_MS),
})
