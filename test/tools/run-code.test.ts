/** Tools that compute: run_code and its bounds, the calculator, and what models are told of all tools. */
import library from 'mathjs/lib/browser/math.js'
import t from 'tap'
import { z } from 'zod'
import { systemClock } from '../../src/shared/clock.ts'
import { calculate } from '../../src/tools/calculate.ts'
import { convertValue } from '../../src/tools/convert-value.ts'
import { sights, workspace } from '../../src/tools/index.ts'
import { type Outcome, Refused } from '../../src/tools/options.ts'
import { runJavaScript } from '../../src/tools/run-javascript.ts'
import { inSandbox, sandboxThreads } from '../../src/tools/sandbox.ts'
import { calculator, convert, runCode } from '../../src/tools/sandboxed.ts'
import { SIGHTS } from '../../src/tools/sights.ts'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/subtasks.ts'
import { call, definitionOf } from './calls.ts'
import { hostileCode } from './hostile-code.ts'
import { hostileCsv, hostileJson, hostileUnits, hostileYaml, oddYaml } from './hostile-data.ts'
import { hostileExpressions } from './hostile-expressions.ts'

const SECRET = 'canary-51c2'
const LONG_MS = 60_000 // a limit that is not what ends the test
const SHORT_MS = 100

t.test('answers with what was printed and the value of the last expression', async (t) => {
  const { signal } = new AbortController()
  const code = 'console.log("sum of", input.prices); const total = input.prices.reduce((a, b) => a + b); ({ total })'
  const answer = await call(runCode, { code, input: { prices: [1, 2] } }, signal)
  t.equal(answer, 'sum of [1,2]\n{"total":3}')
})

t.test('shows values of every kind', async (t) => {
  const cases: [string, string][] = [
    ['1 + 1', '2'],
    ['"text"', 'text'],
    ['undefined', ''],
    ['null', 'null'],
    ['10n ** 20n', '100000000000000000000n'],
    ['[1, 2n, undefined, () => 1]', '[1,"2n",null,"() => 1"]'],
    ['new Map([["a", 1]])', '{"a":1}'],
    ['new Set([1, 2])', '[1,2]'],
    ['new Error("bad")', 'Error: bad'],
    ['Symbol("s")', 'Symbol(s)'],
    ['const o = {}; o.o = o; o', 'a value that cannot be shown (TypeError: circular reference)'],
    ['Promise.resolve(7)', '7'],
    ['const x = await Promise.resolve(5); x * 2', '10'],
    ['input', 'null'],
    ['console.log(1, "a"); console.error(null); 3', '1 a\nnull\n3'],
    ['let a = 1; { a = 2 } a', '2'],
  ]
  for (const [code, text] of cases) t.same(await run(code), { done: text }, code)
})

t.test('every run begins anew', async (t) => {
  await run(
    'globalThis.kept = 1; Object.prototype.kept = 1; JSON.stringify = () => "taken"; Array.prototype.map = null',
  )
  t.same(await run('[typeof kept, [1].map(String)]'), { done: '["undefined",["1"]]' })
  t.equal(Reflect.get({}, 'kept'), undefined)
})

t.test('says where the code fails, and what it had printed', async (t) => {
  const { failed } = { failed: '', ...(await run('console.log("begun")\n\nnull.x')) }
  t.match(failed, /^The code failed: TypeError: .*null.* \(code\.js:3:\d+\) It printed:\nbegun\n$/)
  t.match(await run('const'), { failed: /SyntaxError/ })
  t.match(await run('await new Promise(() => {})'), { failed: /waits for something that never comes/ })
  await t.rejects(call(runCode, { code: 'throw new Error("mine")' }), {
    code: 'TOOL_FAILED',
    message: /Error: mine/,
  })
})

t.test('no program reaches the host', async (t) => {
  process.env.CANARY = SECRET
  t.teardown(() => delete process.env.CANARY)
  t.ok(hostileCode.length >= 300, `${hostileCode.length} programs`)
  const before = Object.keys(globalThis).sort()
  const out: string[] = []
  for (const code of hostileCode) {
    const outcome = await run(code)
    if (!('failed' in outcome) || JSON.stringify(outcome).includes(SECRET)) out.push(code)
  }
  t.same(out, [])
  t.same(Object.keys(globalThis).sort(), before)
})

