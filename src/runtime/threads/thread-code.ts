/**
 * Code that a thread runs before it is an agent: the bundled entry. It is read once for the process. The host compiles
 * it while the first thread boots, and a later thread, which has also run it, for all that come then.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { ownFile } from '../../own-files.ts'
import { setImmediate } from '../../timers.ts'

/** Without the functions that V8 compiles when they are first called, the code takes a fraction of that. */
const MOST_EARLY_BYTES = 512 * 1024

/** As thread-boot.cjs reads it. */
interface ThreadEntry {
  readonly path: string
  /**
   * A function of `require`, of the path, of what imports a module, and of what is to be called when a turn has been
   * played; without that, none is played.
   */
  readonly source: string
  /** In shared memory; undefined until a thread has compiled it. */
  readonly compiled: Uint8Array | undefined
  /** Compiled by the host, behind the number of its bytes (4 bytes), which is 0 until then. */
  readonly early: SharedArrayBuffer
  /** True if the thread plays a turn, and compiles what that needs. */
  readonly plays: boolean
}

export class ThreadCode {
  /** The file that begins a thread. */
  readonly boot: URL
  readonly #path: string
  readonly #source: string
  readonly #early = new SharedArrayBuffer(4 + MOST_EARLY_BYTES)
  #compiled: Uint8Array | undefined
  #hasBegun = false
  #hasTurn = false

  constructor(boot: URL, path: string, source: string) {
    this.boot = boot
    this.#path = path
    this.#source = source
  }

  /**
   * Returns the entry for a thread that begins now. The first one plays no turn, since a new program waits for it;
   * those behind it do, until one has.
   */
  begin(): ThreadEntry {
    const plays = this.#hasBegun && !this.#hasTurn
    if (!this.#hasBegun) setImmediate(() => this.#compileEarly())
    this.#hasBegun = true
    return { path: this.#path, source: this.#source, compiled: this.#compiled, early: this.#early, plays }
  }

  /** A thread that comes before this is done compiles the code itself. */
  #compileEarly(): void {
    const compiled = new Script(this.#source, { filename: this.#path }).createCachedData()
    if (compiled.length > MOST_EARLY_BYTES) return
    new Uint8Array(this.#early, 4).set(compiled)
    Atomics.store(new Int32Array(this.#early, 0, 1), 0, compiled.length)
  }

  /** Takes what a thread that began with that entry has compiled, for those that begin later. */
  take(compiled: Uint8Array | undefined, { plays }: ThreadEntry): void {
    if (!compiled || this.#hasTurn || (this.#compiled && !plays)) return
    this.#compiled = compiled
    this.#hasTurn = plays
  }
}

let code: ThreadCode | undefined

/** Throws `ConfigurationError` where this package was bundled without its files. */
export function threadCode(): ThreadCode {
  code ??= codeIn(fileURLToPath(ownFile('actors/loop/thread-entry.bundle.cjs')))
  return code
}

function codeIn(path: string): ThreadCode {
  const source = `(function (require, __filename, importModule, hasPlayed) {${readFileSync(path, 'utf8')}\n})`
  return new ThreadCode(ownFile('actors/loop/thread-boot.cjs'), path, source)
}
