/** The error for what a rehearsal does not do: real input and output. */
import { ConfigurationError } from '../../../errors.ts'

/** `who`: the agent in words; `what`: the module or function that it wanted. */
export function refusedIo(who: string, what: string, advice: string): ConfigurationError {
  const text = `${who}: ${what} is real input or output, which a rehearsal refuses: each of its runs has to be the same when it is played again. ${advice}`
  return new ConfigurationError(text, { who, what, rehearsal: true })
}