t.test('input is data, whatever it looks like', async (t) => {
  const input = JSON.parse(
    '{"__proto__": {"polluted": 1}, "constructor": 5, "text": "`$\\u007bprocess}`\\u2028\'); process; (\'"}',
  )
  const code = 'JSON.stringify([({}).polluted, Object.keys(input).length, input.constructor])'
  t.equal(await call(runCode, { code, input }), '[null,3,5]')
  const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)) // V8 wrote 5,000 from Node 25 on, and the sandbox reads them
  await t.rejects(call(runCode, { code: '1', input: deep }), { code: /^TOOL_/ })
  await t.rejects(call(runCode, { code: '1', input: 5n }), { code: 'TOOL_INPUT', message: /no JSON value/ })
  await t.rejects(call(runCode, { code: '1', input: () => 1 }), { code: 'TOOL_INPUT', message: /it is a function/ })
  await t.rejects(call(runCode, { code: '1', input: 'x'.repeat(1_000_001) }), { code: 'TOOL_INPUT' })
  for (const wrong of [{}, { code: '' }, { code: 5 }, { code: 'x'.repeat(100_001) }, { code: '1', timeoutMs: 1e9 }]) {
    await t.rejects(call(runCode, wrong), { code: 'TOOL_INPUT' })
  }
})

t.test('what does not end is interrupted', async (t) => {
  const endless = [
    'for (;;);',
    'while (true) { try { for (;;); } catch {} finally { continue } }',
    'const f = () => Promise.resolve().then(f); await f()',
    'async function f() { for (;;) await null } await f()',
    '/(a+)+$/.test("a".repeat(60) + "b")',
    'function* g() { for (;;) yield 1 } for (const x of g());',
    '[...{ [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }].length > 1e12',
    'Array.from({ length: 1e9 })',
    'new Proxy({}, { get: (t, k, r) => { for (;;); } }).x',
    'throw { get name() { for (;;); } }',
    '({ toJSON() { for (;;); } })',
    'console.log({ toString() { for (;;); }, toJSON() { for (;;); } })',
  ]
  for (const code of endless) {
    const outcome = await run(code, SHORT_MS)
    t.ok('late' in outcome || /out of memory/.test(JSON.stringify(outcome)), `${code}: ${JSON.stringify(outcome)}`)
  }
})

t.test('memory and stack are bounded', async (t) => {
  const greedy = [
    'const a = []; for (;;) a.push(new Array(10_000).fill(1))',
    '"x".repeat(1e9)',
    'let s = "x"; for (;;) s += s',
    'new ArrayBuffer(1e9)',
    'new Uint8Array(2 ** 31)',
    'const m = new Map(); for (let i = 0; ; i++) m.set(i, "x".repeat(1000))',
    '(function f() { f() })()',
    'const f = () => [f()]; f()',
    'let s = "["; for (let i = 0; i < 22; i++) s += s; JSON.parse(s)',
    'eval("(".repeat(1e5))',
    'let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; JSON.stringify(o)',
    'new RegExp("(".repeat(1e5))',
    'const p = new Proxy({}, { get: (t, k, r) => r[k] }); p.x',
  ]
  for (const code of greedy)
    t.match(await run(code), { failed: /out of memory|stack|too l|too many|invalid|length/i }, code)
})

t.test('prints are bounded', async (t) => {
  const outcome = await run('for (let i = 0; i < 20_000; i++) console.log("line " + i)')
  const { done } = { done: '', ...outcome }
  t.ok(done.length < 33_000)
  t.match(done, /^line 0\n[\s\S]*bytes left out[\s\S]*line 19999\n$/)
})

t.test('results are bounded, whatever the code makes of what bounds them', async (t) => {
  const long = '"x".repeat(1e6)'
  const programs = [
    `String.prototype.slice = function () { return String(this) }; ${long}`,
    `const error = new Error("bad"); error.name = ${long}; error`,
    `RegExp.prototype.exec = () => [${long}]; throw new Error("bad")`,
  ]
  for (const code of programs) {
    const outcome = { done: '', failed: '', ...(await run(code)) }
    const { length } = outcome.done + outcome.failed
    t.ok(length >= 200_000 && length < 201_000, `${length} characters: ${code}`)
  }
})

t.test('what cannot be interrupted is killed with its thread', async (t) => {
  const task = { kind: 'run-code', code: 'new Array(1e8) + ""', input: 'null', limitMs: LONG_MS } as const
  await t.rejects(inSandbox(task, new AbortController().signal, SHORT_MS), {
    code: 'TOOL_TIMEOUT',
    message: /did not end within 100 ms and was killed/,
  })
})

