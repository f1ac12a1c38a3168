/** A line of HTML, as search services give titles and snippets, as plain text. */
import { own } from '../../own.ts'

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' }

/** Without tags, with the common character references resolved once, on one line, no longer than `most`. */
export function plainLine(html: string, most: number): string {
  const text = html.replace(/<[^<>]*>/g, '').replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, character)
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, most)
}

function character(reference: string, decimal?: string, hex?: string, name?: string): string {
  if (name !== undefined) return own(NAMED, name.toLowerCase()) ?? reference
  const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
  return code <= 0x10ffff ? String.fromCodePoint(code) : reference
}
