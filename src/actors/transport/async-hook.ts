/** Tells what a thread opens, and what is done with, by Node's async hooks; but for promises, of which a hook would cost each message. */
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { types } from 'node:util'
import { type Scheduler, systemClock } from '../../clock.ts'
import { OwnWork } from './own-work.ts'

const { createHook, executionAsyncId } = asyncHooks
/** What Node calls its own resources. Other runtimes have no such list. */
const PROVIDERS: object = asyncHooks.asyncWrapProviders ?? {}

/** Open as long as somebody keeps them, whether anything comes of it or not; or a layer above what is counted itself. */
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
/** Of what is no resource of Node's own only these call back; the others are contexts that libraries keep, and ticks. */
const isWork = (type: string): boolean =>
  type === 'Timeout' || type === 'Immediate' || (type in PROVIDERS && !KEPT.has(type))

/** What begins work of which the hooks say nothing but that there is a promise: functions of these globals. */
const PROMISING: Readonly<Record<string, readonly string[]>> = {
  Atomics: ['waitAsync'],
  WebAssembly: ['compile', 'compileStreaming', 'instantiate', 'instantiateStreaming'],
}

/** From now on all that is opened in this thread is followed. undefined: this runtime does not tell. */
export function followOwnWork(): OwnWork | undefined {
  if ('bun' in process.versions) return undefined // its hooks call nobody, and it warns of that
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

/** A scheduler whose timers are the runtime's own: no turn waits for those. */
export const unseenBy = (work: OwnWork): Scheduler => ({
  ...systemClock,
  sleep: (ms, signal) => work.unseen(() => systemClock.sleep(ms, signal)),
  timer: (ms, task) => work.unseen(() => systemClock.timer(ms, task)),
  defer: (task) => work.unseen(() => systemClock.defer(task)),
  hold: () => work.unseen(() => systemClock.hold()),
})

/**
 * With a hook Node follows each promise, too, and all of them get slower by as much as a message takes. Newer ones can be told
 * not to. Node 20 begins with promises at the end of `enable`, and ends with them where `disable` finds that no hook was left:
 * so this one is enabled while another, the last, is being disabled. Its code does not change any more.
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
    const promise = isBoxed ? result.value : result // `waitAsync` gives an object
    if (types.isPromise(promise)) {
      const end = work.begin(executionAsyncId())
      promise.then(end, end)
    }
    return result
  }
  Object.defineProperty(followed, 'name', { value: name })
  Object.defineProperty(of, name, { ...property, value: followed })
}
