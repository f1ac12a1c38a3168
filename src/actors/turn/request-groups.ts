/**
 * Requests of one turn that are waited for together. The host knows the groups, so that it can tell when no answer is
 * possible any more.
 */
import { GROUP, MOST_GROUPS } from '../../mailbox/frame.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import type { KeptLimit, NoteWaiting } from '../definition/kept-limits.ts'
import type { CallingTurn } from './calls.ts'
import type { LimitWaits } from './limit-waits.ts'
import type { Messenger } from './messenger.ts'
import type { Requester } from './request-many.ts'
import type { TurnStart } from './turn-start.ts'

export interface GroupNeeds {
  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void
}

/** The parts of the turn that are needed here. */
type GroupingTurn = Pick<CallingTurn, 'start' | 'waitingFor'> & {
  readonly signal: AbortSignal
  readonly limits: LimitWaits
}

export class RequestGroups implements Requester {
  readonly #needs: GroupNeeds
  readonly #turn: GroupingTurn
  readonly #messages: Messenger
  /** A bit for each open group. */
  #open = 0

  constructor(needs: GroupNeeds, turn: GroupingTurn, messages: Messenger) {
    this.#needs = needs
    this.#turn = turn
    this.#messages = messages
  }

  get signal(): AbortSignal {
    return this.#turn.signal
  }

  request(to: string, content: string, options: RequestOptions, waiting: number): Promise<AgentMessage> {
    return this.#messages.request(to, content, options, 'request', waiting) as Promise<AgentMessage>
  }

  /** Opens a group. If no group number is free, returns 0, and each of its requests counts as a wait of its own. */
  open(need: number): number {
    for (let group = 1; group <= MOST_GROUPS; group++) {
      if (this.#open & (1 << group)) continue
      this.#open |= 1 << group
      this.#needs.writeControl(GROUP, this.#turn.start, group, need)
      return group
    }
    return 0
  }

  close(group: number): void {
    this.#open &= ~(1 << group)
  }

  limited(option: KeptLimit, limit: number, agents: readonly string[]): NoteWaiting {
    return this.#turn.limits.begin(option, { limit, agents })
  }

  waitingFor(signal: AbortSignal | undefined): number {
    return this.#turn.waitingFor(signal)
  }
}
