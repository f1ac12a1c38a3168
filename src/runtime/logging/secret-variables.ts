/**
 * Finds the environment variables that hold secrets: those with the name of a secret, those that the user names, and
 * the passwords in addresses. Values are read again when a run starts, because a service can set variables after its
 * team was made.
 */
import type { Environment } from '../../environment.ts'
import { isSecretName, type Redactor } from './redactor.ts'

const SECRET_VARIABLE =
  /(?:PASS(?:WORD|WD|PHRASE)?|PWD|SECRETS?|TOKENS?|CREDENTIALS?|(?:^|_)(?:PAT|AUTH|KEYS?|SALT|COOKIE|DSN))$/i
/** Variables with the name of a secret that are none. */
const NO_SECRETS = new Set(['PWD', 'OLDPWD'])
/** Values that occur as words in every text, or that mean "none". */
const WORDS =
  /^(?:postgres(?:ql)?|password|changeme|change-me|development|production|localhost|undefined|required|optional|disabled|enabled|anonymous|example|(?:\.{0,2}|~|[a-z]:)[/\\][\w./\\-]+\.\w{1,5})$/i
const SHORTEST = 8

export class SecretVariables {
  readonly #env: () => Environment
  readonly #named: ReadonlySet<string>
  readonly #redactor: Redactor
  /** Shortest time between two searches of the environment. */
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

  /**
   * Adds new secrets to the redactor. A variable costs some microseconds, so the environment is searched a few times a
   * second at most.
   */
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
