/** What the runtime itself has to say to an agent: a message of type report, for its `observe`. */
import { SEND } from '../../mailbox/frame.ts'
import type { Core } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

/** Room is taken that may not be there. To an agent without `observe` it is an empty turn. */
export function reportTo(core: Core, run: RunState, recipient: number, content: string, data: object): void {
  const { memory, bytes } = core.frames.make({
    kind: SEND,
    type: 'report',
    recipient,
    run: run.index,
    content,
    data: JSON.stringify(data),
  })
  core.team.force(recipient, bytes)
  core.journal.appendOwned(run, memory, bytes)
  core.admission.message(core.cells[0]!, run, memory, 0, undefined)
}
