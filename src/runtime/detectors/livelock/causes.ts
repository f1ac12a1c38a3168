/** Tracks causes: the conversation that each message not handled yet, and each open turn, is part of. */
import { flagsOf, MANY, NOBODY, senderOf, turnOf } from '../../../mailbox/frame.ts'
import { idOf } from '../../../mailbox/frame-id.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import { BoundedMap } from '../../log/bounded-map.ts'
import { NO_TURN } from '../../state/cell.ts'
import type { Conversation } from './signs.ts'

export class Causes {
  /** Returns the id of the message that a turn handles. */
  readonly #messageOf: (agent: number, turn: number) => string | undefined
  /**
   * Conversations that led to a message not handled yet, by id and recipient; and to an open turn, by agent and number.
   */
  readonly #messages: BoundedMap<string, Conversation | undefined>
  readonly #turns: BoundedMap<string, Conversation>
  /** Conversations that led to the request that the host is about to make in the name of an agent, by agent. */
  readonly #handoffs = new Map<number, Conversation | undefined>()

  /** `most`: limit on entries, because nothing removes messages that are never handled. */
  constructor(messageOf: (agent: number, turn: number) => string | undefined, most: number) {
    this.#messageOf = messageOf
    this.#messages = new BoundedMap(most)
    this.#turns = new BoundedMap(most)
  }

  /** Registers a handoff of that turn: the next request is made by the host, in the name of the agent. */
  handsOff(agent: number, turn: number): void {
    this.#handoffs.set(agent, this.ofTurn(agent, turn))
  }

  /**
   * Returns the conversation that led to a message: that of the sender's turn, or for a copy that of the broadcast
   * itself.
   */
  of(memory: Memory, at: number): Conversation | undefined {
    const turn = turnOf(memory, at)
    const sender = senderOf(memory, at)
    if (turn === NO_TURN) {
      const before = this.#handoffs.get(sender)
      this.#handoffs.delete(sender)
      return before
    }
    if (turn !== 0) return this.ofTurn(sender, turn)
    return flagsOf(memory, at) & MANY ? this.#messages.get(messageKey(idOf(memory, at), NOBODY)) : undefined
  }

  ofTurn(agent: number, turn: number): Conversation | undefined {
    const key = turnKey(agent, turn)
    const known = this.#turns.get(key)
    if (known) return known
    const id = this.#messageOf(agent, turn)
    const conversation = id === undefined ? undefined : this.#messages.get(messageKey(id, agent))
    if (conversation) this.#turns.set(key, conversation)
    return conversation
  }

  /** Remembers the conversation of a message that is on its way to that recipient. */
  keep(id: string, recipient: number, conversation: Conversation | undefined): void {
    this.#messages.set(messageKey(id, recipient), conversation)
  }

  /** Sets the conversation of a turn that goes on because of an answer. */
  goesOn(agent: number, turn: number, conversation: Conversation): void {
    this.#turns.set(turnKey(agent, turn), conversation)
  }

  /** Forgets a turn that is over, and its message. */
  over(agent: number, turn: number, id: string): void {
    this.#turns.delete(turnKey(agent, turn))
    this.#messages.delete(messageKey(id, agent))
  }
}

const messageKey = (id: string, recipient: number) => `${id} ${recipient}`
const turnKey = (agent: number, turn: number) => `${agent} ${turn}`
