/** A short name for texts that can be long, and that nobody is to read again: equal where they are equal. */
import { createHash } from 'node:crypto'

export const hashOf = (...parts: readonly string[]): string =>
  createHash('sha1').update(JSON.stringify(parts)).digest('base64')
