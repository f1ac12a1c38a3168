/** Returns a short hash of texts that can be long and are never read again: equal texts have equal hashes. */
import { createHash } from 'node:crypto'

export const hashOf = (...parts: readonly string[]): string =>
  createHash('sha1').update(JSON.stringify(parts)).digest('base64')
