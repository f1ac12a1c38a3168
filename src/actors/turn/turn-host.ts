/** What a turn needs of the loop that runs it. */
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

/** What the loop knows of the message under way. */
export interface TurnStart {
  turn: number
  run: number
  view: RunView
  id: FrameId
  /** undefined: it is the start hook. */
  message: AgentMessage | undefined
  attempt: number
  /** The caller's index and its number for the request; correlation 0 when nobody waits. */
  caller: number
  correlation: number
  streams: boolean
  type: MessageType
  /** Epoch ms. */
  startedAt: number
  replay: Replay | undefined
  /** Its place among the open turns, for `Parking`. */
  slot: number
}

export interface TurnHost {
  readonly role: RoleInfo
  readonly data: unknown
  readonly state: object
  readonly stateRules: StateRules
  /** Whether it has a handler for what nobody answers. */
  readonly observes: boolean
  readonly outbox: Outbox
  readonly link: Link
  readonly parking: Parking
  readonly goingOn: GoingOn
  readonly now: () => number
  readonly waits: Waits
  readonly asks: Asks
  readonly toolbox: Toolbox
  /** The verbs that a model is offered as tools. */
  readonly verbs: readonly string[]
  /** When the rounds of its model are a loop; false: nobody looks. */
  readonly loops: RoundBounds | false
  /** How its model's context is chosen: by the role, and by its definition where that does it. */
  readonly strategy: ContextStrategy | undefined
  readonly buildContext: AgentHandlers['buildContext']
  runState(view: RunView): object
  /** Who has that index. */
  name(index: number): string
  /** `fields`: what stands in each of its lines. */
  loggerFor(start: TurnStart, fields?: object): Logger
  /** What frames of that run call the agent, if this thread knows it. */
  indexOf(name: string, run: RunView): number | undefined

  /** The turn may have come to wait for others alone: it parks as soon as the loop is idle, if anybody wants its permit. */
  mayPark(start: TurnStart): void
  /** Settles a wait with the frame that answers it. */
  settle(correlation: number, memory: Memory, at: number): void

  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void

  /** Lets the event loop turn once: timers, sockets, bells. */
  breath(): Promise<void>
  sleep(ms: number, signal: AbortSignal): Promise<void>
  readonly timer: Scheduler['timer']
  /** Anything thrown, as an error that says who failed at what. */
  failure(thrown: unknown, at: string): DramatisError
}
