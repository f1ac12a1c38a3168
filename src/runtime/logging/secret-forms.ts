/** Forms of a secret in other texts: in a URL, in JSON, in base64, in hex, as `\u` escapes. */

/**
 * Returns all forms, each once, with the secret itself. Of base64 only the characters that the secret alone decides,
 * for each offset at which it can begin in the encoded text.
 */
export function formsOf(secret: string): Set<string> {
  const inUrl = [encodeURIComponent(secret), encodeURI(secret)].flatMap((text) => [text, text.replaceAll('%20', '+')])
  const escapes = [ALL, SIGNS, BEYOND_ASCII].flatMap((which) => unicodeEscapes(secret, which))
  const inJson = [JSON.stringify(secret).slice(1, -1), ...escapes]
  const hex = Buffer.from(secret).toString('hex')
  return new Set([
    secret,
    ...inUrl,
    ...inUrl.map(lowerEscapes),
    ...inJson,
    ...inJson.map((text) => text.replaceAll('/', '\\/')),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64At(secret, offset)),
  ])
}

/** Characters that some program writes as `\u` escapes. */
const ALL = /./gs
const SIGNS = /[^\w\s.~:;,-]/g
const BEYOND_ASCII = /[^ -~]/g

const lowerEscapes = (text: string) => text.replaceAll(/%[\dA-F]{2}/g, (code) => code.toLowerCase())

/** Writes the characters of that kind as `\u` escapes, in small letters and in capitals. */
function unicodeEscapes(text: string, which: RegExp): string[] {
  const escaped = (upper: boolean) =>
    text.replaceAll(which, (character) => {
      const code = character.charCodeAt(0).toString(16).padStart(4, '0')
      return `\\u${upper ? code.toUpperCase() : code}`
    })
  return [escaped(false), escaped(true)]
}

/** Returns the base64 form with that many bytes (modulo 3) before the secret, like the user in `Basic` credentials. */
function base64At(secret: string, offset: number): string[] {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)])
  const from = Math.ceil((offset * 8) / 6)
  const to = Math.floor((bytes.length * 8) / 6)
  return (['base64', 'base64url'] as const).map((alphabet) => bytes.toString(alphabet).slice(from, to))
}
