/**
 * Options that the contract has and this version does not have yet. Each is refused by name, so that nothing is
 * accepted and ignored.
 */
import { shown, unavailable } from '../../errors.ts'

/** Option without an effect yet. */
export interface UnavailableOption {
  /** Path of the option in the team's options. */
  readonly path: string
  /** Checks whether this value asks for what is not available. An absent option asks for nothing. */
  asked(value: unknown): boolean
  /** Accepted values, for the message; empty if there are none. */
  readonly available: readonly string[]
}

/** Options of the contract that have no effect yet. */
export const UNAVAILABLE: readonly UnavailableOption[] = [
  only('stateManagement.log', 'memory'),
  only('stateManagement.durability'),
  only('threads.max'),
  only('threads.idleMs'),
]

function only(path: string, ...values: readonly unknown[]): UnavailableOption {
  return { path, asked: (value) => !values.includes(value), available: values.map(shown) }
}

/** Throws for the first option that asks for what is not available yet. */
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
