/** Begin of a turn. */
import type { ReceivedMessage } from '../../mailbox/codec.ts'
import type { FrameId } from '../../mailbox/frame-id.ts'
import type { MessageType } from '../../mailbox/message.ts'
import type { RunView } from '../transport/run-views.ts'
import type { Replay } from './replay.ts'

/** Data of the message that a turn handles. */
export interface TurnStart {
  turn: number
  run: number
  view: RunView
  id: FrameId
  /** undefined for the start hook. */
  message: ReceivedMessage | undefined
  attempt: number
  /** Index of the caller, and its number for the request. `correlation` is 0 if no caller waits for a response. */
  caller: number
  correlation: number
  streams: boolean
  type: MessageType
  /** Epoch ms. */
  startedAt: number
  replay: Replay | undefined
  /** Slot among the open turns, for `Parking`. */
  slot: number
  /** True if the turn runs inside another turn of the agent. */
  nested: boolean
}
