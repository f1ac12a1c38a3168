/**
 * Which addresses belong to the public internet. What is not known to be public is refused: loopback, private and
 * shared networks, link-local (where clouds keep an instance's keys), multicast, documentation, and every form of IPv6
 * that carries an IPv4 address within. Sources: the special-purpose registries of IANA (RFC 6890), by ipaddr.js; RFC
 * 4291 for the block of global unicast.
 */
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

/** The only block of IPv6 that is given out. Outside of it are `::127.0.0.1` and much that is not used yet. */
const GLOBAL_UNICAST: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/** Public by number, and yet the machine's own platform: what it tells is meant for the machine alone. */
const PLATFORM = new Map([['168.63.129.16', "Azure's platform address"]])

/** The addresses of this machine's network interfaces at this moment, as `refusal` compares them. */
export function ownAddresses(): ReadonlySet<string> {
  const found = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
  return new Set(found.filter((address) => ipaddr.isValid(address)).map((address) => ipaddr.parse(address).toString()))
}

/**
 * Why an address may not be reached; undefined if it may. It is one that a resolver or the URL parser gave; `own` are
 * those of this machine.
 */
export function refusal(address: string, own: ReadonlySet<string> = new Set()): string | undefined {
  if (!ipaddr.isValid(address)) return 'not an IP address'
  const parsed = ipaddr.parse(address)
  if (own.has(parsed.toString())) return "the machine's own address"
  const range = parsed.range()
  if (range !== 'unicast') return wordsOf(range)
  if (parsed instanceof ipaddr.IPv6) {
    if (!parsed.match(GLOBAL_UNICAST)) return 'not a public address'
    return carriesIsatap(parsed) ? 'an IPv4 address within an IPv6 address' : undefined
  }
  return PLATFORM.get(parsed.toString())
}

/** RFC 5214: an interface identifier that names an IPv4 address which a tunnel leads to. */
function carriesIsatap({ parts }: ipaddr.IPv6): boolean {
  return (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe
}

function wordsOf(range: string): string {
  switch (range) {
    case 'private':
    case 'uniqueLocal':
    case 'carrierGradeNat':
      return 'an address of a private network'
    case 'loopback':
    case 'unspecified':
      return "the machine's own address"
    case 'linkLocal':
      return 'a link-local address'
    case 'ipv4Mapped':
    case 'rfc6145':
    case 'rfc6052':
    case '6to4':
    case 'teredo':
      return 'an IPv4 address within an IPv6 address'
    case 'multicast':
    case 'broadcast':
      return 'an address of many machines'
    default:
      return 'a reserved address'
  }
}
