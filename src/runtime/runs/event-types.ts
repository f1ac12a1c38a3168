/** Types of events that a reader wants. One that asked for an unknown type would wait for nothing. */
import { nearest } from '../../nearest.ts'
import { refused } from '../checks/refused.ts'
import { EVENT_TYPES, type RuntimeEvent } from './events.ts'

/**
 * Returns the types that are wanted; undefined for all.
 *
 * @throws ConfigurationError for what is no list of types of events.
 */
export function readTypes(types: unknown): ReadonlySet<RuntimeEvent['type']> | undefined {
  if (types === undefined) return undefined
  if (!Array.isArray(types)) throw refused('types', types, `a list of types of events: ${EVENT_TYPES.join(', ')}`)
  return new Set(types.map(typeOf))
}

function typeOf(name: unknown): RuntimeEvent['type'] {
  const type = EVENT_TYPES.find((known) => known === name)
  if (type) return type
  const meant = typeof name === 'string' ? nearest(name, EVENT_TYPES) : undefined
  throw refused('types', name, EVENT_TYPES.join(', '), meant && `Did you mean "${meant}"?`)
}
