/** Name of the person at this terminal. */
import { hostname, userInfo } from 'node:os'

/** Returns the name of who is at this terminal. A container may run under a number that has no name. */
export function whoAmI(): string {
  try {
    return `cli:${userInfo().username}@${hostname()}`
  } catch {
    return `cli:${process.getuid?.() ?? ''}@${hostname()}`
  }
}
