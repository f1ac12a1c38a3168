/**
 * Variables of the environment, and those of the `.env` that the command line reads. The latter stay out of
 * `process.env`: child processes get all that is there, and reports of the process show it.
 */

import { own } from './own.ts'

/** Values of variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

let ofFile: Environment | undefined

/** Returns all variables. One that the process has counts before one of the file. */
export const environment = (): Environment => (ofFile ? { ...ofFile, ...process.env } : process.env)

/** Adds the variables of a file. */
export function addToEnvironment(read: Environment): void {
  ofFile = { ...ofFile, ...read }
}

/** Does `load` with all variables in `process.env`: a team file reads its options there while it is imported. */
export async function withEnvironment<T>(load: () => Promise<T>): Promise<T> {
  const added = Object.entries(environment()).filter(([name]) => own(process.env, name) === undefined)
  Object.assign(process.env, Object.fromEntries(added))
  try {
    return await load()
  } finally {
    for (const [name, value] of added) if (own(process.env, name) === value) Reflect.deleteProperty(process.env, name)
  }
}
