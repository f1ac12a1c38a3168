/** The host's part of an escalation: whom the agent may ask what to do, and what its turn has done so far. */
import type { Verb } from '../../actors/definition/trust.ts'
import type { EscalationView } from '../../actors/turn/escalate.ts'
import { managersOf } from '../admission/managers.ts'
import type { Core } from '../state/core.ts'
import { stepsOf } from '../state/turn-steps.ts'
import type { HostVerb } from '../verbs/host-verb.ts'

export const escalationVerbs = (core: Core): [Verb, HostVerb][] => [
  [
    'managers',
    (_args, { cell, run, turn }): EscalationView => {
      const own = cell.holderOf(turn)?.mailbox.handed.get(turn)
      return { managers: managersOf(core, cell, run), done: own ? stepsOf(core, cell, own) : [] }
    },
  ],
]
