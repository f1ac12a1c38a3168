/**
 * States that turns leave when they commit: per agent, per agent and run, and conversations that continue across runs.
 */
import { applyPatches, enablePatches, type Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { Conversation } from '../../actors/model/context/conversation.ts'
import type { Cell } from './cell.ts'
import { Conversations } from './conversations.ts'
import type { PartStore } from './part-store.ts'
import type { RunState } from './run-state.ts'
import type { RunTable } from './run-table.ts'

enablePatches()

export class AgentStates {
  readonly conversations: Conversations

  constructor(parts: PartStore, runs: RunTable) {
    this.conversations = new Conversations(parts, (threadId) => runs.isOpen(threadId))
  }

  /** Applies a patch to the state of an agent. Throws if the patch does not fit that state. */
  applyPatch(cell: Cell, run: RunState, notice: PatchNotice): void {
    const patches = notice.patches as Patch[]
    if (notice.scope === 'agent') cell.state = applyPatches(cell.state ?? {}, patches)
    else {
      const { base } = notice as { base?: object }
      // The host's own value first: what others have of it is the same object, so nothing is compared or merged.
      const before = run.states.get(cell.index) ?? base ?? {}
      const after = patches.length > 0 ? applyPatches(before, patches) : (base ?? before)
      run.states.set(cell.index, after)
      if (notice.base !== undefined) run.unlogged.delete(cell.index)
      this.conversations.committed(cell, run, before as Conversation, after as Conversation)
    }
  }
}
