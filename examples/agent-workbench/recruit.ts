/** A tool by which a model adds teammates while its run is under way, among those whom the program offers. */
import { type AgentRole, defineTool, type Tool } from 'dramatis'
import { z } from 'zod'

/** `hire` puts one of the candidates into the team. */
export function recruiting(candidates: readonly AgentRole[], hire: (role: AgentRole) => Promise<unknown>): Tool {
  const about = candidates.map(({ name, description }) => `${name} (${description})`).join(', ')
  return defineTool({
    name: 'recruit',
    description: `Adds a teammate whom the team lacks. There are: ${about}.`,
    input: z.strictObject({ name: z.enum(candidates.map(({ name }) => name)) }),
    async run({ name }) {
      const candidate = candidates.find((each) => each.name === name)
      if (candidate) await hire(candidate)
      return `${name} is in the team now.`
    },
  })
}
