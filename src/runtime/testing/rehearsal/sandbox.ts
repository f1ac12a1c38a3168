/**
 * Runs user code in a rehearsal: in a vm context of its own, in which time, randomness and the network are those of the
 * run. It makes a replayed run the same; it is no protection against malicious code.
 */
import { createRequire, isBuiltin } from 'node:module'
import { createContext, type Script } from 'node:vm'
import { AgentCrashedError } from '../../../errors.ts'
import type { Dice } from '../../providers/seeded-random.ts'
import type { SteppedClock } from '../virtual-clock.ts'
import { requireIn } from './builtins.ts'
import { outsideOf } from './reach.ts'
import { define, prepareRealm } from './realm.ts'
import { refusedIo } from './refusal.ts'
import { Timers } from './timers.ts'
import { virtualCrypto } from './virtual-crypto.ts'
import { virtualConsole, virtualPerformance, virtualProcess } from './virtual-process.ts'
import { virtualZlib } from './virtual-zlib.ts'

/** Network of a rehearsal. `who`: the caller, for errors. */
export type Fetch = (who: string, ...request: Parameters<typeof fetch>) => Promise<Response>

export interface SandboxOptions {
  /** Owner of the code, in words: `agent "buyer"`. */
  who: string
  clock: SteppedClock
  dice: Dice
  env: Readonly<Record<string, string | undefined>>
  /** Modules that are given, by name. */
  modules?: Readonly<Record<string, object>>
  /** Values that are found under a symbol of `globalThis`. */
  symbols?: ReadonlyMap<symbol, unknown>
  fetch: Fetch
  /** Called with each line that the code prints. */
  print(line: string): void
  /** Called when real input or output was refused. */
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

  /** Ends the sandbox, so that none of its timers fires any more. */
  close(): void {
    this.#closed = true
    this.#timers.close()
  }

  /** Runs a bundle, and returns what it exports. */
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
    const process = virtualProcess({ clock, timers, env, print, exit: (code) => this.#options.died(code, undefined) })
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

/** Returns the error for an exception that a sandbox's code threw outside of any turn. */
export const diedOf = (agent: string, error: Error | undefined): AgentCrashedError =>
  new AgentCrashedError(
    `Agent "${agent}" threw outside of its turn: ${error?.message ?? 'it ended itself'}.`,
    { agent },
    error,
  )
