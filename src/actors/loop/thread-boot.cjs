/**
 * Begins a worker thread: runs the bundled entry, then tells the host that it has booted. To compile the entry takes as long as a
 * third of the boot, so the first threads of a process send what they have compiled, and later ones begin with that.
 */
const { readlinkSync } = require('node:fs')
const { Script } = require('node:vm')
const { parentPort, workerData } = require('node:worker_threads')

const { path, source, compiled } = workerData.entry
delete workerData.entry // what other threads begin with is none of the agent's business

const script = new Script(source, { filename: path, cachedData: compiled })
const importModule = (href) => import(href) // a script from the cache cannot import
script.runInThisContext()(require, path, importModule)
parentPort.postMessage({ tid: ownTid(), compiled: compiled ? undefined : shared(script.createCachedData()) })

/** By which the host finds what the system tells of this thread; 0 where there is none, or it may not be read. */
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
