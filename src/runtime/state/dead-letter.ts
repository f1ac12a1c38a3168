/** Makes dead letters: messages that nobody will handle, with the reason. */
import type { Clock } from '../../clock.ts'
import type { DramatisError } from '../../errors.ts'
import { addresseeOf, type Directory, decodeMessage, isCopy } from '../../mailbox/codec.ts'
import type { DeadLetter, DeadLetterList, DeadLetterReason } from '../../mailbox/dead-letters.ts'
import { lengthOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { type Remains, remainsOf } from '../../mailbox/remains.ts'
import { referenceIn } from '../../mailbox/stored-parts.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { RunState } from './run-state.ts'

/** Size in bytes that the remains of a refused message count for: their maximum. */
const REMAINS = 16_384

/** Dead letter, and the number of bytes that it counts for. */
export interface MadeLetter {
  readonly letter: DeadLetter
  readonly bytes: number
}

/** Parts that a dead letter is made with: the names in a message, and the list of dead letters so far. */
interface Maker {
  readonly clock: Clock
  readonly frames: Pick<HostFrames, 'id'>
  readonly names: Directory
  readonly deadLetters: DeadLetterList
}

/**
 * Makes the dead letter of the message at that place. For a message to several recipients the letter is about one of
 * them.
 */
export function letterOf(
  maker: Maker,
  memory: Memory,
  at: number,
  reason: DeadLetterReason,
  errors: DramatisError[],
): MadeLetter {
  const messageId = idOf(memory, at)
  const message: AgentMessage = decodeMessage(memory, at, maker.names)
  if (typeof message.recipient !== 'string') message.recipient = addresseeOf(memory, at, maker.names)
  const tooLarge = reason === 'rejected' && errors[0]?.code === 'MESSAGE_REJECTED'
  if (tooLarge) Object.assign(message, remainsOf(message))
  const letter = {
    id: isCopy(memory, at) || maker.deadLetters.get(messageId) ? maker.frames.id() : messageId,
    message,
    reason,
    errors,
    at: maker.clock.now(),
  }
  const stored = (message.parts ?? []).reduce((sum, part) => sum + (referenceIn(part)?.bytes ?? 0), 0)
  return { letter, bytes: tooLarge ? REMAINS : lengthOf(memory, at) + stored }
}

/** Makes the dead letter of a message that was refused before it was encoded, from what remains of it. */
export function letterOfRemains(
  { clock, frames }: Pick<Maker, 'clock' | 'frames'>,
  run: RunState | undefined,
  remains: Remains,
  error: DramatisError,
): MadeLetter {
  const at = clock.now()
  const message: AgentMessage = { ...remains, id: frames.id(), runId: run?.id ?? '', sentAt: at }
  return { letter: { id: message.id, message, reason: 'rejected', errors: [error], at }, bytes: REMAINS }
}