t.test('the host goes on meanwhile, and an abort ends it', async (t) => {
  const control = new AbortController()
  const calls = Array.from({ length: 6 }, () => call(runCode, { code: 'for (;;);' }, control.signal))
  setImmediate(() => control.abort(new Error('enough')))
  const ends = await Promise.allSettled(calls)
  t.same(
    ends.map((end) => end.status === 'rejected' && end.reason.message),
    Array.from({ length: 6 }, () => 'enough'),
  )
  t.equal(await call(runCode, { code: '"free again"' }), 'free again')
  await t.rejects(call(runCode, { code: '1' }, AbortSignal.abort(new Error('gone'))), { message: 'gone' })
})

function run(code: string, limitMs = LONG_MS): Promise<Outcome> {
  return runJavaScript({ code, input: 'null', limitMs })
}

t.test('the number of threads is set by a variable, and a wrong one is refused', async (t) => {
  t.equal(sandboxThreads('12'), 12)
  const usual = sandboxThreads(undefined)
  t.ok(usual >= 1 && usual <= 4)
  for (const set of ['', '0', '1.5', '65', 'many'])
    t.throws(() => sandboxThreads(set), {
      code: 'CONFIGURATION',
      message: /DRAMATIS_SANDBOX_THREADS is ".*"; accepted/,
    })
})

// Tools that compute: the calculator, conversions, sights, sub-tasks; and what models are told of all.

// The calculator: exact values, and nothing but values, whatever the expression tries.

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

// `convert`: units and formats of data, and what is none.

t.test('converts units', async (t) => {
  const cases: [value: string, from: string, to: string, result: string][] = [
    ['100', 'degC', 'degF', '212'],
    ['-40', '°F', '°C', '-40'],
    ['1', 'inch', 'cm', '2.54'],
    ['3', 'mile', 'km', '4.828032'],
    ['36', 'km/h', 'm/s', '10'],
    ['60', 'mph', 'km/h', '96.56064'],
    ['1', 'GiB', 'bytes', '1073741824'],
    ['1', 'kWh', 'J', '3600000'],
    ['2', 'm^3', 'litre', '2000'],
    ['9.81', 'm/s^2', 'cm/s^2', '981'],
    ['1e-3', 'km', 'mm', '1000'],
    [' 90 ', 'deg', 'rad', '1.5707963267949'],
    ['1', 'week', 'hours', '168'],
  ]
  for (const [value, from, to, result] of cases)
    t.equal(await convertValue({ value, from, to }), result, `${from} ${to}`)
})

t.test('converts data', async (t) => {
  const cases: [value: string, from: string, to: string, result: string][] = [
    ['a,b\n1,"x, y"\n', 'csv', 'json', JSON.stringify([{ a: '1', b: 'x, y' }], null, 2)],
    ['a\n', 'csv', 'json', '[]'],
    ['\ufeffä;b\n1', 'csv', 'yaml', '- ä;b: "1"\n'],
    ['[{"a":1,"b":null},{"b":{"c":[1]}}]', 'json', 'csv', 'a,b\n1,\n,"{\n  ""c"": [\n    1\n  ]\n}"\n'],
    ['[[1,2],["x,y",true]]', 'json', 'csv', '1,2\n"x,y",true\n'],
    ['[1,2]', 'json', 'csv', '1\n2\n'],
    ['a: 1\nb: [x, ~]\n', 'yaml', 'json', JSON.stringify({ a: 1, b: ['x', null] }, null, 2)],
    ['a: &x {b: 1}\nc: *x', 'yml', 'yaml', 'a:\n  b: 1\nc:\n  b: 1\n'],
    ['{"a":"yes","b":"1"}', 'json', 'yaml', 'a: yes\nb: "1"\n'],
    ['[1, 2]', 'json', 'json', '[\n  1,\n  2\n]'],
  ]
  for (const [value, from, to, result] of cases) t.equal(await convertValue({ value, from, to }), result, value)
})

