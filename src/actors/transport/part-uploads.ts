/** Gives the host the bytes of the large parts that the agent sends, once for each run. */
import { hashOf, referenceTo } from '../../mailbox/stored-parts.ts'
import type { PartKeeper } from '../definition/content.ts'
import type { Outbox } from './outbox.ts'
import type { RunView } from './run-views.ts'

/** Returns the keeper for parts of frames of that run. To be used before the frame is begun. */
export const uploadsFor = (outbox: Outbox, { index, stored }: RunView): PartKeeper => ({
  knowsAll: false,
  has: (hash) => stored.has(hash),
  keep(bytes) {
    const hash = hashOf(bytes)
    if (!stored.has(hash)) outbox.writePart(index, bytes)
    stored.add(hash)
    return referenceTo({ hash, bytes: bytes.length })
  },
})
