/**
 * Boots a worker thread: runs the bundled entry, then notifies the host, and loads modules for it. Compiling the entry
 * takes about a third of the boot, so the host does it while the first thread boots, and one of the first threads sends
 * what it has compiled to the host, for later ones: V8 compiles a function when it is first called, so it plays a turn
 * before. All that comes before any code of an agent: no agent can send code to others.
 */
const { readlinkSync } = require('node:fs')
const { fileURLToPath } = require('node:url')
const { isModuleNamespaceObject } = require('node:util/types')
const { Script } = require('node:vm')
const { parentPort, workerData } = require('node:worker_threads')

const { path, source, compiled = earlyOf(workerData.entry), plays } = workerData.entry
delete workerData.entry // hides the boot data from the agent's code

const [major, minor] = process.versions.node.split('.').map(Number)
/** Older versions abort the whole process when a thread is ended while it links a module that it requires. */
const requiresModules = process.features.require_module && (major > 24 || (major === 24 && minor > 8))

/** Frame of a stack that is Node's own. */
const IN_NODE = /^\s+at (?:[^(]*\()?(?:node:|<anonymous>\)$)/

const script = new Script(source, { filename: path, cachedData: compiled })
/**
 * No code that is not ours has run: some could import beside us, and Node cannot require what it still imports; or it
 * could load modules in its own way.
 */
let isAlone = !process.execArgv.some((flag) => /^(?:-r|--require|--import|--(?:experimental-)?loader)\b/.test(flag))

/** A script from the cache cannot import. */
async function importModule(href, isOwn = false) {
  if (!requiresModules || !isAlone) return import(href)
  isAlone = isOwn
  return required(href) ?? import(href)
}

script.runInThisContext()(require, path, importModule, plays ? booted : undefined)
if (!plays) booted()

function booted() {
  const isNew = plays || !compiled
  parentPort.postMessage({ tid: ownTid(), compiled: isNew ? shared(script.createCachedData()) : undefined })
}

/**
 * Returns what the module exports, read and run at once: that takes a thread half as long as an import, for which Node
 * loads its promises of files. Undefined: it has to be imported, because it is no ESM, or awaits at its top level.
 */
function required(href) {
  if (!/^file:[^?#]*\.m?js$/.test(href)) return undefined
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = Number.POSITIVE_INFINITY
  try {
    const exports = require(fileURLToPath(href))
    return isModuleNamespaceObject(exports) ? exports : undefined
  } catch (error) {
    const stack = stackBeforeRun(error)
    if (stack === undefined) throw error
    if (!(error instanceof SyntaxError)) return undefined
    // An import says where the mistake is; under its own name Node has it as a failed one.
    if (stack.startsWith('SyntaxError')) return import(`${href}#imported`)
    throw error
  } finally {
    if (Error.stackTraceLimit === Number.POSITIVE_INFINITY) Error.stackTraceLimit = stackTraceLimit
  }
}

/**
 * Returns the stack of an error that Node threw before any code of the module had run. Undefined: some may have, and
 * would run a second time if it was imported.
 */
function stackBeforeRun(error) {
  try {
    const { stack } = error
    const frames = stack.split('\n').filter((line) => /^\s+at /.test(line))
    const own = frames.findIndex((frame) => frame.includes(`at required (${__filename}:`))
    return own > 0 && frames.slice(0, own).every((frame) => IN_NODE.test(frame)) ? stack : undefined
  } catch {
    return undefined // whatever a module can throw
  }
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
