/**
 * Boots a worker thread: runs the bundled entry, then notifies the host. Compiling the entry takes about a third of the
 * boot. So the first threads of a process send their compiled code to the host, and later threads start with it. V8
 * compiles a function when it is first called, so one of them plays a turn before. All that comes before any code of an
 * agent: no agent can send code to others.
 */
const { readlinkSync } = require('node:fs')
const { Script } = require('node:vm')
const { parentPort, workerData } = require('node:worker_threads')

const { path, source, compiled, plays } = workerData.entry
delete workerData.entry // hides the boot data from the agent's code

const script = new Script(source, { filename: path, cachedData: compiled })
const importModule = (href) => import(href) // a script from the cache cannot import
script.runInThisContext()(require, path, importModule, plays ? booted : undefined)
if (!plays) booted()

function booted() {
  const isNew = plays || !compiled
  parentPort.postMessage({ tid: ownTid(), compiled: isNew ? shared(script.createCachedData()) : undefined })
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
