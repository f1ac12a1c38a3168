/** Callers by a token in the header `Authorization`. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { refusedAs } from '../../runtime/checks/refused.ts'
import type { Authorize, Caller } from './options.ts'

const LEAST = 16

/**
 * Returns an `authorize` for one token: who sends `Authorization: Bearer <token>` is that caller, anybody else nobody.
 * Tokens are compared in constant time.
 *
 * @throws {ConfigurationError} for a token of fewer than 16 characters.
 *
 * @example
 * httpApi({ teams: { desk: team }, authorize: bearerToken(process.env.TOKEN, { id: 'ann', may: ['run', 'watch'] }) })
 */
export function bearerToken(token: string | undefined, caller: Caller): Authorize {
  if (typeof token !== 'string' || token.length < LEAST)
    throw refusedAs('token', token ? 'a shorter one' : 'none', `a text of at least ${LEAST} characters`)
  const expected = digest(token)
  return ({ headers }) => {
    const given = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1]
    return given !== undefined && timingSafeEqual(digest(given), expected) ? caller : null
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
