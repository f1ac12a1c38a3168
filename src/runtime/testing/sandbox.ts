/**
 * Runs user code in a rehearsal: in a vm context of its own, in which time, randomness and the network are those of the
 * run. It makes a replayed run the same; it is no protection against malicious code.
 */
import { createRequire, isBuiltin } from 'node:module'
import os from 'node:os'
import { type Context, createContext, runInContext, type Script } from 'node:vm'
import type { Scheduler } from '../../shared/clock.ts'
import { AgentCrashedError } from '../../shared/errors.ts'
import type { Dice } from '../../shared/random.ts'
import { type Outside, outsideOf, type Refuse, refusedIo, refusingIn } from './reach.ts'
import {
  Timers,
  virtualConsole,
  virtualCrypto,
  virtualPerformance,
  virtualProcess,
  virtualZlib,
} from './virtual-builtins.ts'
import type { SteppedClock } from './virtual-clock.ts'

/*
 * Node's own modules, as `require` and `import` return them in a sandbox: the pure ones, virtual ones, or ones whose
 * functions refuse.
 */

/** Modules that only compute and touch nothing outside. */
const PURE = [
  'assert',
  'assert/strict',
  'async_hooks',
  'buffer',
  'constants',
  'diagnostics_channel',
  'events',
  'path',
  'path/posix',
  'path/win32',
  'punycode',
  'querystring',
  'stream',
  'stream/consumers',
  'stream/promises',
  'stream/web',
  'string_decoder',
  'url',
  'util',
  'util/types',
]

const { arch, endianness, machine, platform, release, type } = os

/** Properties of the other modules that are always the same, or are true of the sandbox. */
const KEPT: ReadonlyMap<string, object> = new Map<string, object>([
  ['os', { arch, endianness, machine, platform, release, type }],
  ['tty', { isatty: () => false }],
  ['worker_threads', { isMainThread: false, parentPort: null, threadId: 1, workerData: null }],
])

/** Returns the `require` of a sandbox. `virtual`: the sandbox's replacements of modules, by name. */
function requireIn(virtual: ReadonlyMap<string, unknown>, refuse: Refuse): (specifier: string) => unknown {
  const refusing = new Map<string, object>()
  return (specifier) => {
    const name = specifier.replace(/^node:/, '')
    if (virtual.has(name)) return virtual.get(name)
    if (!isBuiltin(specifier))
      throw refuse(
        `the module "${specifier}", which was not bundled,`,
        'Import it by a plain name, so that it can be bundled.',
      )
    if (PURE.includes(name)) return process.getBuiltinModule(`node:${name}`)
    const known = refusing.get(name)
    if (known) return known
    const made = Object.assign(refusingIn(process.getBuiltinModule(specifier)!, `node:${name}`, refuse), KEPT.get(name))
    refusing.set(name, made)
    return made
  }
}

/*
 * Makes the globals of JavaScript virtual in a new vm context: the date, randomness, and the classes that both sides of
 * the border must share.
 */

type Class = abstract new (...args: never[]) => object
type Realm = Record<string, unknown> & {
  Date: DateConstructor
  Math: Math
  Array: ArrayConstructor
  Intl: typeof Intl
  WebAssembly: object
}

/**
 * Classes whose instances the engine or literals create in the sandbox's realm: their prototypes inherit from the
 * host's.
 */
const LINKED: Readonly<Record<string, Class>> = {
  Error,
  AggregateError,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
  Promise,
}

/** Classes whose instances come from their constructors alone, so the sandbox uses the host's. */
const SHARED: Readonly<Record<string, unknown>> = {
  ArrayBuffer,
  SharedArrayBuffer,
  DataView,
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
  Map,
  Set,
  WeakMap,
  WeakSet,
  WeakRef,
  Atomics,
}

function prepareRealm(context: Context, clock: Scheduler, dice: Dice, outside: Outside): Record<string, unknown> {
  const realm: Realm = runInContext('globalThis', context)
  for (const [name, ours] of Object.entries(LINKED)) link(realm, name, ours)
  for (const [name, ours] of Object.entries(SHARED)) define(realm, name, ours)
  Object.defineProperty(realm.Array, Symbol.hasInstance, { value: (value: unknown) => Array.isArray(value) })
  realm.Math.random = () => dice.random()
  const now = () => Math.floor(clock.now())
  virtualFormats(realm.Intl, now)
  stopTheClock(realm.WebAssembly, outside)
  define(realm, 'Date', virtualDate(realm.Date, now))
  define(realm, 'global', realm)
  return realm
}

function define(realm: object, name: string, value: unknown): void {
  Object.defineProperty(realm, name, { value, writable: true, configurable: true, enumerable: false })
}

function link(realm: Realm, name: string, ours: Class): void {
  const theirs: unknown = Reflect.get(realm, name)
  if (typeof theirs !== 'function') return
  const own: unknown = Reflect.get(theirs, 'prototype')
  if (typeof own === 'object' && own !== null) Object.setPrototypeOf(own, ours.prototype)
  define(realm, name, ours)
}

/** Stops the clock while WebAssembly compiles, since the engine does that on threads of its own. */
function stopTheClock(assembly: object, outside: Outside): void {
  for (const name of ['compile', 'instantiate', 'compileStreaming', 'instantiateStreaming']) {
    const real: unknown = Reflect.get(assembly, name)
    if (typeof real !== 'function') continue
    define(assembly, name, (...args: unknown[]) => outside(Promise.resolve(Reflect.apply(real, assembly, args))))
  }
}

function virtualDate(real: DateConstructor, now: () => number): DateConstructor {
  const virtual = new Proxy(real, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    apply: (target) => new target(now()).toString(),
    get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
  })
  define(real.prototype, 'constructor', virtual)
  return virtual
}

