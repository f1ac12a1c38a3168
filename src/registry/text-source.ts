/**
 * Source of the text of an agents.yaml: a file, or memory for a rehearsal. Reads and writes are synchronous, so nothing
 * can happen between them.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigurationError, describe } from '../errors.ts'

export interface TextSource {
  /** Returns a value that differs if the text may have changed. */
  stamp(): string
  read(): string
  write(text: string): void
}

/** Reads and writes a file. `name` is its name in errors. */
export class FileSource implements TextSource {
  readonly #file: URL
  readonly #name: string

  constructor(file: URL, name: string) {
    this.#file = file
    this.#name = name
  }

  stamp(): string {
    return stampOf(this.#file)
  }

  read(): string {
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(this.#file))
    } catch (error) {
      throw new ConfigurationError(`${this.#name}: ${this.#whyUnread(error)}`, { file: this.#name }, error)
    }
  }

  #whyUnread(error: unknown): string {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT') return `there is no such file (${fileURLToPath(this.#file)}).`
    if (code === 'EISDIR') return 'that is a folder; name the file in it.'
    return `it cannot be read: ${describe(error)}. ${error instanceof TypeError ? 'Save it as UTF-8.' : 'Make it readable.'}`
  }

  /** Replaces the file atomically: another reader gets the complete old text or the complete new one. */
  write(text: string): void {
    let beside: string | undefined
    try {
      const path = realpathSync(this.#file) // for a link, its target
      beside = join(dirname(path), `.${basename(path)}.${randomUUID()}`)
      writeFileSync(beside, text, { flag: 'wx', mode: statSync(path).mode & 0o777 })
      renameSync(beside, path)
    } catch (error) {
      if (beside !== undefined) rmSync(beside, { force: true })
      const words = `${this.#name}: it cannot be written: ${describe(error)}. Make the file and its folder writable.`
      throw new ConfigurationError(words, { file: this.#name }, error)
    }
  }
}

/** Returns a value that differs if a file may have changed; '' if the file does not exist. */
export function stampOf(file: URL): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true })
  return found ? [found.ino, found.size, found.mtimeNs, found.ctimeNs].join() : ''
}

export class MemorySource implements TextSource {
  #text: string
  #version = 0

  constructor(text: string) {
    this.#text = text
  }

  stamp(): string {
    return `${this.#version}`
  }

  read(): string {
    return this.#text
  }

  write(text: string): void {
    this.#text = text
    this.#version += 1
  }
}
