/** Words that people say to a run while it works (`run.steer`), and who has read them: a fold of its log. */

import type { Content } from '../../actors/definition/content.ts'
import type { LogEntry } from '../log/records.ts'

/** Words that were said to a run. */
export interface SteerWords {
  readonly id: string
  /** Epoch ms at which they stood in the log. */
  readonly at: number
  readonly text: string
  /** Text, or parts. */
  readonly content: Content
  /** Agent that they are for; null: all of the run. */
  readonly to: string | null
  /** Person who has said them; null: nobody is known. */
  readonly by: string | null
  /** Names of the model agents that have them in a prompt, and of agents with code that have observed them. */
  readonly readBy: Set<string>
}

/** Metadata of a message by which the speaker of a run is asked again: the number of answers that words superseded. */
export const STEERED = 'steered'

/** Words with which an agent is asked again when its turn had ended; those of the person follow. */
export const ANSWER_ANEW = 'Your answer was not given yet, since somebody has said something more. Answer anew.'

/** Answers of a run that words may supersede: with more of them somebody else decides when it ends. */
const MOST_SUPERSEDED = 20

export class Steering {
  /** In the order in which they were accepted. */
  readonly words = new Map<string, SteerWords>()
  /** Words that were unread when the run ended. */
  readonly unread = new Set<string>()
  /** Makers of calls with words in the prompt, and the ids of these words, by the id of the call. */
  readonly #calls = new Map<string, { agent: string; steerIds: string[] }>()
  #superseded = 0

  see(record: LogEntry): void {
    switch (record.kind) {
      case 'steer': {
        const { steerId: id, at, text, content = text, to, by } = record
        this.words.set(id, { id, at, text, content, to, by, readBy: new Set() })
        return
      }
      case 'steer.read': {
        const { steerId, agent, callId, superseded = 0 } = record
        this.words.get(steerId)?.readBy.add(agent)
        if (callId !== undefined) {
          const { steerIds = [] } = this.#calls.get(callId) ?? {}
          this.#calls.set(callId, { agent, steerIds: [...steerIds, steerId] })
        }
        this.#superseded = Math.max(this.#superseded, superseded)
        return
      }
      case 'steer.again':
        for (const { readBy } of this.ofCall(record.callId)) readBy.delete(record.agent)
        this.#calls.delete(record.callId)
        return
      case 'steer.unread':
        this.unread.add(record.steerId)
    }
  }

  /** Number of answers of the run that words have superseded. */
  get superseded(): number {
    return this.#superseded
  }

  /** Ids of the people who have said something. */
  get saidBy(): string[] {
    return [...new Set([...this.words.values()].flatMap(({ by }) => by ?? []))]
  }

  get maySupersede(): boolean {
    return this.#superseded < MOST_SUPERSEDED
  }

  /** Returns the words that are for that model agent, and that it has not read. */
  unreadBy(agent: string): SteerWords[] {
    return [...this.words.values()].filter(({ to, readBy }) => (to === null || to === agent) && !readBy.has(agent))
  }

  /** Calls with words in the prompt, as they are now. */
  get calls(): { callId: string; agent: string }[] {
    return [...this.#calls].map(([callId, { agent }]) => ({ callId, agent }))
  }

  /** Returns the words in the prompt of a call. */
  ofCall(callId: string): SteerWords[] {
    return (this.#calls.get(callId)?.steerIds ?? []).flatMap((id) => this.words.get(id) ?? [])
  }

  /** Returns what has become of words of a run that has ended here. */
  outcomeOf({ id, readBy }: SteerWords): 'read' | 'unread' {
    return this.unread.has(id) || readBy.size === 0 ? 'unread' : 'read'
  }

  /**
   * Returns the words that are unread at the end of the run: by whom they were for. `speaker`: the model agent that has
   * given the answer; null: a run without one, where any reader counts.
   */
  leftUnread(speaker: string | null): SteerWords[] {
    return [...this.words.values()].filter(({ to, readBy }) => {
      const reader = to ?? speaker
      return reader === null ? readBy.size === 0 : !readBy.has(reader)
    })
  }
}
