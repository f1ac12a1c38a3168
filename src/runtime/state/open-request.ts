/** A request that is not answered yet, by the id of its message. */
import { idOf } from '../../mailbox/frame-id.ts'
import type { OpenRequest } from './cell.ts'
import type { Core } from './core.ts'

export function openRequest(core: Core, messageId: string): OpenRequest | undefined {
  for (const cell of core.cells)
    for (const request of cell.open.values())
      if (idOf(request.envelope.memory, request.envelope.at) === messageId) return request
  return undefined
}
