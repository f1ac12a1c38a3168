/** Returns the managers above an agent: its own manager, the manager of that one, and so on; each once. */
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

export function managersOf(directory: AgentDirectory, agent: Cell, run: RunState): string[] {
  const names: string[] = []
  for (let at: Cell | undefined = agent; at; ) {
    const name: string | undefined = at.settings.info.escalateTo
    if (name === undefined || name === agent.name || names.includes(name)) break
    names.push(name)
    at = directory.cell(name, run)
  }
  return names
}
