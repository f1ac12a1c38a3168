/**
 * Gives the turns of a play the answers that an old run had. A turn is paired with an old one by agent and message, and
 * within the turns each call by kind, name and input, each once. What has no partner of the same kind stands in for
 * one whose input has changed, so that a play goes on behind a changed prompt.
 */
import type { TypedMessage } from '../../../mailbox/message.ts'
import { type Asked, effectKey, type OldEffect, type OldTurn, type OldTurns } from './old-turns.ts'
import { keyOf } from './sameness.ts'

/** A call of a play, with the old one whose answer it got. */
export interface PlayedEffect extends Asked {
  effect: OldEffect | undefined
  /** True if both asked for the same. */
  readonly isSame: boolean
  /** True if the caller of the play has answered it, because the old run had not. */
  isAnswered: boolean
  /** True if the log ends before it: nobody knows whether the old run would have asked for it. */
  readonly isBehind: boolean
  /** Attempt of the turn that asked for it. */
  readonly attempt: number
}

/** A turn of a play, with the old one that it is paired with. */
export interface PlayedTurn {
  readonly agent: string
  readonly message: TypedMessage
  old: OldTurn | undefined
  /** True if both had the same message. */
  readonly isSame: boolean
  /** True if the log ends before it. */
  readonly isBehind: boolean
  readonly asked: PlayedEffect[]
  /** Number of attempts that have begun. */
  attempts: number
  /** Readings of the clock that were given. */
  readings: number
  /** True if its handler has come to an end, and nobody had aborted it. */
  hasEnded: boolean
}

export class Prompter {
  readonly #old: readonly OldTurn[]
  readonly #isCutOff: boolean
  readonly #byId = new Map<string, PlayedTurn>()
  /** The turn that has each old one now. */
  readonly #pairs = new Map<OldTurn, PlayedTurn>()

  constructor({ turns, isCutOff }: Pick<OldTurns, 'turns' | 'isCutOff'>) {
    this.#old = turns
    this.#isCutOff = isCutOff
  }

  /** Turns of the play, in the order of their beginnings. */
  get played(): PlayedTurn[] {
    return [...this.#byId.values()]
  }

  /** Old turns that no turn of the play is paired with. */
  get missing(): OldTurn[] {
    return this.#old.filter((turn) => !this.#pairs.has(turn))
  }

  /** Returns the turn of the play that is paired with an old one. */
  playedAs(old: OldTurn): PlayedTurn | undefined {
    return this.#pairs.get(old)
  }

  /** Returns the turn of an agent with that message. All attempts are one turn. */
  turnOf(agent: string, message: TypedMessage): PlayedTurn {
    const id = `${agent} ${message.id}`
    const known = this.#byId.get(id)
    if (known) return known
    const own = this.#old.filter((turn) => turn.agent === agent)
    const key = messageKey(message)
    const isFree = (turn: OldTurn) => this.#pairs.get(turn)?.isSame !== true
    const same = own.find((turn) => isFree(turn) && messageKey(turn.message) === key)
    const old = same ?? own.find((turn) => !this.#pairs.has(turn) && isAlike(turn.message, message))
    const isBehind = !old && this.#old.some((turn) => turn.agent === message.sender && this.#mayGoOn(turn))
    const isSame = same !== undefined
    const turn: PlayedTurn = {
      agent,
      message,
      old,
      isSame,
      isBehind,
      asked: [],
      attempts: 0,
      readings: 0,
      hasEnded: false,
    }
    this.#byId.set(id, turn)
    if (old) this.#pair(old, turn)
    return turn
  }

  /** An old turn that stood in for another one goes to the turn that has its message. */
  #pair(old: OldTurn, turn: PlayedTurn): void {
    const before = this.#pairs.get(old)
    if (before) before.old = undefined
    this.#pairs.set(old, turn)
  }

  /** Checks for a turn that the end of the log has cut off. */
  #mayGoOn({ isOpen }: OldTurn): boolean {
    return this.#isCutOff && isOpen
  }

  /**
   * Pairs what a turn asks for with what the old one has asked for. A turn that is tried again, where the old one was
   * not, gets the old failure again.
   */
  ask({ old, asked, attempts, isBehind }: PlayedTurn, { kind, name, input }: Asked): PlayedEffect {
    const key = effectKey(kind, name, input)
    const isAsked = { kind, name, input, isAnswered: false, attempt: attempts }
    const effects = old?.effects ?? []
    const holderOf = (effect: OldEffect) => asked.find((each) => each.effect === effect)
    const same = effects.find((each) => each.key === key && holderOf(each)?.isSame !== true)
    const failed = asked.find((each) => each.attempt < attempts && each.effect?.key === key && hasFailed(each.effect))
    if (!same && failed) {
      const again = { ...isAsked, effect: failed.effect, isSame: true, isBehind: false }
      asked.push(again)
      return again
    }
    const isAlike = (each: OldEffect) => each.kind === kind && (kind === 'model' || each.name === name)
    const effect = same ?? effects.find((each) => isAlike(each) && !holderOf(each))
    const before = effect && holderOf(effect)
    if (before) before.effect = undefined
    const ends = isBehind || (old !== undefined && this.#mayGoOn(old) && effects.every((each) => holderOf(each)))
    const played = { ...isAsked, effect, isSame: same !== undefined, isBehind: !effect && ends }
    asked.push(played)
    return played
  }
}

const hasFailed = ({ outcome }: OldEffect): boolean => outcome === undefined || 'error' in outcome

const messageKey = ({ type, sender, content, structuredData }: TypedMessage): string =>
  keyOf([type, sender, content, structuredData])

const isAlike = (one: TypedMessage, other: TypedMessage): boolean =>
  one.type === other.type && one.sender === other.sender
