/** Fills the frame of a message from the arguments of a verb. */
import { MessageRejectedError } from '../../errors.ts'
import { type FrameFields, NOBODY, policyAttempt, REQUEST, SEND, wallClockLimit } from '../../mailbox/frame.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { type MessagePart, withParts } from '../../mailbox/parts.ts'
import {
  checkContent,
  checkName,
  checkRequestOptions,
  checkSendOptions,
  durationOf,
  encodeData,
  priorityOf,
} from '../definition/checks.ts'
import { asJson, messageParts } from '../definition/content.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { Outbox } from '../transport/outbox.ts'
import { uploadsFor } from '../transport/part-uploads.ts'
import type { RunView } from '../transport/run-views.ts'
import type { TurnStart } from './turn-start.ts'

export const NO_OPTIONS: RequestOptions = Object.freeze({})

export interface FrameNeeds {
  readonly outbox: Outbox
  readonly role: Pick<RoleInfo, 'name'>
  /** Number of messages that a turn may send. */
  readonly messagesPerTurn: number
  /** Returns the agent's index in frames of that run; undefined if this thread does not know the agent. */
  indexOf(name: string, run: RunView): number | undefined
}

/** The parts of the sending turn that are needed here. */
export interface SayingTurn {
  readonly start: TurnStart
  nextStep(): number
  /** Counts a message that the turn is about to send, and returns the number of all. */
  countMessage(): number
  /** Returns the frame's encoding of a wait that the signal may end. */
  waitingFor(signal: AbortSignal | undefined): number
}

/** Fills the frame of a message; returns its size in bytes. */
export function fillMessage(
  needs: FrameNeeds,
  turn: SayingTurn,
  kind: number,
  correlation: number,
  to: string,
  content: string,
  options: RequestOptions,
): number {
  if (typeof to !== 'string' || to === '') checkName(to, 'to')
  const fields = beginMessage(needs, turn, kind, content, options)
  const index = needs.indexOf(to, turn.start.view)
  fields.recipient = index ?? NOBODY
  if (index === undefined) fields.name = to
  fields.correlation = correlation
  return needs.outbox.checkedSize()
}

/** Fills the frame of a message except for its recipient. */
export function beginMessage(
  needs: FrameNeeds,
  from: SayingTurn,
  kind: number,
  content: string,
  options: RequestOptions,
): FrameFields {
  if (typeof content !== 'string') checkContent(content)
  if (options !== NO_OPTIONS) checkRequestOptions(options)
  if (kind === SEND) checkSendOptions(options)
  if (from.countMessage() > needs.messagesPerTurn) throw tooMany(needs)
  const { outbox } = needs
  const { run, turn } = from.start
  const { structuredData } = options
  const data = structuredData === undefined ? undefined : encodeData(structuredData, 'structuredData')
  const isScript = from.start.message?.recipient === ORCHESTRATOR
  const given = options.parts ?? (isScript ? partsOfQuery(from.start, content) : undefined)
  const parts = given && messageParts(asJson(given, uploadsFor(outbox, from.start.view)))
  const fields = outbox.begin(kind, run, turn, from.nextStep(), content, data)
  if (options !== NO_OPTIONS) {
    const metadata = parts ? withParts(options.metadata, parts) : options.metadata
    if (metadata !== undefined) fields.metadata = encodeData(metadata, 'metadata')
    fields.threadId = options.threadId
    fields.limit = limitOf(options)
    fields.priority = priorityOf(options.priority)
    fields.waiting = from.waitingFor(options.signal)
    fields.polling = options.polling === true
    if (kind === REQUEST) fields.attempt = policyAttempt(options.retries, options.idempotent === true)
  } else if (parts) fields.metadata = encodeData(withParts(undefined, parts), 'metadata')
  return fields
}

function tooMany({ role: { name: agent }, messagesPerTurn: limit }: FrameNeeds): MessageRejectedError {
  const path = 'limits.messagesPerTurn'
  const text = `Agent "${agent}" has sent ${limit} messages in this turn, as many as it may (${path}), so this one is refused. Answer, or raise the limit.`
  return new MessageRejectedError(text, { path, agent, limit })
}

function limitOf({ timeoutMs, wallClock }: RequestOptions): number {
  if (timeoutMs === undefined) return -1
  const ms = durationOf(timeoutMs, 'timeoutMs')
  return wallClock ? wallClockLimit(ms) : ms
}

/** Returns the parts of the query, if the script asks with its words. */
function partsOfQuery({ message }: TurnStart, content: string): readonly MessagePart[] | undefined {
  if (message?.recipient !== ORCHESTRATOR) return undefined
  const { parts } = message
  return parts && content.includes(message.content) ? parts : undefined
}
