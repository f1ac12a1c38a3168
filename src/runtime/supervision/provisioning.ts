import type { AgentCode, AssignedTools, RosterEntry } from '../../actors/definition/assignment.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Thread } from '../threads/thread.ts'

/** Source of the code, the tools and the threads of agents. */
export interface Provisioning {
  /** Returns the code that a thread runs as that agent. */
  codeOf(cell: Cell): Promise<AgentCode>
  toolsOf(cell: Cell): Promise<AssignedTools>
  /** Resolves when a thread may be made for the agent; undefined: it may be made now. */
  roomFor(cell: Cell): Promise<void> | undefined
  threadFor(cell: Cell): Thread
  /** Lets a thread boot for the first of these agents that needs one, while their code is looked for. */
  expect(cells: readonly Cell[]): void
  /** Returns the agents as a protocol script sees them. */
  roster(run: RunState | undefined): RosterEntry[]
}
