/**
 * Timers of Node as they are when this package is imported: a test that mocks them later stops what it tests, and
 * neither the runtime nor its limits.
 */
import timers from 'node:timers'

export const { setTimeout, clearTimeout, setImmediate, clearImmediate } = timers
export const { queueMicrotask } = globalThis

/** Resolves in the next turn of the event loop, behind timers and sockets. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
