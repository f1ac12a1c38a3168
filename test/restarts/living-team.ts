/** Teams of a process that dies. */
import type { MultiAgentPatternOptions } from '../../src/index.ts'
import type { StoredBlock } from '../../src/runtime/store/log-store.ts'
import type { Supervisor } from '../../src/runtime/supervision/supervisor.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { unfoldedFacts } from './team-fold.ts'

/** A team with its supervisor in sight. */
export class LivingTeam extends MultiAgentPattern<string> {
  constructor(
    options: MultiAgentPatternOptions,
    kit: NonNullable<ConstructorParameters<typeof MultiAgentPattern<string>>[1]>,
  ) {
    super(options, kit)
  }

  get host(): Supervisor {
    return this.supervisor
  }

  /** Where the log and what the team itself has do not agree. */
  unfolded(blocks: readonly StoredBlock[]): Promise<string[]> {
    return unfoldedFacts(blocks, this.supervisor, this.parts)
  }
}
