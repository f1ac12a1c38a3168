/**
 * Host side of an escalation: the managers that the agent may ask for a decision, and what its turn has done so far.
 */
import type { Verb } from '../../actors/definition/trust.ts'
import type { EscalationView } from '../../actors/turn/escalate.ts'
import { managersOf } from '../admission/managers.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import { stepsOf } from '../state/attempt-log.ts'
import type { HostVerb } from '../verbs/host-verb.ts'

interface Needs {
  readonly directory: AgentDirectory
}

export const escalationVerbs = (needs: Needs): [Verb, HostVerb][] => [
  [
    'managers',
    (_args, { cell, run, turn }): EscalationView => {
      const own = cell.holderOf(turn)?.mailbox.handed.get(turn)
      return {
        managers: managersOf(needs.directory, cell, run),
        done: own ? stepsOf(cell, own, (index) => needs.directory.name(index)) : [],
      }
    },
  ],
]
