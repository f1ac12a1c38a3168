/** Options by which processes of a cluster reach and believe each other, checked at the start. */
import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { refusedAs } from '../../shared/checks.ts'
import { environment } from '../../shared/environment.ts'
import { own } from '../../shared/values.ts'

/** Header by which a process of the cluster knows a request of another one. */
export const PEER_HEADER = 'x-dramatis-peer'

/** Header of an answer that a process gives for a shard which it does not have. */
export const MOVED = 'x-dramatis-moved'

/** Path below which a process answers small requests of the others. */
export const PEER_PATH = '/cluster/'

const LEAST = 32

export interface PeerOptions {
  readonly url?: string
  readonly name?: string
  readonly secretEnv?: string
}

/**
 * Key of a cluster: from its secret; without one, from the password of its database, which is enough on one machine.
 * Undefined where there is neither.
 *
 * @throws ConfigurationError
 */
export function keyOf({ url = '', name = 'default', secretEnv }: PeerOptions): Buffer | undefined {
  const derived = (secret: string) => createHash('sha256').update(`dramatis peers\n${name}\n${secret}`).digest()
  if (secretEnv === undefined) {
    const [, inLogin, query = ''] = /^[a-z]+:\/\/(?:[^:@/?]*:?([^@/?]*)@)?[^?]*\??(.*)/.exec(url) ?? []
    const password = inLogin || new URLSearchParams(query).get('password') || own(environment(), 'PGPASSWORD')
    return password ? derived(password) : undefined
  }
  const secret = own(environment(), secretEnv) ?? ''
  if (secret.length >= LEAST) return derived(secret)
  const got = secret === '' ? `a variable ${secretEnv} that is not set` : `a secret of ${secret.length} characters`
  throw refusedAs('cluster.secretEnv', got, `the name of an environment variable with at least ${LEAST}`)
}

const advice =
  'Put a secret of at least 32 characters, the same for all processes, into an environment variable, and name it in cluster.secretEnv (--cluster-secret-env).'

/** @throws ConfigurationError for an address that is none, or that others than this machine could send to. */
export function checkAddress(address: string, { secretEnv, url }: PeerOptions): void {
  const accepted = 'an http: or https: URL without a query, such as "http://10.0.0.5:4747"'
  const parsed = URL.canParse(address) ? new URL(address) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash || parsed.username)
    throw refusedAs('cluster.address', JSON.stringify(address), accepted)
  if (secretEnv !== undefined) return
  if (keyOf({ url }) === undefined)
    throw refusedAs(
      'cluster.address',
      'an address',
      'none without cluster.secretEnv or a password in cluster.url',
      advice,
    )
  if (!isLoopback(parsed))
    throw refusedAs('cluster.address', JSON.stringify(address), 'a loopback address without cluster.secretEnv', advice)
}

/** Checks whether a request to that address stays on this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
}

/** Returns an address of an engine without its password, for people. */
export const withoutSecrets = (url: string): string =>
  url.replace(/^(\w+:\/\/)[^@/]*@/, '$1').replace(/([?&]password=)[^&]*/, '$1...')