function virtualFormats({ DateTimeFormat: { prototype } }: typeof Intl, now: () => number): void {
  const format = Object.getOwnPropertyDescriptor(prototype, 'format')?.get
  const { formatToParts } = prototype
  Object.defineProperty(prototype, 'format', {
    configurable: true,
    get(this: Intl.DateTimeFormat) {
      const real: Intl.DateTimeFormat['format'] = format?.call(this)
      return (date: Date | number = now()) => real(date)
    },
  })
  define(prototype, 'formatToParts', function (this: Intl.DateTimeFormat, date: Date | number = now()) {
    return formatToParts.call(this, date)
  })
}

export type Fetch = (who: string, ...request: Parameters<typeof fetch>) => Promise<Response>

export interface SandboxOptions {
  /** Owner of the code, in words: `agent "buyer"`. */
  who: string
  clock: SteppedClock
  dice: Dice
  env: Readonly<Record<string, string | undefined>>
  modules?: Readonly<Record<string, object>>
  symbols?: ReadonlyMap<symbol, unknown>
  fetch: Fetch
  print(line: string): void
  refused(error: Error): void
  /** Called for what would have ended the thread. */
  died(code: number, error: Error | undefined): void
}

/** Globals that are the host's own: they neither depend on the time nor reach outside. */
const ORDINARY = {
  AbortController,
  Blob,
  Buffer,
  DOMException,
  Event,
  EventTarget,
  FormData,
  Headers,
  ReadableStream,
  Request,
  Response,
  TextDecoder,
  TextDecoderStream,
  TextEncoder,
  TextEncoderStream,
  TransformStream,
  URL,
  URLSearchParams,
  WritableStream,
  atob,
  btoa,
  structuredClone,
}

const INSTEAD =
  'Do it in context.step and play with --record <file> (rehearse: record); or give the agent what is read as data of its role; or let a test play the agent.'

/** Globals that are refused, because they reach outside. */
const REFUSED = ['BroadcastChannel', 'EventSource', 'MessageChannel', 'WebSocket', 'XMLHttpRequest']

export class Sandbox {
  readonly #options: SandboxOptions
  readonly #context = createContext({}, { name: 'rehearsal' })
  readonly #timers: Timers
  #closed = false

  constructor(options: SandboxOptions) {
    this.#options = options
    const died = (error: unknown) => {
      if (!this.#closed) options.died(1, error instanceof Error ? error : new Error(String(error)))
    }
    this.#timers = new Timers(options.clock, died)
  }

  close(): void {
    this.#closed = true
    this.#timers.close()
  }

  run(script: Script): Record<string, unknown> {
    const require = this.#furnish()
    const module: { exports: Record<string, unknown> } = { exports: {} }
    const bundle: (...args: unknown[]) => void = script.runInContext(this.#context)
    bundle(module.exports, require, module)
    return module.exports
  }

  #furnish(): (specifier: string) => unknown {
    const { who, clock, dice, env, modules = {}, symbols = [], print, refused } = this.#options
    const refuse = (what: string, advice = INSTEAD) => {
      const error = refusedIo(who, what, advice)
      refused(error)
      return error
    }
    const timers = this.#timers
    const process = virtualProcess(clock, timers, env, print, (code) => this.#options.died(code, undefined))
    const performance = virtualPerformance(clock)
    const console = virtualConsole(print)
    const outside = outsideOf(clock)
    const crypto = virtualCrypto(dice, outside, refuse)
    const realm = prepareRealm(this.#context, clock, dice, outside)
    for (const [name, value] of Object.entries({
      ...ORDINARY,
      ...timers.functions,
      AbortSignal: abortSignals(timers),
      console,
      crypto: crypto.webcrypto,
      fetch: (...request: Parameters<typeof fetch>) => this.#fetch(request),
      performance,
      process,
      queueMicrotask: (task: () => void) => queueMicrotask(timers.guarded(task)),
    }))
      define(realm, name, value)
    for (const name of REFUSED)
      define(realm, name, function refusedGlobal() {
        throw refuse(name)
      })
    for (const [symbol, value] of symbols) Object.defineProperty(realm, symbol, { value })
    const require = requireIn(
      new Map<string, unknown>([
        ...Object.entries(modules),
        ['console', console],
        ['crypto', crypto.node],
        ['perf_hooks', { performance }],
        ['process', process],
        ['timers', { ...timers.functions, promises: timers.promises }],
        ['timers/promises', timers.promises],
        ['zlib', virtualZlib(outside, refuse)],
        [
          'module',
          {
            isBuiltin,
            createRequire: (from: string) => Object.assign(require, { resolve: createRequire(from).resolve }),
          },
        ],
      ]),
      refuse,
    )
    return Object.assign(require, { resolve: (path: string) => path }) // the bundle has whole paths
  }

  /** An answer that comes after the end is dropped. */
  #fetch(request: Parameters<typeof fetch>): Promise<Response> {
    const { who, clock, fetch, refused } = this.#options
    if (this.#closed) return new Promise(() => {})
    return outsideOf(clock)(fetch(who, ...request)).catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'CONFIGURATION') refused(error)
      throw error
    })
  }
}

function abortSignals(timers: Timers): typeof AbortSignal {
  return new Proxy(AbortSignal, {
    get: (target, key) => (key === 'timeout' ? (ms: number) => timers.timeoutSignal(ms) : Reflect.get(target, key)),
  })
}

export const diedOf = (agent: string, error: Error | undefined): AgentCrashedError =>
  new AgentCrashedError(
    `Agent "${agent}" threw outside of its turn: ${error?.message ?? 'it ended itself'}.`,
    { agent },
    error,
  )
