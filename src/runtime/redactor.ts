/**
 * Takes the team's keys out of whatever leaves it. By value: each key that the team knows, also as it stands in a URL or in
 * base64. By name: in logs, the texts of fields that are called like a secret. By shape: in logs and errors, bearer tokens
 * and keys as the large providers issue them.
 *
 * It does not catch a key that the team does not know and that has neither name nor shape of one; one that an agent cuts in
 * two, or encodes in another way; and one of fewer than 8 characters, which could be any word.
 */

/** What stands in the place of a secret. */
const REDACTED = '[redacted]'

const SHORTEST = 8
const LONG = 16 // no name is as long
/** As `snake_case`. */
const SECRET_NAME =
  /(?:^|_)(?:api_?key|authorization|password|passwd|passphrase|secret|token|cookie|credentials?|(?:private|secret|access)_key)$/
const SECRET_SHAPE =
  /\bBearer\s+[\w.~+/=-]{8,}|\bsk-[\w-]{16,}|\bAIza[\w-]{30,}|\bgsk_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bgh[pousr]_\w{30,}/g

/** Whether something of that name is a secret: `OPENAI_API_KEY`, `apiKey`, `x-api-key`. */
export function isSecretName(name: string): boolean {
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2').replaceAll(/[-\s.]/g, '_')
  return SECRET_NAME.test(words.toLowerCase()) || /(?:^|_)KEY$/.test(name) // a variable; a field called key is none
}

export class Redactor {
  readonly #known = new Set<string>()
  #values: RegExp | undefined

  /** From now on it is taken out. */
  learn(secret: string | undefined): void {
    if (secret === undefined || secret.length < SHORTEST || this.#known.has(secret)) return
    for (const form of formsOf(secret)) this.#known.add(form)
    const longestFirst = [...this.#known].sort((one, other) => other.length - one.length)
    this.#values = new RegExp(longestFirst.map(escaped).join('|'), 'g')
  }

  /** The values of variables that are called like a secret. Not those that could be a name: `DB_PASSWORD=postgres`. */
  learnVariables(env: Readonly<Record<string, string | undefined>>): void {
    for (const [name, value = ''] of Object.entries(env))
      if (isSecretName(name) && (value.length >= LONG || (/\d/.test(value) && /[a-z]/i.test(value)))) this.learn(value)
  }

  /** For what agents say, and for data that is theirs: the known keys alone. The same value if there are none in it. */
  data<T>(value: T): T {
    const values = this.#values
    return values ? redacted(value, (text) => text.replace(values, REDACTED), false) : value
  }

  /**
   * The same for a text that comes in pieces, in which a key may begin in one and end in another: `say` is given what cannot
   * be of a key any more, `end` gives it the rest. Joined it is what `data` makes of the whole.
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
    if (!this.#values) return null
    this.#values.lastIndex = 0
    return this.#values.exec(text)
  }

  /** Where, at the end of the text, a key may begin that is not over yet. */
  #mayBegin(text: string): number {
    let longest = 0
    for (const key of this.#known)
      for (let length = Math.min(key.length - 1, text.length); length > longest; length--)
        if (text.endsWith(key.slice(0, length))) longest = length
    return text.length - longest
  }

  /** For a line of an error or a log. */
  text(text: string): string {
    return (this.#values ? text.replace(this.#values, REDACTED) : text).replace(SECRET_SHAPE, REDACTED)
  }

  /** For the fields of a log. The same object if there is nothing to take out. */
  fields<T>(fields: T): T {
    return redacted(fields, (text) => this.text(text), true)
  }
}

/** How a secret is written in other places. Of base64 what comes before its padding, and only where it stands alone. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const base64 = [bytes.toString('base64'), bytes.toString('base64url')].map((text) => text.replace(/=+$/, ''))
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...base64]
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

type Clean = (text: string) => string

function redacted<T>(value: T, clean: Clean, byName: boolean): T {
  return holds(value, clean, byName, new Set()) ? copied(value, clean, byName, new Map()) : value
}

/** What is looked into: lists, errors and plain objects. What else there is has no text of ours in it. */
function isOpen(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value) || value instanceof Error) return true
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** What stands in it: nothing that a getter would have to make first. */
function dataOf(value: object): [string, PropertyDescriptor][] {
  return Object.entries(Object.getOwnPropertyDescriptors(value)).filter(([, property]) => 'value' in property)
}

const isSecret = (name: string, value: unknown, byName: boolean) =>
  byName && typeof value === 'string' && value !== '' && isSecretName(name)

function holds(value: unknown, clean: Clean, byName: boolean, seen: Set<object>): boolean {
  if (typeof value === 'string') return clean(value) !== value
  if (!isOpen(value) || seen.has(value)) return false
  seen.add(value)
  return dataOf(value).some(
    ([name, { value: inner }]) =>
      clean(name) !== name || isSecret(name, inner, byName) || holds(inner, clean, byName, seen),
  )
}

function copied<T>(value: T, clean: Clean, byName: boolean, made: Map<object, object>): T
function copied(value: unknown, clean: Clean, byName: boolean, made: Map<object, object>): unknown {
  if (typeof value === 'string') return clean(value)
  if (!isOpen(value)) return value
  const before = made.get(value)
  if (before) return before
  const copy: object = Array.isArray(value) ? [] : Object.create(Object.getPrototypeOf(value))
  made.set(value, copy)
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    if (Array.isArray(value) && name === 'length') continue
    if ('value' in property) {
      property.value = isSecret(name, property.value, byName) ? REDACTED : copied(property.value, clean, byName, made)
      property.writable = true // what it was made of may be frozen
    }
    Object.defineProperty(copy, clean(name), { ...property, configurable: true })
  }
  return copy
}