t.test('the tool does it in a thread of its own, and says what is wrong', async (t) => {
  t.equal(await call(convert, { value: '1', from: 'inch', to: 'cm' }), '2.54')
  const wrong: [object, RegExp][] = [
    [{ value: '{"a":', from: 'json', to: 'yaml' }, /The value is no JSON: /],
    [{ value: 'a: [', from: 'yaml', to: 'json' }, /The value is no YAML: .*line 1/s],
    [{ value: 'a,b\n1', from: 'csv', to: 'json' }, /The value is no CSV: .*line 2/],
    [{ value: '1', from: 'km', to: 'kg' }, /"km" cannot become "kg": they measure different things/],
    [{ value: 'x', from: 'km', to: 'm' }, /The value "x" is no number/],
    [{ value: '1', from: 'USD', to: 'EUR' }, /"USD" is no known unit.*Money is not a unit/],
    [{ value: '1', from: 'csv', to: 'km' }, /do not go together/],
    [{ value: '{"a":1}', from: 'json', to: 'csv' }, /Only a list becomes CSV/],
    [{ value: '[{"a":1}, 2]', from: 'json', to: 'csv' }, /all objects, or none/],
    [{ value: '', from: 'json', to: 'csv' }, /./],
    [{ value: 5, from: 'km', to: 'm' }, /./],
    [{ value: 'x'.repeat(262_145), from: 'json', to: 'csv' }, /./],
  ]
  for (const [input, message] of wrong) {
    await t.rejects(call(convert, input), { code: 'TOOL_INPUT', message }, JSON.stringify(input).slice(0, 80))
  }
})

t.test('hostile documents and units are refused', async (t) => {
  const cases = [
    ...hostileYaml.map((value) => ({ value, from: 'yaml', to: 'json' })),
    ...hostileYaml.map((value) => ({ value, from: 'yaml', to: 'csv' })),
    ...hostileJson.map((value) => ({ value, from: 'json', to: 'yaml' })),
    ...hostileCsv.map((value) => ({ value, from: 'csv', to: 'json' })),
    ...hostileUnits.map((unit) => ({ value: '1', from: unit, to: 'm' })),
    ...hostileUnits.map((unit) => ({ value: '1', from: 'm', to: unit })),
    ...['', 'x', '1 m', '1+1', '0x10', '1e9999', 'NaN', 'Infinity', '1,5', '--1', '1e', '.', '１'].map((value) => ({
      value,
      from: 'km',
      to: 'm',
    })),
  ]
  t.ok(cases.length >= 300, `${cases.length} inputs`)
  const passed = []
  for (const input of cases) if (!(await convertIsRefused(input))) passed.push(input)
  t.same(passed, [])
})

t.test('what only looks hostile is data', async (t) => {
  for (const value of oddYaml) {
    JSON.parse(await convertValue({ value, from: 'yaml', to: 'json' }))
    await convertValue({ value, from: 'yaml', to: 'yaml' })
  }
  const pollution = '[{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}]'
  t.same(JSON.parse(await convertValue({ value: pollution, from: 'json', to: 'json' })), JSON.parse(pollution))
  t.match(await convertValue({ value: pollution, from: 'json', to: 'csv' }), /^__proto__,constructor\n/)
  t.match(await convertValue({ value: '__proto__,a\nx,1', from: 'csv', to: 'json' }), /"__proto__": "x"/)
  t.equal(Reflect.get({}, 'polluted'), undefined)
})

t.test('a result that is too large is refused', async (t) => {
  const value = `a: &a "${'x'.repeat(200_000)}"\nb: [*a, *a, *a, *a, *a]`
  await t.rejects(convertValue({ value, from: 'yaml', to: 'json' }), { message: /at most 1000000 are possible/ })
})

async function convertIsRefused(input: { value: string; from: string; to: string }): Promise<boolean> {
  try {
    await convertValue(input)
    return false
  } catch (error) {
    return error instanceof Refused
  }
}

// Sights of cities, by any of their names.

const CITIES = SIGHTS.split('\n').filter((line) => line.includes('|'))

t.test('a city is found by its English name, its own and its Chinese one', async (t) => {
  for (const [city, name] of [
    ['Tokyo', 'Tokyo'],
    ['東京', 'Tokyo'],
    ['东京', 'Tokyo'],
    ['東京市', 'Tokyo'],
    ['台北', 'Taipei'],
    ['臺北市', 'Taipei'],
    ['서울', 'Seoul'],
    ['부산시', 'Busan'],
    ['Москва', 'Moscow'],
    ['МОСКВА', 'Moscow'],
    ['القاهرة', 'Cairo'],
    ['กรุงเทพ', 'Bangkok'],
    ['मुंबई', 'Mumbai'],
    ['Αθήνα', 'Athens'],
    ['münchen', 'Munich'],
    ['Munchen', 'Munich'],
    ['são paulo', undefined],
    ['Krakow, Poland', 'Kraków'],
    ['new york city', 'New York'],
    ['Mexico City', 'Mexico City'],
    ['  paris ', 'Paris'],
    ['Paris, France', 'Paris'],
    ['Paris, Texas', undefined],
    ['Atlantis', undefined],
    ['市', undefined],
  ] as const) {
    if (name === undefined)
      await t.rejects(
        call(sights, { city }),
        { code: 'TOOL_FAILED', message: /in the list\. It has Amsterdam, / },
        city,
      )
    else t.match(await call(sights, { city }), { city: name }, city)
  }
})

