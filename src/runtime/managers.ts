/** Who is above an agent: its manager, the manager of that one, and so on; each once. */
import type { Cell } from './cell.ts'
import type { Core } from './core.ts'
import type { RunState } from './run-state.ts'

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
