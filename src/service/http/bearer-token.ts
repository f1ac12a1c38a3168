/** Callers by a token in the header `Authorization`. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { listOf, oneOf, text } from '../../runtime/checks/checks.ts'
import { refusedAs } from '../../runtime/checks/refused.ts'
import type { Authorize, Caller } from './options.ts'
import { RIGHTS } from './schemas.ts'

const LEAST = 16
const rights = listOf(oneOf(...RIGHTS))

/**
 * Returns an `authorize` for one token: who sends `Authorization: Bearer <token>` is that caller, anybody else nobody.
 * Tokens are compared in constant time.
 *
 * @throws {ConfigurationError} for a token of fewer than 16 characters, and for a caller or a right that is none.
 *
 * @example
 * httpApi({ teams: { desk: team }, authorize: bearerToken(process.env.TOKEN, { id: 'ann', may: ['run', 'watch'] }) })
 */
export function bearerToken(token: string | undefined, caller: Caller): Authorize {
  if (typeof token !== 'string' || token.length < LEAST)
    throw refusedAs('token', token ? 'a shorter one' : 'none', `a text of at least ${LEAST} characters`)
  const { id, may }: { id?: unknown; may?: unknown } = Object(caller)
  text(id, 'caller.id')
  rights(may, 'caller.may')
  const expected = digest(token)
  return ({ headers }) => {
    const given = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1]
    return given !== undefined && timingSafeEqual(digest(given), expected) ? caller : null
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
