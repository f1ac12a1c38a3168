/** A message for which there was no room, as it stands in line for some. */
import { ASKS, NOBODY, setCorrelation, setFlag } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Link } from './link.ts'
import type { Outbox } from './outbox.ts'
import type { Ask } from './send-queue.ts'
import type { Waits } from './waits.ts'

/** Of the frame that was begun. `claimed` is told when it has its room, `onSent` its id when it is on its way. */
export function askForRoom(
  { link, outbox, waits }: { readonly link: Link; readonly outbox: Outbox; readonly waits: Waits },
  kind: Ask['kind'],
  bytes: number,
  settled: Promise<unknown>,
  claimed: () => void,
  onSent?: (id: string) => void,
): Ask {
  const { recipient, turn, step, correlation } = outbox.fields
  const frame = outbox.encode(bytes)
  const isWithdrawn = () => !waits.get(correlation) // just now: the line does not know of it yet
  return {
    kind,
    settled,
    claim: () => {
      if (isWithdrawn()) return true
      if (recipient === NOBODY || link.reserve(bytes) < 0 || !link.claim(recipient, bytes, turn, step)) return false
      if (kind === 'send') setCorrelation(frame, 0, 0) // it awaits no verdict
      link.put(frame, bytes, kind === 'send' ? 'soon' : 'now')
      link.claimed()
      claimed()
      onSent?.(idOf(frame, 0))
      return true
    },
    ask: () => {
      if (isWithdrawn()) return
      setFlag(frame, 0, ASKS)
      link.post(frame, bytes)
      onSent?.(idOf(frame, 0))
    },
  }
}
