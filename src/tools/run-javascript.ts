/**
 * JavaScript in an engine of its own: QuickJS compiled to WebAssembly. What it can reach is the memory of that one
 * instance, which is thrown away afterwards, and the functions given to it here: `print`, and from the engine's own
 * library the clock and a source of random numbers. There is no file, network, process or module in it to be reached.
 */
import { readFile } from 'node:fs/promises'
import { EvalFlags, QuickJS } from 'quickjs-wasi'
import { describe } from '../shared/errors.ts'
import { BoundedOutput, type Outcome } from './options.ts'

export const MEMORY_BYTES = 64 * 1024 * 1024
const STACK_BYTES = 256 * 1024
const KEPT_BYTES = 16 * 1024 // of the head and of the tail of what it prints
const LONGEST_RESULT = 200_000 // characters
const BAD_DESCRIPTOR = 8 // of WASI

/** Runs the code. Returns what it printed, then the value of its last expression. */
export async function runJavaScript(task: { code: string; input: string; limitMs: number }): Promise<Outcome> {
  const wasm = await readFile(new URL(import.meta.resolve('quickjs-wasi/quickjs.wasm')))
  const until = performance.now() + task.limitMs
  const isLate = () => performance.now() > until
  const vm = await QuickJS.create({
    wasm,
    wasi: () => ({ fd_write: () => BAD_DESCRIPTOR }), // it prints nothing of its own
    memoryLimit: MEMORY_BYTES,
    maxStackSize: STACK_BYTES,
    interruptHandler: isLate,
    timezoneOffset: 0,
  })
  const printed = new BoundedOutput(KEPT_BYTES)
  let ended: { value?: string; error?: string } = { error: WAITS }
  const end = (key: 'value' | 'error') =>
    vm.newFunction(key, (text) => {
      // cut here: within, the code can have changed what cuts
      ended = { [key]: text?.toString().slice(0, LONGEST_RESULT) }
      return vm.undefined
    })
  const print = vm.newFunction('print', (text) => {
    printed.add(Buffer.from(text?.toString() ?? ''))
    return vm.undefined
  })
  // the instance is not disposed of: it is broken when it ran out of memory, and garbage in any case
  try {
    const [prelude, input] = [vm.evalCode(PRELUDE, 'prelude.js'), vm.newString(task.input)]
    const settle = vm.callFunction(prelude, vm.undefined, input, print, end('value'), end('error'))
    vm.callFunction(settle, vm.undefined, vm.evalCode(task.code, 'code.js', EvalFlags.ASYNC))
    vm.executePendingJobs()
  } catch (error) {
    ended = { error: describe(error) }
  }
  const output = printed.toString()
  if (isLate()) return { late: withOutput(`The code did not end within ${task.limitMs} ms.`, output) }
  if (ended.error !== undefined) return { failed: withOutput(`The code failed: ${ended.error}`, output) }
  return { done: output + (ended.value ?? '') }
}

const WAITS = 'it waits for something that never comes; there are no timers, and nothing is read or sent'

function withOutput(message: string, output: string): string {
  return output === '' ? message : `${message} It printed:\n${output}`
}

/**
 * Runs in the engine before the code: gives it `input` and `console`, and returns what takes the result. Whatever the
 * code changes of this it changes for itself: only texts leave the engine.
 */
const PRELUDE = `(input, print, succeed, fail) => {
  const LONGEST = ${LONGEST_RESULT} // before much is copied; what holds is the cut outside
  const { parse, stringify } = JSON
  const plain = (key, value) => {
    if (typeof value === 'bigint') return value + 'n'
    if (typeof value === 'function' || typeof value === 'symbol') return String(value)
    if (value instanceof Map) return Object.fromEntries(value)
    if (value instanceof Set) return [...value]
    if (value instanceof Error) return String(value)
    return value
  }
  const shown = (value) => {
    try {
      if (typeof value === 'string') return value.slice(0, LONGEST)
      if (typeof value === 'bigint') return value + 'n'
      if (value instanceof Error) return value.name + ': ' + value.message
      if (typeof value !== 'object' || value === null) return String(value).slice(0, LONGEST)
      return (stringify(value, plain) ?? String(value)).slice(0, LONGEST)
    } catch (error) {
      return 'a value that cannot be shown (' + error + ')'
    }
  }
  const where = (error) => {
    try {
      const at = /code\\.js:\\d+(?::\\d+)?/.exec(error.stack)
      return at ? ' (' + at[0] + ')' : ''
    } catch {
      return ''
    }
  }
  const log = (...values) => print(values.map(shown).join(' ') + '\\n')
  const names = ['log', 'info', 'debug', 'warn', 'error', 'trace', 'table', 'dir']
  globalThis.console = Object.fromEntries(names.map((name) => [name, log]))
  globalThis.input = parse(input)
  return (completion) => {
    completion
      .then(({ value }) => value)
      .then(
        (value) => succeed(value === undefined ? '' : shown(value)),
        (error) => fail(shown(error) + where(error)),
      )
  }
}`
