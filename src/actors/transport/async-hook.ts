/**
 * Reports to OwnWork which resources a thread opens and closes, by Node's async hooks. Promises are excluded, because a
 * hook for them would slow down each message.
 */

import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { types } from 'node:util'
import { type Scheduler, sleepBehind, timerBehind } from '../../clock.ts'
import { clearTimeout, setImmediate, setTimeout } from '../../timers.ts'
import { OwnWork } from './own-work.ts'

const { createHook, executionAsyncId } = asyncHooks
/** Names of Node's own resource types. Other runtimes have no such list. */
const PROVIDERS: object = asyncHooks.asyncWrapProviders ?? {}

/**
 * Resource types that do not count as work. They stay open as long as code keeps them, whether anything follows or not,
 * or they are a layer above a resource that already counts.
 */
const KEPT: ReadonlySet<string> = new Set([
  'BLOBREADER',
  'DIRHANDLE',
  'DNSCHANNEL',
  'ELDHISTOGRAM',
  'FILEHANDLE',
  'HTTP2SESSION',
  'HTTP2STREAM',
  'HTTPCLIENTREQUEST',
  'HTTPINCOMINGMESSAGE',
  'INSPECTORJSBINDING',
  'JSSTREAM',
  'MESSAGEPORT',
  'TLSWRAP',
])
const CONNECTIONS: ReadonlySet<string> = new Set(['PIPEWRAP', 'TCPWRAP'])
/**
 * Checks whether a resource type counts as work. Outside of Node's own types only timeouts and immediates call back;
 * the others are contexts kept by libraries, and ticks.
 */
const isWork = (type: string): boolean =>
  type === 'Timeout' || type === 'Immediate' || (Object.hasOwn(PROVIDERS, type) && !KEPT.has(type))

/** Global functions whose work the hooks show only as a promise. */
const PROMISING: Readonly<Record<string, readonly string[]>> = {
  Atomics: ['waitAsync'],
  WebAssembly: ['compile', 'compileStreaming', 'instantiate', 'instantiateStreaming'],
}

/** Starts to track all resources opened in this thread. Returns undefined if the runtime does not report them. */
export function followOwnWork(): OwnWork | undefined {
  if ('bun' in process.versions) return undefined // Bun's hooks are never called, and Bun prints a warning about it
  const work = new OwnWork()
  let heard = 0
  const hook = createHook({
    init(id, type, _trigger, resource) {
      if (type === 'PROMISE') return
      heard += 1
      work.opened(id, isWork(type), executionAsyncId(), CONNECTIONS.has(type) ? streamOf(resource) : undefined)
    },
    before: (id) => work.calledBack(id),
    destroy: (id) => work.closed(id),
  })
  enableWithoutPromises(hook)
  clearTimeout(setTimeout(() => {}))
  if (heard === 0) return undefined
  for (const [holder, names] of Object.entries(PROMISING)) {
    const of: unknown = Reflect.get(globalThis, holder)
    if (typeof of === 'object' && of !== null) for (const name of names) followPromises(work, of, name)
  }
  return work
}

/** Returns that clock with timers that belong to the runtime, so that no turn counts as waiting for them. */
export function unseenBy(work: OwnWork, clock: Scheduler): Scheduler {
  const later = (task: () => void) => work.unseen(() => setImmediate(task))
  return {
    ...clock,
    sleep: (ms, signal) => work.unseen(() => sleepBehind(ms, signal, later)),
    timer: (ms, task) => work.unseen(() => timerBehind(ms, task, later)),
    defer: (task) => work.unseen(() => clock.defer(task)),
    hold: () => work.unseen(() => clock.hold()),
  }
}

/**
 * Enables the hook without promise tracking. With a hook Node also tracks each promise, which slows all of them by
 * about the time that one message takes.
 *
 * Newer Node versions have an option against that. Node 20 starts promise tracking at the end of `enable`, and stops it
 * when `disable` finds no hook left. So this hook is enabled while another one, the last, is being disabled. The code
 * of Node 20 does not change any more.
 */
function enableWithoutPromises(hook: AsyncHook): void {
  const own = (of: AsyncHook, name: string) =>
    Object.getOwnPropertySymbols(of).find(({ description }) => description === name)
  const without = own(hook, 'kNoPromiseHook')
  if (without) {
    Object.assign(hook, { [without]: true })
    hook.enable()
    return
  }
  const last = createHook({ init() {} })
  const read = own(last, 'promiseResolve')
  if (!read) return void hook.enable()
  last.enable()
  Object.defineProperty(last, read, { get: () => void hook.enable() })
  last.disable()
}

function streamOf(resource: object): { bytesWritten: number; bytesRead: number } | undefined {
  return 'bytesWritten' in resource && 'bytesRead' in resource
    ? (resource as { bytesWritten: number; bytesRead: number })
    : undefined
}

function followPromises(work: OwnWork, of: object, name: string): void {
  const property = Object.getOwnPropertyDescriptor(of, name)
  const begins: unknown = property?.value
  if (typeof begins !== 'function') return
  const followed = function (this: unknown, ...args: unknown[]): unknown {
    const result: unknown = Reflect.apply(begins, this, args)
    const isBoxed = typeof result === 'object' && result !== null && 'value' in result
    const promise = isBoxed ? result.value : result // `waitAsync` returns an object that holds the promise
    if (types.isPromise(promise)) {
      const end = work.begin(executionAsyncId())
      promise.then(end, end)
    }
    return result
  }
  Object.defineProperty(followed, 'name', { value: name })
  Object.defineProperty(of, name, { ...property, value: followed })
}
