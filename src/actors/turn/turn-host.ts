/** The parts of the agent loop that a turn needs. */
import type { Scheduler } from '../../clock.ts'
import type { DramatisError } from '../../errors.ts'
import type { FrameId } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { AgentMessage, MessageType } from '../../mailbox/message.ts'
import type { RoundBounds } from '../definition/cycles.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Logger } from '../definition/logger.ts'
import type { ContextStrategy, RoleInfo } from '../definition/role.ts'
import type { Toolbox } from '../tools/toolbox.ts'
import type { GoingOn } from '../transport/going-on.ts'
import type { Link } from '../transport/link.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { Parking } from '../transport/parking.ts'
import type { RunView } from '../transport/run-views.ts'
import type { Asks } from '../transport/send-queue.ts'
import type { Waits } from '../transport/waits.ts'
import type { Replay } from './replay.ts'
import type { StateRules } from './state-rules.ts'

/** Data of the message that a turn handles. */
export interface TurnStart {
  turn: number
  run: number
  view: RunView
  id: FrameId
  /** undefined for the start hook. */
  message: AgentMessage | undefined
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
}

export interface TurnHost {
  readonly role: RoleInfo
  readonly data: unknown
  readonly state: object
  readonly stateRules: StateRules
  /** True if the agent has an `observe` handler. */
  readonly observes: boolean
  readonly outbox: Outbox
  readonly link: Link
  readonly parking: Parking
  readonly goingOn: GoingOn
  readonly now: () => number
  readonly waits: Waits
  readonly asks: Asks
  readonly toolbox: Toolbox
  /** Verbs that a model is offered as tools. */
  readonly verbs: readonly string[]
  /** Limits beyond which the rounds of a model count as a loop; false: no check. */
  readonly loops: RoundBounds | false
  /** Context strategy of the model: from the role, or from the definition if it sets one. */
  readonly strategy: ContextStrategy | undefined
  readonly buildContext: AgentHandlers['buildContext']
  runState(view: RunView): object
  /** Returns the name of the agent with that index. */
  name(index: number): string
  /** Returns a logger; `fields` are added to each of its lines. */
  loggerFor(start: TurnStart, fields?: object): Logger
  /** Returns the agent's index in frames of that run; undefined if this thread does not know the agent. */
  indexOf(name: string, run: RunView): number | undefined

  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  /** Settles a wait with the frame that answers it. */
  settle(correlation: number, memory: Memory, at: number): void

  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void

  /** Lets the event loop turn once, so that timers, sockets and wake-ups run. */
  breath(): Promise<void>
  sleep(ms: number, signal: AbortSignal): Promise<void>
  readonly timer: Scheduler['timer']
  /** Converts anything thrown into an error that names the agent and the activity that failed. */
  failure(thrown: unknown, at: string): DramatisError
}
