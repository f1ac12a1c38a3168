/**
 * `crypto` in a sandbox: random functions are seeded, functions that work on other threads stop the clock, the rest is
 * Node's own.
 */
import nodeCrypto from 'node:crypto'
import { v4 } from 'uuid'
import type { Dice } from '../../providers/seeded-random.ts'
import { type AnyFunction, type Outside, stoppingTheClock } from './outside.ts'
import type { Refuse } from './refusal.ts'

/** Functions that Node computes on other threads if they are given a callback. */
const ELSEWHERE = ['pbkdf2', 'scrypt', 'hkdf', 'checkPrime', 'sign', 'verify'] as const
/** Functions whose random numbers are not seeded. */
const UNSEEDED = [
  'generateKey',
  'generateKeyPair',
  'generateKeySync',
  'generateKeyPairSync',
  'generatePrime',
  'generatePrimeSync',
  'createDiffieHellman',
  'createDiffieHellmanGroup',
  'getDiffieHellman',
  'createECDH',
] as const

type Done = (error: Error | null, result?: unknown) => void
type Filled = Parameters<typeof nodeCrypto.randomFillSync>[0]

/** `webcrypto` for the global, `node` for `require('node:crypto')`. */
export function virtualCrypto(dice: Dice, outside: Outside, refuse: Refuse): { webcrypto: object; node: object } {
  const randomUUID = () => v4({ random: dice.fill(new Uint8Array(16)) })
  const getRandomValues = <T extends ArrayBufferView>(array: T) => dice.fill(array)
  const randomBytes = (size: number, done?: Done) => answer(dice.fill(Buffer.alloc(size)), done)
  const randomFillSync = (target: Filled, offset?: number, size?: number) => {
    dice.fill(checkedRange(target, offset, size))
    return target
  }
  const randomFill = (target: Filled, ...rest: (number | Done)[]) => {
    const done = rest.pop() as Done
    const [offset, size] = rest as number[]
    return answer(randomFillSync(target, offset, size), done)
  }
  const randomInt = (...args: [number, (number | Done)?, Done?]) => {
    const [low, high] = typeof args[1] === 'number' ? [args[0], args[1]] : [0, args[0]]
    const done = args.find((arg): arg is Done => typeof arg === 'function')
    return answer(low + dice.upTo(high - low), done)
  }
  const subtle = new Proxy(nodeCrypto.webcrypto.subtle, {
    get(target, key) {
      if (key === 'generateKey') throw refuse('crypto.subtle.generateKey')
      const method: unknown = Reflect.get(target, key, target)
      if (typeof method !== 'function') return method
      return (...args: unknown[]) => outside(Promise.resolve(Reflect.apply(method, target, args)))
    },
  })
  const webcrypto = { randomUUID, getRandomValues, subtle }
  const drawn = { randomUUID, getRandomValues, randomBytes, randomFillSync, randomFill, randomInt }
  const elsewhere = ELSEWHERE.map((name) => [name, stoppingTheClock(nodeCrypto[name] as AnyFunction, outside)])
  const refused = UNSEEDED.map((name) => [name, () => fail(refuse(`node:crypto.${name}`))])
  const node = {
    ...nodeCrypto,
    ...drawn,
    pseudoRandomBytes: randomBytes,
    webcrypto,
    subtle,
    ...Object.fromEntries([...elsewhere, ...refused]),
  }
  return { webcrypto, node }
}

/** Returns the bytes that `randomFillSync` would fill. Throws Node's own errors: Node fills them first. */
function checkedRange(target: Filled, offset = 0, size?: number): Uint8Array {
  nodeCrypto.randomFillSync(target, offset, size)
  const view = ArrayBuffer.isView(target)
  const width = view && 'BYTES_PER_ELEMENT' in target ? Number(target.BYTES_PER_ELEMENT) : 1
  const all = view ? new Uint8Array(target.buffer, target.byteOffset, target.byteLength) : new Uint8Array(target)
  return all.subarray(offset * width, size === undefined ? undefined : (offset + size) * width)
}

function answer<T>(value: T, done: Done | undefined): T | undefined {
  if (!done) return value
  queueMicrotask(() => done(null, value))
  return undefined
}

function fail(error: Error): never {
  throw error
}
