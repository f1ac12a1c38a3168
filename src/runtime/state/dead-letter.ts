/** A message that nobody will handle, as a letter: what it was, and why. */
import type { Clock } from '../../clock.ts'
import type { DramatisError } from '../../errors.ts'
import { addresseeOf, type Directory, decodeMessage, isCopy } from '../../mailbox/codec.ts'
import type { DeadLetter, DeadLetterList, DeadLetterReason } from '../../mailbox/dead-letters.ts'
import { lengthOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { type Remains, remainsOf } from '../../mailbox/remains.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { RunState } from './run-state.ts'

/** Bytes that the remains of a refused message count for: the most that they are. */
const REMAINS = 16_384

/** A letter, and for how many bytes it counts. */
export interface MadeLetter {
  readonly letter: DeadLetter
  readonly bytes: number
}

/** Who makes it: knows the names in a message, and which letters there are. */
interface Maker {
  readonly clock: Clock
  readonly frames: Pick<HostFrames, 'id'>
  readonly names: Directory
  readonly deadLetters: DeadLetterList
}

/** Of the message that stands there. Of a message to several the letter is about one of them. */
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
  return { letter, bytes: tooLarge ? REMAINS : lengthOf(memory, at) }
}

/** Of what remains of a message that was refused before it was one. */
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
