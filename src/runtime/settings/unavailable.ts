/** What the contract has and this version has not. Nothing is accepted and ignored: each of these is refused by name. */
import { shown, unavailable } from '../../errors.ts'

/** One option without an effect yet. */
export interface UnavailableOption {
  /** Where it stands in the options. */
  readonly path: string
  /** Whether this value asks for what is not there. An absent option asks for nothing. */
  asked(value: unknown): boolean
  /** The values that are accepted, for the message; empty if there are none. */
  readonly available: readonly string[]
}

/** Every option of the contract that has no effect yet. */
export const UNAVAILABLE: readonly UnavailableOption[] = [
  only('stateManagement.log', 'memory'),
  only('stateManagement.durability'),
  only('threads.max'),
  only('threads.idleMs'),
]

function only(path: string, ...values: readonly unknown[]): UnavailableOption {
  return { path, asked: (value) => !values.includes(value), available: values.map(shown) }
}

/** Throws for the first option that asks for what is not there yet. */
export function refuseUnavailable(options: unknown): void {
  for (const { path, asked, available } of UNAVAILABLE) {
    const value = valueAt(options, path)
    if (value === undefined || !asked(value)) continue
    const accepted = available.join(' or ') || 'nothing'
    const advice = available.length === 0 ? '' : `Available: ${accepted}.`
    throw unavailable(path, advice, { got: shown(value), accepted })
  }
}

const valueAt = (options: unknown, path: string): unknown =>
  path.split('.').reduce((from, key) => Reflect.get(Object(from), key), options)
