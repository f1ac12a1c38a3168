/** Notices that tell a thread about a run, before its first message of that run. */
import type { RosterEntry, RunNotice } from '../../actors/definition/assignment.ts'
import type { HostFrames, OwnFrame } from '../log/host-frames.ts'
import type { AgentStates } from '../state/agent-states.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly frames: HostFrames
  readonly agentStates: AgentStates
  /** Returns the agents as a protocol script sees them. */
  roster(run: RunState): RosterEntry[]
}

export class RunNotices {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  of(cell: Cell, run: RunState): OwnFrame {
    const { frames, agentStates, roster } = this.#needs
    agentStates.conversations.begin(cell, run)
    const state = run.states.get(cell.index)
    const notice: RunNotice = {
      metadata: run.toldMetadata,
      ...(run.threadId !== undefined && { threadId: run.threadId }),
      ...(state !== undefined && { runState: JSON.stringify(state) }),
      ...(run.unlogged.has(cell.index) && { isUnlogged: true }),
      ...(run.output?.jsonSchema && { output: run.output.jsonSchema }),
      ...(run.streams && { streams: true }),
      // A script in the host's own thread reads the team itself.
      ...(!cell.settings.isAgent && cell.life?.thread.isolated && { roster: roster(run) }),
      ...(run.agents.size > 0 && { agents: [...run.agents].map(([name, index]) => ({ name, index })) }),
    }
    return frames.runNotice(run.index, run.id, notice)
  }
}
