/** Differences between an old run and a play of it with the code of today, as data and in words. */

import { type TypedMessage, USER } from '../../mailbox/message.ts'
import type { ErrorData } from '../../shared/errors.ts'
import type { RecordedStatus } from '../views/recorded-runs.ts'
import {
  type Asked,
  type AskedKind,
  type Difference,
  differenceOf,
  effectKey,
  keyOf,
  type OldEffect,
  type OldTurn,
  type OldTurns,
} from './old-turns.ts'

/**
 * A difference between an old run and a play of it.
 *
 * `kind`: a call of a model or tool, a question to a person, a step; a message to an agent; an agent's answer; an agent
 * that the team does not have; the result of the run; or input and output outside of a step, which is refused.
 */
export interface RunMismatch {
  kind: AskedKind | 'message' | 'answer' | 'agent' | 'result' | 'outside'
  /** 'new': the old run did not have it; 'missing': only the old run had it; 'changed': both had it, and it differs. */
  how: 'new' | 'missing' | 'changed'
  /** Agent that it is about; '' for none. */
  agent: string
  /** Name of the step, tool or model; for a message and an answer, who is at the other end; else ''. */
  name: string
  /** Description for people. */
  sentence: string
  /** Place of a change, like `messages[1].content`. */
  path?: string
  /** Value of the old run, there or as a whole. */
  before?: unknown
  /** Value of the play. */
  now?: unknown
}

/** Outcome of a run, old or new. */
export interface RunOutcome {
  status: RecordedStatus
  error: Essence | null
  readonly responses: readonly TypedMessage[]
}

interface Compared {
  readonly prompter: Prompter
  readonly before: RunOutcome
  readonly now: RunOutcome
  readonly agents: ReadonlySet<string>
  readonly refused: Iterable<string>
}

/** Returns the differences: what the agents did first, then what they answered, then what is missing. */
export function mismatchesOf({ prompter, before, now, agents, refused }: Compared): RunMismatch[] {
  const { played } = prompter
  const found = played.flatMap((turn) => [...inTurn(turn)])
  for (const text of refused) found.push({ kind: 'outside', how: 'new', agent: '', name: '', sentence: text })
  for (const response of now.responses) {
    const turn = played.find(({ agent, message }) => answers(response, agent, message))
    const then = turn?.old && before.responses.findLast((each) => answers(each, turn.agent, turn.old!.message))
    if (turn?.hasEnded && then && !isCutOff(before, then))
      found.push(...inAnswer(turn, essenceOf(then), essenceOf(response)))
  }
  found.push(...missingTurns(prompter, agents))
  if (!found.some(({ kind }) => kind === 'result')) found.push(...inOutcome(before, now))
  return found
}

function* inTurn(turn: PlayedTurn): Generator<RunMismatch> {
  const { agent, message, old, isSame, isBehind, asked } = turn
  const { sender, type } = message
  const about = { kind: 'message', agent, name: sender } as const
  if (!old) {
    if (isBehind) return
    const sentence = `${agent} gets a ${type} of ${sender} that the old run did not have: ${shown(message.content)}`
    yield { ...about, how: 'new', sentence }
  } else if (!isSame) {
    const difference = differenceOf(partsOf(old.message), partsOf(message))
    if (difference) yield changed(about, `the ${type} of ${sender} to ${agent}`, difference)
  }
  for (const { kind, name, input, effect, isSame, isBehind } of asked) {
    const what = wordsOf(kind, name)
    if (isBehind) continue
    if (!effect) {
      const sentence = `${agent} ${what.does}, which the old run did not do there`
      yield { kind, how: 'new', agent, name, sentence, ...(kind !== 'step' && { now: input }) }
    } else if (!isSame) {
      const difference = differenceOf(effect.input, input)
      if (difference) yield changed({ kind, agent, name }, `what ${agent} gives ${what.it}`, difference)
    }
  }
  if (isStopped(turn)) return
  const has = new Set(asked.map(({ effect }) => effect))
  for (const effect of old?.effects ?? [])
    if (!has.has(effect) && isOwed(old!, effect, has)) {
      const { kind, name } = effect
      const sentence = `${agent} no longer ${wordsOf(kind, name).does}`
      yield { kind, how: 'missing', agent, name, sentence, ...(kind !== 'step' && { before: effect.input }) }
    }
}

/** Checks for a turn that could not go on: it lacks an answer, or its run ended before it. */
const isStopped = ({ asked, hasEnded }: PlayedTurn): boolean =>
  !hasEnded || asked.some(({ effect, isAnswered }) => !effect && !isAnswered)

/** Checks whether a play has to ask for that again. A turn that was tried again had asked for some things twice. */
function isOwed({ attempts, isWithin }: OldTurn, effect: OldEffect, has: ReadonlySet<OldEffect | undefined>): boolean {
  if (isWithin || effect.isWithin) return false
  return attempts === 1 || ![...has].some((each) => each?.key === effect.key)
}

function inAnswer({ agent, message }: PlayedTurn, before: Answer, now: Answer): RunMismatch[] {
  const difference = differenceOf(before, now)
  if (!difference) return []
  const isResult = message.sender === USER
  const about = { kind: isResult ? 'result' : 'answer', agent, name: message.sender } as const
  const what = isResult ? 'the result of the run' : `the answer of ${agent} to ${message.sender}`
  if ('error' in before === 'error' in now) return [changed(about, what, difference)]
  const sentence = `${what} has changed: it was ${inWords(before)}, and is ${inWords(now)}`
  return [{ ...about, how: 'changed', sentence, path: '', before, now }]
}

const inWords = (answer: Answer): string =>
  'error' in answer ? `the error ${answer.error.code}` : shown(answer.content)

