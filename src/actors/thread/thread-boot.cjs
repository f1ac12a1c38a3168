/**
 * Boots a worker thread: runs the bundled entry, then notifies the host, and loads modules for it. Compiling the entry
 * takes about a third of the boot, so the host does it while the first thread boots, and one of the first threads sends
 * what it has compiled to the host, for later ones: V8 compiles a function when it is first called, so it plays a turn
 * before. All that comes before any code of an agent: no agent can send code to others.
 */
const { readlinkSync } = require('node:fs')
const { Script } = require('node:vm')
const { parentPort, workerData } = require('node:worker_threads')

const { path, source, compiled = earlyOf(workerData.entry), plays } = workerData.entry
delete workerData.entry // hides the boot data from the agent's code

const script = new Script(source, { filename: path, cachedData: compiled })
const LONGEST_STACK = 200

/** A script from the cache cannot import. Above the line that is to blame for an error stand frames of Node's own. */
async function importModule(href) {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = LONGEST_STACK
  try {
    return await import(href)
  } finally {
    if (Error.stackTraceLimit === LONGEST_STACK) Error.stackTraceLimit = stackTraceLimit
  }
}

script.runInThisContext()(require, path, importModule, plays ? booted : undefined)
if (!plays) booted()

function booted() {
  const isNew = plays || !compiled
  parentPort.postMessage({ tid: ownTid(), compiled: isNew ? shared(script.createCachedData()) : undefined })
}

/** Returns what the host has compiled, if it has. */
function earlyOf({ early }) {
  const length = Atomics.load(new Int32Array(early, 0, 1), 0)
  return length === 0 ? undefined : new Uint8Array(early, 4, length)
}

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
