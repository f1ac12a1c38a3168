/** Checks the code that a test gives for the roles of a team. */
import { ConfigurationError } from '../../errors.ts'

/** Throws `ConfigurationError` for code whose name no agent has. */
export function checkModules(agents: readonly { name: string }[], modules: object = {}): void {
  for (const name of Object.keys(modules))
    if (!agents.some((agent) => agent.name === name))
      throw new ConfigurationError(`modules.${name}: no agent of this team is named "${name}".`, {
        path: `modules.${name}`,
      })
}
