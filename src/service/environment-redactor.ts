/** Removes secrets of the environment from what a command prints of a log: the keys of its team are not known there. */
import { environment } from '../environment.ts'
import { Redactor } from '../runtime/logging/redactor.ts'
import { SecretVariables } from '../runtime/logging/secret-variables.ts'
import { loadEnv } from './load-env.ts'

/** `folder`: where the command runs, whose `.env` counts too. */
export function environmentRedactor(folder: string): Redactor {
  loadEnv(folder)
  const redactor = new Redactor()
  new SecretVariables(environment, [], redactor, () => performance.now()).look()
  return redactor
}
