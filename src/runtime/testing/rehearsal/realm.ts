/**
 * Makes the globals of JavaScript virtual in a new vm context: the date, randomness, and the classes that both sides of
 * the border must share.
 */
import { type Context, runInContext } from 'node:vm'
import type { Scheduler } from '../../../clock.ts'
import type { Dice } from '../../providers/seeded-random.ts'
import type { Outside } from './outside.ts'

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

/** Prepares the global object of a new context, and returns it. */
export function prepareRealm(
  context: Context,
  clock: Scheduler,
  dice: Dice,
  outside: Outside,
): Record<string, unknown> {
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

export function define(realm: object, name: string, value: unknown): void {
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

/** Makes date formats without a date use the virtual time. */
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
