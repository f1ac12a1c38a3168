/**
 * Node's own modules, as `require` and `import` return them in a sandbox: the pure ones, virtual ones, or ones whose
 * functions refuse.
 */
import { isBuiltin } from 'node:module'
import os from 'node:os'
import { type Refuse, refusingIn } from './refusal.ts'

/** Modules that only compute and touch nothing outside. */
const PURE = [
  'assert',
  'assert/strict',
  'async_hooks',
  'buffer',
  'constants',
  'diagnostics_channel',
  'events',
  'path',
  'path/posix',
  'path/win32',
  'punycode',
  'querystring',
  'stream',
  'stream/consumers',
  'stream/promises',
  'stream/web',
  'string_decoder',
  'url',
  'util',
  'util/types',
]

const { arch, endianness, machine, platform, release, type } = os

/** Properties of the other modules that are always the same, or are true of the sandbox. */
const KEPT: ReadonlyMap<string, object> = new Map<string, object>([
  ['os', { arch, endianness, machine, platform, release, type }],
  ['tty', { isatty: () => false }],
  ['worker_threads', { isMainThread: false, parentPort: null, threadId: 1, workerData: null }],
])

/** Returns the `require` of a sandbox. `virtual`: the sandbox's replacements of modules, by name. */
export function requireIn(virtual: ReadonlyMap<string, unknown>, refuse: Refuse): (specifier: string) => unknown {
  const refusing = new Map<string, object>()
  return (specifier) => {
    const name = specifier.replace(/^node:/, '')
    if (virtual.has(name)) return virtual.get(name)
    if (!isBuiltin(specifier))
      throw refuse(
        `the module "${specifier}", which was not bundled,`,
        'Import it by a plain name, so that it can be bundled.',
      )
    if (PURE.includes(name)) return process.getBuiltinModule(`node:${name}`)
    const known = refusing.get(name)
    if (known) return known
    const made = Object.assign(refusingIn(process.getBuiltinModule(specifier)!, `node:${name}`, refuse), KEPT.get(name))
    refusing.set(name, made)
    return made
  }
}
