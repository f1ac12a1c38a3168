/** Options of a tool, checked where it is made: a mistake in them is its author's, and never reaches a model. */
import type { z } from 'zod'
import { ownRequire } from '../shared/environment.ts'
import { ConfigurationError, describe } from '../shared/errors.ts'

/** Printed text of which the first and the last part are kept: the beginning says what it does, the end how it went. */
export class BoundedOutput {
  readonly #most: number
  readonly #head: Buffer[] = []
  readonly #tail: Buffer[] = []
  #headBytes = 0
  #tailBytes = 0
  #left = 0

  /** @param most bytes of the head, and as many of the tail. */
  constructor(most: number) {
    this.#most = most
  }

  add(chunk: Buffer): void {
    const toHead = chunk.subarray(0, this.#most - this.#headBytes)
    const toTail = chunk.subarray(toHead.length)
    if (toHead.length > 0) this.#head.push(toHead)
    this.#headBytes += toHead.length
    if (toTail.length === 0) return
    this.#tail.push(toTail)
    this.#tailBytes += toTail.length
    while (this.#tailBytes > this.#most) this.#dropOldest()
  }

  toString(): string {
    if (this.#left === 0) return Buffer.concat([...this.#head, ...this.#tail]).toString()
    const note = `\n[... ${this.#left} bytes left out ...]\n`
    return Buffer.concat(this.#head).toString() + note + Buffer.concat(this.#tail).toString()
  }

  #dropOldest(): void {
    const over = this.#tailBytes - this.#most
    const oldest = this.#tail.shift()!
    const kept = oldest.subarray(over)
    if (kept.length > 0) this.#tail.unshift(Buffer.from(kept)) // a copy: the chunk's memory can go
    this.#tailBytes -= oldest.length - kept.length
    this.#left += oldest.length - kept.length
  }
}

/** The options with their defaults. Throws `ConfigurationError` with all that is wrong; no value is shown. */
export function checkedOptions<S extends z.ZodType>(tool: string, schema: S, options: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(options)
  if (success) return data
  const wrong = error.issues
    .map(({ path, message }) => `${[tool, ...path].map(String).join('.')}: ${message}`)
    .join('; ')
  const path = [tool, ...(error.issues[0]?.path ?? [])].map(String).join('.')
  throw new ConfigurationError(`${wrong}. Correct the options of ${tool}.`, { path })
}

/** Throws `ConfigurationError` with the command that installs them, if packages of a tool are missing. */
export function needsPackages(tool: string, packages: readonly string[]): void {
  const resolve = ownResolve()
  if (!resolve) return // a bundle that has left this package behind: the start of its first thread says so
  const missing = packages.filter((name) => !isInstalled(name, resolve))
  if (missing.length === 0) return
  const text = `${tool} needs ${missing.join(', ')}, which ${missing.length === 1 ? 'is' : 'are'} not installed: npm install ${missing.join(' ')}`
  throw new ConfigurationError(text, { path: tool, packages: missing })
}

function ownResolve(): NodeJS.RequireResolve | undefined {
  try {
    return ownRequire().resolve
  } catch {
    return undefined
  }
}

function isInstalled(name: string, resolve: NodeJS.RequireResolve): boolean {
  try {
    resolve(name)
    return true
  } catch (error) {
    const { code } = Object(error) as { code?: unknown }
    if (code === 'MODULE_NOT_FOUND') return false
    if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return true // it is there, for `import` alone
    throw new ConfigurationError(`The package ${name} cannot be read: ${describe(error)}.`, { path: name }, error)
  }
}

/** Work for a thread of the sandbox. */
export type Task =
  | { kind: 'calculate'; expression: string }
  | { kind: 'convert'; value: string; from: string; to: string }
  /** `input` is JSON; `limitMs` bounds the code alone, not the start of its thread. */
  | { kind: 'run-code'; code: string; input: string; limitMs: number }

/** 'refused': what was given cannot be worked on. 'failed': it went wrong. 'late': it took longer than it may. */
export type Outcome = { done: string } | { refused: string } | { failed: string } | { late: string }

/** Thrown by the code of a task for what its caller can mend. */
export class Refused extends Error {}
