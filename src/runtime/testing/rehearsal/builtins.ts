/** What `require` and `import` give in a sandbox for the modules of Node itself: the pure ones, virtual ones, or a refusal. */
import { createRequire, isBuiltin } from 'node:module'
import { refusedIo } from './refusal.ts'

const real = createRequire(import.meta.url)

/** They compute, and touch nothing outside. */
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

/** Marks an import in a package of somebody else, which may import what it never uses. */
export const IF_USED = 'if-used:'

/** `virtual`: what the sandbox has in place of a module. `refused` is told of each refusal. */
export function requireIn(
  who: string,
  virtual: ReadonlyMap<string, unknown>,
  refused: (error: Error) => void,
): (specifier: string) => unknown {
  const refusal = (what: string) => {
    const error = refusedIo(who, what, adviceOn(what))
    refused(error)
    return error
  }
  return (specifier) => {
    const ifUsed = specifier.startsWith(IF_USED)
    const given = ifUsed ? specifier.slice(IF_USED.length) : specifier
    const name = given.replace(/^node:/, '')
    if (virtual.has(name)) return virtual.get(name)
    if (!isBuiltin(given)) throw refusal(`the module "${given}", which was not bundled,`)
    if (PURE.includes(name)) return real(`node:${name}`)
    if (ifUsed) return refusingAll(real(given), `node:${name}`, refusal)
    throw refusal(`node:${name}`)
  }
}

function adviceOn(what: string): string {
  return what.startsWith('node:')
    ? 'Keep it out of the code that is rehearsed: pass what is read as data of the role, or behind a module that a test can replace.'
    : 'Import it by a plain name, so that it can be bundled.'
}

/** A module whose functions refuse when they are called; its constants stay. */
function refusingAll(module: object, path: string, refusal: (what: string) => Error): object {
  const entries = Object.entries(module).map(([key, value]: [string, unknown]) => {
    const at = `${path}.${key}`
    if (typeof value === 'function') return [key, refusing(at, refusal)]
    const isGroup = key === 'promises' && typeof value === 'object' && value !== null
    return [key, isGroup ? refusingAll(value, at, refusal) : value]
  })
  return Object.fromEntries(entries)
}

/** Also what is called with `new`, and what is a base class. */
function refusing(what: string, refusal: (what: string) => Error): unknown {
  return function refused() {
    throw refusal(what)
  }
}
