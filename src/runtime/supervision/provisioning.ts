import type { AgentCode, AssignedTools, RosterEntry } from '../../actors/definition/assignment.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Thread } from '../threads/thread.ts'

/** Where the code, the tools and the threads of lives come from. */
export interface Provisioning {
  /** What a thread becomes when it is given to that agent. */
  codeOf(cell: Cell): Promise<AgentCode>
  toolsOf(cell: Cell): Promise<AssignedTools>
  /** Until a thread may be made for it; undefined: now. */
  roomFor(cell: Cell): Promise<void> | undefined
  threadFor(cell: Cell): Thread
  /** The agents as a protocol script sees them. */
  roster(run: RunState | undefined): RosterEntry[]
}
