/**
 * `node:zlib` in a sandbox: Node's own functions handle whole buffers, and asynchronous ones stop the clock. Streams
 * are refused.
 */
import zlib from 'node:zlib'
import { type AnyFunction, type Outside, stoppingTheClock } from './outside.ts'
import type { Refuse } from './refusal.ts'

const NO_STREAMS = 'Take the function for a whole buffer: gzipSync, or gzip with a callback, and the like.'

export function virtualZlib(outside: Outside, refuse: Refuse): object {
  const entries = Object.entries(zlib).map(([name, value]: [string, unknown]) => {
    if (typeof value !== 'function' || name.endsWith('Sync') || name === 'crc32') return [name, value]
    if (Object.hasOwn(zlib, `${name}Sync`)) return [name, stoppingTheClock(value as AnyFunction, outside)]
    return [
      name,
      function refused() {
        throw refuse(`node:zlib.${name}`, NO_STREAMS)
      },
    ]
  })
  return Object.fromEntries(entries)
}
