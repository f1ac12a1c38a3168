/**
 * Code that a thread runs before it is an agent: the bundled entry. It is read once for the process, and compiled by
 * the first threads for all later ones.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ownFile } from '../../own-files.ts'

export interface ThreadCode {
  /** The file that begins a thread. */
  readonly boot: URL
  /** Code that the boot file runs. */
  readonly entry: {
    readonly path: string
    /**
     * A function of `require`, of the path, of what imports a module, and of what is to be called when the first turn
     * has been played; without that, none is played.
     */
    readonly source: string
    /** In shared memory; undefined until a thread has compiled it. */
    compiled: Uint8Array | undefined
  }
}

let code: ThreadCode | undefined

/** Throws `ConfigurationError` where this package was bundled without its files. */
export function threadCode(): ThreadCode {
  if (code) return code
  const path = fileURLToPath(ownFile('actors/loop/thread-entry.bundle.cjs'))
  const source = `(function (require, __filename, importModule, hasPlayed) {${readFileSync(path, 'utf8')}\n})`
  code = { boot: ownFile('actors/loop/thread-boot.cjs'), entry: { path, source, compiled: undefined } }
  return code
}
