import type { Script } from 'dramatis/testing'

/** The entries of a scripted model that are for one agent. */
export const by = (agent: string, ...scripts: Script[]): Script[] => scripts.map((script) => ({ ...script, agent }))
