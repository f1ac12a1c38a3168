/** Wraps a message for which the mailbox had no room, as an entry of the send queue. */
import { ASKS, NOBODY, setCorrelation, setFlag } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Link } from './link.ts'
import type { Outbox } from './outbox.ts'
import type { Ask } from './send-queue.ts'
import type { Waits } from './waits.ts'

/**
 * Builds the queue entry from the current fields of the outbox. `claimed` is called once the message has room, `onSent`
 * with its id once it is sent.
 */
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
  const isWithdrawn = () => !waits.get(correlation) // withdrawn a moment ago: the queue does not know it yet
  return {
    kind,
    settled,
    claim: () => {
      if (isWithdrawn()) return true
      if (recipient === NOBODY || link.reserve(bytes) < 0 || !link.claim(recipient, bytes, turn, step)) return false
      if (kind === 'send') setCorrelation(frame, 0, 0) // a send that has room awaits no receipt
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
