/** Teams of a process that dies. */
import type { MultiAgentPatternOptions } from '../../src/index.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import type { Disk } from './mortal-store.ts'
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
  unfolded(disk: Disk): Promise<string[]> {
    return unfoldedFacts(disk, this.supervisor, this.parts)
  }
}