t.test('each city of the list is found by each of its names, with sights that have a source', async (t) => {
  t.ok(CITIES.length >= 60, `${CITIES.length} cities`)
  for (const line of CITIES) {
    const names = line.split(' | ').slice(0, -1)
    t.ok(names.length >= 2 && names.some((name) => /\p{Script=Han}/u.test(name)), `${line}: a Chinese name`)
    for (const city of names) {
      const found = (await call(sights, { city })) as { city: string; country: string; sights: object[] }
      t.equal(found.city, names[0], city)
      t.ok(found.country !== '' && found.sights.length >= 3, city)
      for (const sight of found.sights)
        t.match(sight, { name: /./, about: /^[^:|]{8,}$/, source: /^https:\/\/en\.wikipedia\.org\/wiki\/\S+$/ })
    }
  }
})

// What a model says of its subtasks comes back in a form that can be read.

t.test('a task that is taken apart comes back as numbered subtasks', async (t) => {
  t.same(await call(decomposeTask, { subtasks: ['write it', ' test it '] }), {
    task: null,
    subtasks: [
      { id: '1', description: 'write it', status: 'pending' },
      { id: '2', description: 'test it', status: 'pending' },
    ],
  })
})

t.test('a subtask is completed, or failed with a reason', async (t) => {
  const done = { subtask: '1', status: 'completed', reason: null }
  t.same(await call(markSubtaskComplete, { subtask: '1' }), done)
  const failed = { subtask: '2', status: 'failed', reason: 'no network' }
  t.same(await call(markSubtaskComplete, { subtask: '2', success: false, reason: 'no network' }), failed)
})

t.test('a model that names no subtask is told which one is meant, and that there may be none', async (t) => {
  const { note, ...statement } = await call(markSubtaskComplete, { reason: 'it runs' })
  t.same(statement, { subtask: null, status: 'completed', reason: 'it runs' })
  t.match(note, /^No subtask was named.* If there is none, nothing was marked/)
})

t.test('what is no statement of that kind is refused', async (t) => {
  const long = 'x'.repeat(2_001)
  for (const subtasks of [
    [],
    [''],
    ['  '],
    [5],
    'write it',
    [long],
    Array.from({ length: 21 }, () => 'x'),
    undefined,
  ]) {
    await t.rejects(call(decomposeTask, { subtasks }), { code: 'TOOL_INPUT' })
  }
  for (const input of [{ success: 'yes' }, { reason: long }, { subtask: '' }, { done: true }, []]) {
    await t.rejects(call(markSubtaskComplete, input), { code: 'TOOL_INPUT' })
  }
})

// Every tool that works on the machine itself can be told to a model, and is bounded in time.

const tools = [calculator, convert, runCode, decomposeTask, markSubtaskComplete, ...workspace({ root: 'x' })]

t.test('each has a name that every model accepts, a time limit, and a strict schema of its input', async (t) => {
  for (const tool of tools) {
    const { name, timeoutMs, input } = definitionOf(tool)
    t.match(name, /^[a-z_]{1,64}$/)
    t.ok(timeoutMs, name)
    if (!(input instanceof z.ZodType)) throw new TypeError(`the schema of ${name} is not zod's`)
    t.match(z.toJSONSchema(input, { io: 'input' }), { type: 'object', additionalProperties: false }, name)
  }
})

t.test('what is asked of a model is what it has to give, and no more', async (t) => {
  const required = tools.map((tool) => {
    const { name, input } = definitionOf(tool)
    return [name, input instanceof z.ZodType ? z.toJSONSchema(input, { io: 'input' }).required : undefined]
  })
  t.same(Object.fromEntries(required), {
    calculator: ['expression'],
    convert: ['value', 'from', 'to'],
    run_code: ['code'],
    decompose_task: ['subtasks'],
    mark_subtask_complete: undefined,
    write_file: ['path', 'content'],
    read_file: ['path'],
    list_dir: undefined,
    run_cmd: ['command'],
  })
})
