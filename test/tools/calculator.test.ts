/** The calculator: exact values, and nothing but values, whatever the expression tries. */
import library from 'mathjs/lib/browser/math.js'
import t from 'tap'
import { systemClock } from '../../src/shared/clock.ts'
import { calculate } from '../../src/tools/calculate.ts'
import { Refused } from '../../src/tools/options.ts'
import { calculator } from '../../src/tools/sandboxed.ts'
import { call } from './calls.ts'
import { hostileExpressions } from './hostile-expressions.ts'

const values: [expression: string, value: string][] = [
  ['0.1 + 0.2', '0.3'],
  ['1/3', `0.${'3'.repeat(60)}`],
  ['2^100', '1267650600228229401496703205376'],
  ['12345678901234567890 * 98765432109876543210', '1219326311370217952237463801111263526900'],
  ['1000000 * 1.05^10', '1628894.62677744140625'],
  ['-2^2', '-4'],
  ['2^-3', '0.125'],
  ['10 mod 3', '1'],
  ['8%', '0.08'],
  ['5!', '120'],
  ['round(2.345, 2)', '2.35'],
  ['sqrt(16) + cbrt(27)', '7'],
  ['sqrt(-4)', '2i'],
  ['log(8, 2) + log10(1000) + ln(e)', '7'],
  ['sin(pi/2)', '1'],
  ['mean([1, 2, 6])', '3'],
  ['max(3, 7, 5)', '7'],
  ['[1, 2] * 3', '[3, 6]'],
  ['1 < 2 < 3', 'true'],
  ['2 pi / tau', '1'],
  ['gcd(12, 18) + lcm(4, 6)', '18'],
  ['combinations(50, 5)', '2118760'],
  ['1e-70', '1e-70'],
  ['0x1f', '31'],
]

t.test('calculates exactly', async (t) => {
  for (const [expression, value] of values) t.equal(calculate(expression), value, expression)
})

t.test('the tool does it in a thread of its own', async (t) => {
  t.equal(await call(calculator, { expression: '0.1 + 0.2' }), '0.3')
  await t.rejects(call(calculator, { expression: '1 +' }), { code: 'TOOL_INPUT', message: /cannot be read/ })
  await t.rejects(call(calculator, { expression: '' }), { code: 'TOOL_INPUT' })
  await t.rejects(call(calculator, { expression: '1'.repeat(1_001) }), { code: 'TOOL_INPUT' })
  await t.rejects(call(calculator, { expression: 5 }), { code: 'TOOL_INPUT' })
})

t.test('what fails in the midst of a calculation harms no later one', async (t) => {
  await t.rejects(call(calculator, { expression: 'sin(1e9000)' }), { code: 'TOOL_INPUT', message: /has no value/ })
  t.equal(await call(calculator, { expression: 'nthRoot(27, 3)' }), '3')
})

t.test('an expression that takes for ever is killed after 10 s', async (t) => {
  const limits: number[] = []
  const { timer } = systemClock
  t.teardown(() => Object.assign(systemClock, { timer }))
  systemClock.timer = (ms, task) => {
    limits.push(ms)
    return timer(ms / 20, task)
  }
  const killed = { code: 'TOOL_TIMEOUT', message: /did not end within 10000 ms and was killed/ }
  await t.rejects(call(calculator, { expression: 'cosh(1e8)' }), killed)
  t.same(limits, [10_000])
})

t.test('what has no finite value, or loses digits, says so', async (t) => {
  const cases: [string, RegExp][] = [
    ['1/0', /no finite value/],
    ['0/0', /no finite value/],
    ['9^9^9^9', /no finite value/],
    ['10^70 mod 7', /mod takes values up to 1e\+60/],
    ['gcd(10^70, 3)', /gcd takes values/],
    ['1e9!', /factorial takes values up to 10000/],
    ['gamma(1e9)', /gamma takes/],
    ['combinations(1e9, 5e8)', /combinations takes/],
    [`${'1+'.repeat(260)}1`, /more than 500 parts/],
    ['x + 1', /x is not known; it has no variables/],
    ['2 inch', /inch is not known; it has no variables and no units/],
    ['"a"', /has a text in it/],
  ]
  for (const [expression, message] of cases) t.throws(() => calculate(expression), { message }, expression)
})

t.test('a hostile expression is refused', async (t) => {
  t.ok(hostileExpressions.length >= 200, `${hostileExpressions.length} expressions`)
  const passed = hostileExpressions.filter((expression) => !isRefused(expression))
  t.same(passed, [])
  t.equal(Reflect.get({}, 'polluted'), undefined)
})

t.test('of the functions of the library only those of numbers are known', async (t) => {
  const names = Object.keys(library).filter((name) => typeof Reflect.get(library, name) === 'function')
  const calls = ['(1)', '(0.5)', '(2, 1)', '([1, 2])']
  const open = names.filter((name) => calls.some((call) => !isRefused(name + call)))
  t.same(open.sort(), numeric.sort())
})

const numeric =
  `abs acos acosh arg asin asinh atan atan2 atanh cbrt ceil combinations conj cos cosh cot csc cube exp expm1 factorial
  fix floor gamma gcd hypot im lcm log log10 log1p log2 max mean median min mod mode not nthRoot permutations pow prod re round sec
  sign sin sinh sqrt square std sum tan tanh variance`.split(/\s+/)

function isRefused(expression: string): boolean {
  try {
    calculate(expression)
    return false
  } catch (error) {
    return error instanceof Refused
  }
}
