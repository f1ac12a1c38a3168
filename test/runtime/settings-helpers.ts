/** What the tests of the options share. */

import { settingsFrom, type TeamOptions } from '../../src/runtime/settings/settings.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'

export const module = 'a-package'
/** The agents of a team that needs nothing else. */
export const agents = [{ name: 'ann', module }]

/** Options as plain JavaScript may send them: the compiler is no help there. */
export function loose(options: object): TeamOptions {
  return Object.assign({ agents }, options)
}

/** Options whose one role has these fields more. */
export function role(fields: object) {
  return { agents: [{ name: 'ann', module, ...fields }] }
}

/** The error for these options. */
export function errorFor(options: object, modules?: ReadonlySet<string>): ConfigurationError {
  try {
    settingsFrom(loose(options), { modules })
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('these options were accepted')
}

/** Its path and what it got, in one line. */
export function detailsOf(options: object): string {
  const { path, got } = errorFor(options).details
  return `${path}: ${got}`
}
