/** What the contract has and this version has not. Nothing is accepted and ignored: each of these is refused by name. */
import { shown, unavailable } from '../errors.ts'

/** One option without an effect yet. */
export interface UnavailableOption {
  /** Where it stands in the options; `[]` is every entry of a list. */
  readonly path: string
  /** Whether this value asks for what is not there. An absent option asks for nothing. */
  asked(value: unknown): boolean
  /** The values that are accepted, for the message; empty if there are none. */
  readonly available: readonly string[]
}

/** Every option of the contract that has no effect yet. */
export const UNAVAILABLE: readonly UnavailableOption[] = [
  only('taskRouting', 'explicit'),
  only('stateManagement.log', 'memory'),
  only('stateManagement.durability'),
  only('threads.max'),
  only('threads.idleMs'),
]

function only(path: string, ...values: readonly unknown[]): UnavailableOption {
  return { path, asked: (value) => !values.includes(value), available: values.map(shown) }
}

const OF_A_ROLE = 'agents[].'

/** Throws for the first option that asks for what is not there yet. */
export function refuseUnavailable(options: unknown): void {
  for (const option of UNAVAILABLE) refuse(option, valuesAt(options, option.path.split('.'), ''))
}

/** The same for one role that stands at `at`. */
export function refuseUnavailableRole(role: unknown, at: string): void {
  for (const option of UNAVAILABLE)
    if (option.path.startsWith(OF_A_ROLE))
      refuse(option, valuesAt(role, option.path.slice(OF_A_ROLE.length).split('.'), at))
}

function refuse({ asked, available }: UnavailableOption, found: Found): void {
  const accepted = available.join(' or ') || 'nothing'
  for (const { path, value } of found) {
    if (value === undefined || !asked(value)) continue
    const advice = available.length === 0 ? '' : `Available: ${accepted}.`
    throw unavailable(path, advice, { got: shown(value), accepted })
  }
}

type Found = Generator<{ path: string; value: unknown }>

function* valuesAt(from: unknown, [step, ...rest]: string[], path: string): Found {
  if (step === undefined) return yield { path, value: from }
  if (typeof from !== 'object' || from === null) return
  const key = step.replace('[]', '')
  const value: unknown = Reflect.get(from, key)
  const here = path === '' ? key : `${path}.${key}`
  if (!step.endsWith('[]')) return yield* valuesAt(value, rest, here)
  if (!Array.isArray(value)) return
  for (const [i, entry] of value.entries()) yield* valuesAt(entry, rest, `${here}[${i}]`)
}
