/**
 * Removes the team's keys from all data that leaves it. By value: each key that the team knows, also in its forms in a
 * URL, in JSON, in base64, in hex. By name: in logs, the texts of fields with the name of a secret.
 * By shape: in logs and errors, bearer tokens and keys as the large providers issue them.
 *
 * It does not catch:
 * - a key that the team does not know and that has neither name nor shape of one;
 * - a key that an agent splits, or encodes in another way;
 * - a key of fewer than 8 characters, which could be any word.
 */
import { MOST_LEVELS } from '../../mailbox/json.ts'
import type { Environment } from '../../shared/environment.ts'
import { REDACTED, SECRET_SHAPE } from '../../shared/thrown.ts'

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

/** Number of keys that are known of one source: those that calls under way can still have. */
const KEPT_OF_SOURCE = 16

/**
 * Maximum depth that is searched: no message is nested deeper. Deeper content is not searched, so it is not passed on.
 */
const DEEPEST = MOST_LEVELS + 50
const TOO_DEEP = '[nested too deep]'

const SHORTEST = 8
const SECRET_NAME =
  /(?:^|_)(?:api_?key|authorization|password|passwd|passphrase|secret|token|cookie|credentials?|(?:private|secret|access)_key)$/

/** Checks whether a name is that of a secret: `OPENAI_API_KEY`, `apiKey`, `x-api-key`. */
export function isSecretName(name: string): boolean {
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2').replaceAll(/[-\s.]/g, '_')
  return SECRET_NAME.test(words.toLowerCase()) || /(?:^|_)KEY$/.test(name) // variables only, not a field `key`
}

/** Search patterns: the forms of all keys, longest first, and their first one and two characters. */
interface Patterns {
  readonly forms: readonly string[]
  readonly values: RegExp
  readonly heads: ReadonlySet<string>
}

export class Redactor {
  readonly #known = new Set<string>()
  /** Latest keys of functions that return a new one from time to time, oldest first. */
  readonly #rotating = new Map<object, Set<string>>()
  #made: Patterns | undefined

