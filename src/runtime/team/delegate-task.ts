/** Gives an agent a task from outside of any run, in the name of another agent. */
import { encodeData } from '../../actors/definition/checks.ts'
import { type AgentTask, CONTEXT, type TaskInput } from '../../actors/definition/task.ts'
import { doneTask, messageOptions, offerOf } from '../../actors/turn/delegate.ts'
import { decodeMessage, errorOf, isFailure } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Cell } from '../state/cell.ts'
import type { Supervisor } from '../supervision/supervisor.ts'

/** Resolves when the task is done; rejects with the error that ended it. */
export function delegateTask(
  supervisor: Supervisor,
  runs: RunBook,
  from: Cell,
  to: Cell,
  input: TaskInput,
  context?: unknown,
): Promise<AgentTask> {
  const offer = offerOf(to.name, input, null) // checks the input before a run is made for it
  const added = encodeData(context, 'context')
  const { structuredData, priority } = messageOptions(offer)
  return new Promise((resolve, reject) => {
    const settle = (memory: Memory, at: number) => {
      if (isFailure(memory, at)) reject(errorOf(memory, at))
      else resolve(doneTask(offer, decodeMessage(memory, at, supervisor.names)))
    }
    const question = {
      type: 'delegate' as const,
      content: offer.description,
      data: JSON.stringify(structuredData),
      ...(added !== undefined && { metadata: `{"${CONTEXT}":${added}}` }),
      ...(priority !== undefined && { priority }),
    }
    supervisor.hostMessages.ask({ target: to, run: runs.ownRun(undefined), question, settle, sender: from })
  })
}
