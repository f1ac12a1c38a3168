/** Who is above an agent: its manager, the manager of that one, and so on; each once. */
import type { Cell } from '../state/cell.ts'
import type { Core } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

export function managersOf(core: Core, agent: Cell, run: RunState): string[] {
  const names: string[] = []
  for (let at: Cell | undefined = agent; at; ) {
    const name: string | undefined = at.settings.info.escalateTo
    if (name === undefined || name === agent.name || names.includes(name)) break
    names.push(name)
    at = core.cell(name, run)
  }
  return names
}
