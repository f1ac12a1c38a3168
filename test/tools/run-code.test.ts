/** `run_code`: values and prints of a program, its bounds, and that nothing of the host is in it. */
import t from 'tap'
import type { Outcome } from '../../src/tools/options.ts'
import { runJavaScript } from '../../src/tools/run-javascript.ts'
import { inSandbox, sandboxThreads } from '../../src/tools/sandbox.ts'
import { runCode } from '../../src/tools/sandboxed.ts'
import { call } from './calls.ts'
import { hostileCode } from './hostile-code.ts'

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
