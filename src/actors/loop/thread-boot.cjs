/**
 * Boots a worker thread: runs the bundled entry, then notifies the host. Compiling the entry takes about a third of the
 * boot. So the first threads of a process send their compiled code to the host, and later threads start with it.
 *
 * V8 compiles a function when it is first called. So one thread of the process also writes down what it has compiled by
 * the end of a turn: threads that start afterwards have less to compile in their first turn.
 */
const { readlinkSync } = require('node:fs')
const { Script } = require('node:vm')
const { parentPort, workerData } = require('node:worker_threads')

const { path, source, compiled, kept } = workerData.entry
delete workerData.entry // hides the boot data from the agent's code

const script = new Script(source, { filename: path, cachedData: compiled })
const importModule = (href) => import(href) // a script from the cache cannot import
script.runInThisContext()(require, path, importModule, keepTurn())
parentPort.postMessage({ tid: ownTid(), compiled: compiled ? undefined : shared(script.createCachedData()) })

/** Returns the thread id that the host needs to find this thread in /proc; 0 if it does not exist or cannot be read. */
function ownTid() {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1))
  } catch {
    return 0
  }
}

function shared(bytes) {
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length))
  copy.set(bytes)
  return copy
}

/**
 * Returns a function to be called when a turn has ended. The agent's code cannot put anything of its own in place of
 * what it uses, since other agents' threads run what is kept.
 */
function keepTurn() {
  let room = kept // threads drop it, since it counts as memory that they hold
  const { compareExchange, store } = Atomics
  const { setImmediate } = globalThis
  const typedArray = Object.getPrototypeOf(Uint8Array.prototype)
  const set = Function.prototype.call.bind(typedArray.set)
  const lengthOf = Function.prototype.call.bind(Reflect.getOwnPropertyDescriptor(typedArray, 'length').get)
  const compile = script.createCachedData.bind(script)
  const keep = ({ length, bytes }) => {
    const compiled = compile()
    if (lengthOf(compiled) > lengthOf(bytes)) return
    set(bytes, compiled)
    store(length, 0, lengthOf(compiled))
  }
  return () => {
    if (room && compareExchange(room.length, 0, 0, -1) === 0) setImmediate(keep, room)
    room = undefined
  }
}