/** Yields the messages that nobody sends any more, without those that follow from other differences. */
function* missingTurns(prompter: Prompter, agents: ReadonlySet<string>): Generator<RunMismatch> {
  const gone = new Set<string>()
  for (const { agent, message, isWithin, parent } of prompter.missing) {
    if (isWithin) continue
    if (!agents.has(agent)) {
      if (gone.has(agent)) continue
      gone.add(agent)
      const sentence = `the team has no agent ${agent}, which had messages in the old run`
      yield { kind: 'agent', how: 'missing', agent, name: '', sentence }
      continue
    }
    const sending = parent && prompter.playedAs(parent)
    if (parent && (!sending || isStopped(sending))) continue
    const { sender, type, content } = message
    const sentence = `${agent} no longer gets a ${type} of ${sender}: ${shown(content)}`
    yield { kind: 'message', how: 'missing', agent, name: sender, sentence }
  }
}

/** Compares how the runs ended. A run that a log has no end of has no result to compare. */
function inOutcome(before: RunOutcome, now: RunOutcome): RunMismatch[] {
  if (before.status === 'unfinished') return []
  const difference = differenceOf(endOf(before), endOf(now))
  return difference ? [changed({ kind: 'result', agent: '', name: '' }, 'the end of the run', difference)] : []
}

const endOf = ({ status, error }: RunOutcome): object => ({ status, ...(error && { error: essence(error) }) })

type Answer = { content: string; data: unknown } | { error: Essence }

const answers = ({ correlationId, sender }: TypedMessage, agent: string, message: TypedMessage): boolean =>
  correlationId === message.id && sender === agent

/** Checks for the answer of a turn that ended because its run did. */
function isCutOff({ error }: RunOutcome, { recipient, metadata }: TypedMessage): boolean {
  const { error: own } = metadata as { error?: ErrorData }
  return error !== null && own !== undefined && recipient !== USER && keyOf(essence(error)) === keyOf(essence(own))
}

function essenceOf(response: TypedMessage): Answer {
  const { error } = response.metadata as { error?: ErrorData }
  return error ? { error: essence(error) } : partsOf(response)
}

type Essence = Pick<ErrorData, 'code' | 'message'>

const essence = ({ code, message }: Essence): Essence => ({ code, message })

const partsOf = ({ content, structuredData: data }: TypedMessage) => ({ content, data })

function wordsOf(kind: AskedKind, name: string): { does: string; it: string } {
  switch (kind) {
    case 'model':
      return { does: `asks the model ${shown(name)}`, it: `the model ${shown(name)}` }
    case 'tool':
      return { does: `uses the tool ${shown(name)}`, it: `the tool ${shown(name)}` }
    case 'question':
      return { does: 'asks a person', it: 'a person' }
    case 'step':
      return { does: `does the step ${shown(name)}`, it: `the step ${shown(name)}` }
  }
}

function changed(
  about: Pick<RunMismatch, 'kind' | 'agent' | 'name'>,
  what: string,
  { path, before, now }: Difference,
): RunMismatch {
  const [was, is] = excerptsOf(before, now)
  const sentence = `${what} has changed${path === '' ? '' : ` in ${path}`}: it was ${was}, and is ${is}`
  return { ...about, how: 'changed', sentence, path, before, now }
}

const LONGEST = 120
const BEFORE_DIFFERENCE = 40

/** Returns both values in words. Of long texts the part around the first difference. */
export function excerptsOf(before: unknown, now: unknown): [string, string] {
  if (typeof before !== 'string' || typeof now !== 'string') return [shown(before), shown(now)]
  let same = 0
  while (same < before.length && before[same] === now[same]) same += 1
  const from = Math.max(0, same - BEFORE_DIFFERENCE)
  const isShort = Math.max(before.length, now.length) <= LONGEST
  const excerpt = (text: string) => (isShort || from === 0 ? shown(text) : `…${shown(text.slice(from))}`)
  return [excerpt(before), excerpt(now)]
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value) ?? String(value)
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text
}

/*
 * Gives the turns of a play the answers that an old run had. A turn is paired with an old one by agent and message, and
 * within the turns each call by kind, name and input, each once. What has no partner of the same kind stands in for
 * one whose input has changed, so that a play goes on behind a changed prompt.
 */

export interface PlayedEffect extends Asked {
  effect: OldEffect | undefined
  /** True if both asked for the same. */
  readonly isSame: boolean
  /** True if the caller of the play has answered it, because the old run had not. */
  isAnswered: boolean
  /** True if the log ends before it: nobody knows whether the old run would have asked for it. */
  readonly isBehind: boolean
  readonly attempt: number
}

export interface PlayedTurn {
  readonly agent: string
  readonly message: TypedMessage
  old: OldTurn | undefined
  /** True if both had the same message. */
  readonly isSame: boolean
  /** True if the log ends before it. */
  readonly isBehind: boolean
  readonly asked: PlayedEffect[]
  attempts: number
  readings: number
  /** True if its handler has come to an end, and nobody had aborted it. */
  hasEnded: boolean
}

export class Prompter {
  readonly #old: readonly OldTurn[]
  readonly #isCutOff: boolean
  readonly #byId = new Map<string, PlayedTurn>()
  readonly #pairs = new Map<OldTurn, PlayedTurn>()

  constructor({ turns, isCutOff }: Pick<OldTurns, 'turns' | 'isCutOff'>) {
    this.#old = turns
    this.#isCutOff = isCutOff
  }

  get played(): PlayedTurn[] {
    return [...this.#byId.values()]
  }

  get missing(): OldTurn[] {
    return this.#old.filter((turn) => !this.#pairs.has(turn))
  }

  playedAs(old: OldTurn): PlayedTurn | undefined {
    return this.#pairs.get(old)
  }

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
