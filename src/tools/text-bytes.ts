/** Bytes of a page as text, in the encoding that it says it has. */

import { TextDecoder } from 'node:util'
import { own } from '../shared/values.ts'

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

/** `declared` is the content type with its parameters. Wrong bytes become replacement characters. */
export function textOf(bytes: Uint8Array, declared: string | undefined): string {
  return decoderFor(markOf(bytes) ?? charsetIn(declared) ?? charsetWithin(bytes) ?? 'utf-8').decode(bytes)
}

export function mimeOf(contentType: string | undefined): string {
  return (contentType ?? '').split(';', 1)[0]!.trim().toLowerCase()
}

function markOf(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be'
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  return undefined // the mark of UTF-8 is left to its decoder
}

function charsetIn(text: string | undefined): string | undefined {
  return /\bcharset\s*=\s*["']?([\w.:-]+)/i.exec(text ?? '')?.[1]
}

/** `<meta charset>`, or the declaration of XML, which have to stand in the first kilobyte. Source: HTML, 4.2.5.4. */
function charsetWithin(bytes: Uint8Array): string | undefined {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1024))
  return (
    charsetIn(/<meta\s[^>]*>/gi.exec(start) ? start : undefined) ?? /\bencoding\s*=\s*["']([\w.:-]+)/i.exec(start)?.[1]
  )
}

function decoderFor(label: string): TextDecoder {
  try {
    return new TextDecoder(label)
  } catch {
    return new TextDecoder() // nobody knows that encoding
  }
}