  learn(secret: string | undefined): void {
    if (secret === undefined || secret.length < SHORTEST || this.#known.has(secret)) return
    this.#known.add(secret)
    this.#made = undefined
  }

  knows(text: string): boolean {
    return this.#known.has(text)
  }

  /** Only the last 16 keys of a source are known, so that their number is bounded. */
  learnFrom(source: object, secret: string): void {
    if (secret.length < SHORTEST) return
    const last = this.#rotating.get(source) ?? new Set()
    const isNew = !last.delete(secret)
    last.add(secret) // to the end: it is the newest
    if (!isNew) return
    const [oldest] = last
    if (last.size > KEPT_OF_SOURCE && oldest !== undefined) last.delete(oldest)
    this.#rotating.set(source, last)
    this.#made = undefined
  }

  get #patterns(): Patterns | undefined {
    if (this.#made || (this.#known.size === 0 && this.#rotating.size === 0)) return this.#made
    const secrets = [this.#known, ...this.#rotating.values()].flatMap((keys) => [...keys])
    const unsorted = new Set(secrets.flatMap((secret) => [...formsOf(secret)]))
    const forms = [...unsorted].sort((one, other) => other.length - one.length)
    const values = new RegExp(forms.map(escaped).join('|'), 'g')
    const heads = new Set(forms.flatMap((form) => [form.slice(0, 1), form.slice(0, 2)]))
    this.#made = { forms, values, heads }
    return this.#made
  }

  /** Redacts what agents say, and their data: the known keys only. Returns the same value if it holds none. */
  data<T>(value: T): T {
    const values = this.#patterns?.values
    return values ? redacted(value, (text) => text.replace(values, REDACTED), false) : value
  }

  /** Redacts the begin of a longer text. What may be the begin of a key at its end is left out. */
  begin(text: string): string {
    return this.data(text.slice(0, this.#mayBegin(text)))
  }

  /**
   * Redacts a text that comes in pieces: a key may begin in one and end in another. `say` gets the text that cannot be
   * part of a key any more, and `end` passes it the rest. The joined text is the same as `data` returns for the whole.
   */
  pieces(say: (text: string) => void): { push(piece: string): void; end(): void } {
    let held = ''
    return {
      push: (piece) => {
        let clean = ''
        held += piece
        for (;;) {
          const begins = this.#mayBegin(held)
          const key = this.#firstIn(held)
          if (!key || key.index >= begins) {
            clean += held.slice(0, begins)
            held = held.slice(begins)
            break
          }
          clean += held.slice(0, key.index) + REDACTED
          held = held.slice(key.index + key[0].length)
        }
        if (clean !== '') say(clean)
      },
      end: () => {
        if (held !== '') say(this.data(held))
        held = ''
      },
    }
  }

  #firstIn(text: string): RegExpExecArray | null {
    const values = this.#patterns?.values
    if (!values) return null
    values.lastIndex = 0
    return values.exec(text)
  }

  #mayBegin(text: string): number {
    const patterns = this.#patterns
    if (!patterns) return text.length
    const { forms, heads } = patterns
    for (let at = Math.max(0, text.length - forms[0]!.length + 1); at < text.length; at += 1) {
      if (!heads.has(text.slice(at, at + 2))) continue
      const rest = text.slice(at)
      if (forms.some((form) => form.length > rest.length && form.startsWith(rest))) return at
    }
    return text.length
  }

  text(text: string): string {
    const values = this.#patterns?.values
    return (values ? text.replace(values, REDACTED) : text).replace(SECRET_SHAPE, REDACTED)
  }

  fields<T>(fields: T): T {
    return redacted(fields, (text) => this.text(text), true)
  }
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

type Clean = (text: string) => string

function redacted<T>(value: T, clean: Clean, byName: boolean): T {
  return holds(value, clean, byName, new Set(), 0) ? copied(value, clean, byName, new Map(), 0) : value
}

/** Checks whether a value is searched: lists, errors and plain objects. Other objects hold no text of ours. */
function isOpen(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value) || value instanceof Error) return true
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const isSecret = (name: string, value: unknown, byName: boolean) =>
  byName && typeof value === 'string' && value !== '' && isSecretName(name)

function holds(value: unknown, clean: Clean, byName: boolean, seen: Set<object>, depth: number): boolean {
  if (typeof value === 'string') return clean(value) !== value
  if (!isOpen(value) || seen.has(value)) return false
  if (depth > DEEPEST) return true
  seen.add(value)
  return Object.entries(Object.getOwnPropertyDescriptors(value)).some(([name, property]) => {
    if (!('value' in property)) return false // getters are not called
    const { value: inner } = property
    return clean(name) !== name || isSecret(name, inner, byName) || holds(inner, clean, byName, seen, depth + 1)
  })
}

function copied<T>(value: T, clean: Clean, byName: boolean, made: Map<object, object>, depth: number): T
function copied(value: unknown, clean: Clean, byName: boolean, made: Map<object, object>, depth: number): unknown {
  if (typeof value === 'string') return clean(value)
  if (!isOpen(value)) return value
  if (depth > DEEPEST) return TOO_DEEP
  const before = made.get(value)
  if (before) return before
  const copy: object = Array.isArray(value) ? [] : Object.create(Object.getPrototypeOf(value))
  made.set(value, copy)
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    if (Array.isArray(value) && name === 'length') continue
    if ('value' in property) {
      property.value = isSecret(name, property.value, byName)
        ? REDACTED
        : copied(property.value, clean, byName, made, depth + 1)
      property.writable = true // the original may be frozen
    }
    Object.defineProperty(copy, clean(name), { ...property, configurable: true })
  }
  return copy
}

/*
 * Finds the environment variables that hold secrets: those with the name of a secret, those that the user names, and
 * the passwords in addresses. Values are read again when a run starts, because a service can set variables after its
 * team was made.
 */

const SECRET_VARIABLE =
  /(?:PASS(?:WORD|WD|PHRASE)?|PWD|SECRETS?|TOKENS?|CREDENTIALS?|(?:^|_)(?:PAT|AUTH|KEYS?|SALT|COOKIE|DSN))$/i
const NO_SECRETS = new Set(['PWD', 'OLDPWD'])
/** Values that occur as words in every text, or that mean "none". */
const WORDS =
  /^(?:postgres(?:ql)?|password|changeme|change-me|development|production|localhost|undefined|required|optional|disabled|enabled|anonymous|example|(?:\.{0,2}|~|[a-z]:)[/\\][\w./\\-]+\.\w{1,5})$/i

export class SecretVariables {
  readonly #env: () => Environment
  readonly #named: ReadonlySet<string>
  readonly #redactor: Redactor
  readonly #pauseMs: number
  readonly #now: () => number
  #lookedAt = Number.NEGATIVE_INFINITY

  /** `named` are secrets, whatever their names and values. `now` returns ms that never go back. */
  constructor(env: () => Environment, named: readonly string[], redactor: Redactor, now: () => number, pauseMs = 250) {
    this.#env = env
    this.#named = new Set(named)
    this.#redactor = redactor
    this.#now = now
    this.#pauseMs = pauseMs
  }

  /** A variable costs some microseconds, so the environment is searched a few times a second at most. */
  look(): void {
    const now = this.#now()
    if (now - this.#lookedAt < this.#pauseMs) return
    this.#lookedAt = now
    for (const [name, value = ''] of Object.entries(this.#env())) {
      if (this.#named.has(name) || (isSecretVariable(name) && isTelling(value))) this.#redactor.learn(value)
      this.#redactor.learn(passwordIn(value))
    }
  }
}

function isSecretVariable(name: string): boolean {
  return !NO_SECRETS.has(name) && (SECRET_VARIABLE.test(name) || isSecretName(name))
}

function isTelling(value: string): boolean {
  return value.length >= SHORTEST && !WORDS.test(value)
}

const ADDRESS = /^[a-z][a-z\d+.-]{0,30}:\/\/[^\s/?#]*@/i

/** Returns the password of an address like `postgres://user:password@host/database`. */
function passwordIn(value: string): string | undefined {
  if (!ADDRESS.test(value) || !URL.canParse(value)) return undefined
  const { password } = new URL(value)
  if (!isTelling(password)) return undefined
  try {
    return decodeURIComponent(password)
  } catch {
    return password
  }
}
