/** Decides whether an agent has code that can be loaded again. */
import { ConfigurationError } from '../../errors.ts'
import type { Cell } from '../state/cell.ts'
import type { TeamKit } from './provision.ts'

/** Throws `ConfigurationError` for an agent without a module, and for one whose module Node keeps. */
export function assertReloadable({ name, settings }: Cell, kit: TeamKit | undefined): void {
  const { module, tools } = settings
  const own = tools.modules.length + tools.isolated.length > 0
  const reason = (): string | undefined => {
    if (kit?.definitions.has(name)) return 'its code was given to the team as a value'
    if (kit && !kit.load) return "it runs in the host's thread, where Node keeps each module that it has loaded"
    if (module !== null || own) return undefined
    return 'a model plays it, and it has no module and no tools in modules'
  }
  const why = reason()
  if (why === undefined) return
  const text = `Agent "${name}" cannot be reloaded: ${why}. Changed options and inline tools take effect in a new team.`
  throw new ConfigurationError(text, { path: 'name', agent: name, accepted: 'an agent with a module' })
}
