/**
 * Evaluates an expression with numbers alone. The library's language has more (it can define functions, load, parse and
 * change the library), so that the expression is parsed first and each part of it looked up in a list of what is
 * allowed; then it is evaluated by walking that tree. Nothing of it becomes JavaScript.
 */

import type { MathNode } from 'mathjs'
import library from 'mathjs/lib/browser/math.js'
import { Refused } from './options.ts'

/** Digits of a result. The library counts with a few more, so that a result's last digit is right. */
export const DIGITS = 60

export const math = library.create({ number: 'BigNumber', precision: DIGITS + 4 })

const MOST_PARTS = 500

const constants = new Set(['pi', 'e', 'tau', 'phi', 'i', 'true', 'false'])
const functions = new Set(
  `abs ceil floor round fix sign sqrt cbrt nthRoot square cube pow exp expm1 log log2 log10 log1p ln
   sin cos tan sec csc cot asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot
   gcd lcm mod factorial gamma combinations permutations
   min max sum prod mean median mode variance std re im arg conj`.split(/\s+/),
)
const operators = new Set(
  `add subtract multiply divide pow mod factorial unaryMinus unaryPlus
   equal unequal smaller smallerEq larger largerEq and or xor not`.split(/\s+/),
)
// the largest value that these may have: the time of some grows with it, others are wrong where its last digits are
// lost
const limits = {
  factorial: 10_000,
  gamma: 10_000,
  combinations: 10_000,
  permutations: 10_000,
  mod: 10 ** DIGITS,
  gcd: 10 ** DIGITS,
  lcm: 10 ** DIGITS,
}

for (const [name, limit] of Object.entries(limits)) {
  const compute: (...values: unknown[]) => unknown = Reflect.get(math, name)
  math.import({ [name]: bounded(name, limit, compute) }, { override: true })
}
math.import({ ln: (value: number) => math.log(value) }) // what people call it

/** The value as text. Throws `Refused` for what is no expression of numbers, or has no finite value. */
export function calculate(expression: string): string {
  const tree = parsed(expression)
  let parts = 0
  tree.traverse((node, path, parent) => {
    parts += 1
    if (parts > MOST_PARTS) throw new Refused(`The expression has more than ${MOST_PARTS} parts. Take it apart.`)
    const wrong = whatIsWrong(node, path, parent)
    if (wrong !== undefined) throw new Refused(`The expression cannot be calculated: ${wrong}.`)
  })
  return textOf(evaluated(tree))
}

function parsed(expression: string): MathNode {
  try {
    return math.parse(expression)
  } catch (error) {
    throw new Refused(`The expression cannot be read: ${error instanceof Error ? error.message : error}.`)
  }
}

function whatIsWrong(node: MathNode, path: string, parent: MathNode | null): string | undefined {
  if (math.isConstantNode(node)) {
    if (math.isBigNumber(node.value) || ['number', 'boolean'].includes(typeof node.value)) return undefined
    return typeof node.value === 'string' ? 'it has a text in it, and numbers alone are possible' : 'it is empty'
  }
  if (math.isParenthesisNode(node) || math.isArrayNode(node)) return undefined
  if (math.isOperatorNode(node)) return operators.has(node.fn) ? undefined : `the operator ${node.op} is not known`
  if (math.isRelationalNode(node)) return undefined
  if (math.isFunctionNode(node)) {
    return math.isSymbolNode(node.fn) && functions.has(node.fn.name) ? undefined : `${node.fn} is not a known function`
  }
  if (!math.isSymbolNode(node)) return 'it is more than an expression of numbers'
  if (parent && math.isFunctionNode(parent) && path === 'fn') return undefined // looked at with its call
  return constants.has(node.name) ? undefined : `${node.name} is not known; it has no variables and no units`
}

function evaluated(tree: MathNode): unknown {
  try {
    return tree.evaluate(new Map())
  } catch (error) {
    if (error instanceof Refused) throw error
    throw new Refused(`The expression has no value: ${error instanceof Error ? error.message : error}.`)
  }
}

function textOf(value: unknown): string {
  const text = math.format(value, { precision: DIGITS, lowerExp: -DIGITS, upperExp: DIGITS })
  if (/NaN|Infinity/.test(text))
    throw new Refused('The expression has no finite value: it divides by zero, or is too large.')
  return text
}

function bounded(name: string, limit: number, compute: (...values: unknown[]) => unknown) {
  return (...values: unknown[]) => {
    for (const value of values) {
      if (!(Math.abs(Number(value)) <= limit))
        throw new Refused(`The expression is too large: ${name} takes values up to ${limit}.`)
    }
    return compute(...values)
  }
}
