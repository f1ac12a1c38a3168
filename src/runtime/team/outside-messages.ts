/** Messages of callers outside a run's script: each type has its routing. */
import { tooLarge } from '../../actors/definition/checks.ts'
import { asJson, messageParts, partsFault } from '../../actors/definition/content.ts'
import type { WriteOptions } from '../../blackboard/entry.ts'
import { answering, decodeMessage, errorOf, isFailure } from '../../mailbox/codec.ts'
import { type DeadLetter, remainsOf } from '../../mailbox/dead-letters.ts'
import { ASKS, copyId, END, idOf, MANY, type Memory, NOBODY, SEND, TO_ALL } from '../../mailbox/frame.ts'
import { type AgentMessage, type MessageInput, type MessageType, USER } from '../../mailbox/message.ts'
import { PARTS, withParts } from '../../mailbox/parts.ts'
import {
  DramatisError,
  MessageRejectedError,
  shown,
  TeamClosedError,
  UnknownAgentError,
  UnknownRunError,
} from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import { refusalInItsName } from '../host/delegation.ts'
import { USER_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { OwnFrame, Question } from '../log/host-frames.ts'
import type { ThreadStore } from '../runs/conversations.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'

/** Dead letters that callers send again or discard. */
export class Letters {
  readonly #supervisor: Supervisor
  readonly #runs: RunBook
  /** Ids of dead letters that were sent again and are not accepted yet. */
  readonly #underWay = new Set<string>()

  constructor(supervisor: Supervisor, runs: RunBook) {
    this.#supervisor = supervisor
    this.#runs = runs
  }

  discard(id: string): void {
    if (!this.#supervisor.journal.removeLetter(id)) throw unknown(id)
  }

  /** Resolves to the id of the new message's run when its recipient has accepted it; the letter stays until then. */
  async replay(id: string): Promise<string> {
    const letter = this.#supervisor.journal.deadLetters.get(id)
    if (!letter) throw unknown(id)
    const run = this.#runs.get(letter.message.runId)?.state
    const recipient = this.#recipientOf(letter, run)
    if (this.#underWay.has(id)) throw cannot(id, 'it is being sent again, and waits for room', 'Wait for that.')
    this.#underWay.add(id)
    try {
      return await this.#send(letter, recipient)
    } finally {
      this.#underWay.delete(id)
    }
  }

  #recipientOf({ id, message, reason, errors }: DeadLetter, run: RunState | undefined): Agent {
    const { type, recipient, metadata } = message
    if (type === 'response' || type === 'subscribe') throw cannot(id, `nobody takes a ${type} that comes by itself`, '')
    if (reason === 'rejected' && errors[0]?.code !== 'MAILBOX_FULL' && Array.isArray(metadata.omitted))
      throw cannot(id, `the list has not kept all of it (${metadata.omitted.join(', ')})`, 'Send the message anew.')
    if (typeof recipient !== 'string')
      throw cannot(id, 'it was for several agents and refused for all of them', 'Send the message anew.')
    const agent = this.#supervisor.directory.agent(recipient, run)
    if (run?.over && run.agents.has(recipient))
      throw cannot(id, `"${recipient}" went with its run`, 'Send the message to another agent.')
    if (agent?.removed)
      throw cannot(id, `"${recipient}" was removed from the team`, 'Add one of that name, or send it to another agent.')
    if (agent?.settings.isAgent) return agent
    throw cannot(id, `"${recipient}" is no agent of this team`, 'Send the message to another agent.')
  }

  #send(letter: DeadLetter, recipient: Agent): Promise<string> {
    const { directory, frames, journal } = this.#supervisor
    const { deadLetters } = journal
    const { message } = letter
    const known = this.#runs.get(message.runId)?.state
    const run = known && !known.over ? known : this.#runs.ownRun(message.threadId ?? undefined)
    const sender = directory.agent(message.sender, run) ?? directory.byIndex[USER_INDEX]!
    const parts = message.parts && messageParts(asJson(message.parts, this.#supervisor.parts.keeperFor(run)))
    const frame = frames.make({
      kind: SEND,
      type: message.type,
      flags: message.type === 'broadcast' || message.type === 'publish' ? ASKS | TO_ALL : ASKS,
      sender: sender.index,
      recipient: recipient.index,
      run: run.index,
      correlation: this.#supervisor.hostMessages.number(),
      content: message.content,
      ...(message.structuredData !== null && { data: JSON.stringify(message.structuredData) }),
      metadata: JSON.stringify(withParts({ ...message.metadata, replayOf: letter.id }, parts)),
      ...(message.threadId !== null && { threadId: message.threadId }),
      priority: message.priority,
    })
    const { maxMessageBytes } = recipient.settings.mailbox
    if (frame.bytes > maxMessageBytes) throw tooLarge(frame.bytes, maxMessageBytes)
    const messageId = idOf(frame.memory, 0)
    deadLetters.replayed.add(messageId)
    return new Promise<string>((resolve, reject) => {
      this.#supervisor.hostMessages.post(sender, run, frame, (error) => {
        if (error) return reject(error)
        deadLetters.replayed.delete(messageId) // before the message can become a dead letter again
        journal.removeLetter(letter.id)
        resolve(run.id)
      })
    }).finally(() => deadLetters.replayed.delete(messageId))
  }
}

const unknown = (id: string) =>
  new MessageRejectedError(
    `There is no dead letter ${shown(id)}: there was none, or it was sent again, discarded, or forgotten because the list was full.`,
    { path: 'id', got: id },
  )

const cannot = (id: string, why: string, advice: string) =>
  new MessageRejectedError(`The dead letter "${id}" cannot be sent again: ${why}.${advice && ` ${advice}`}`, {
    path: 'id',
    got: id,
  })

function targetsOf({ recipient }: MessageInput): string | readonly string[] {
  if (recipient === null)
    throw new MessageRejectedError('recipient: null means all, which only a broadcast can have; name an agent.', {
      path: 'recipient',
      got: null,
    })
  return recipient
}

function questionOf(message: MessageInput): Question {
  const data = jsonOf(message.structuredData)
  const { parts } = message
  const metadata = jsonOf(parts ? withParts(message.metadata, messageParts(asJson(parts))) : message.metadata)
  return {
    content: message.content,
    ...(data !== undefined && { data }),
    ...(message.type !== undefined && { type: message.type }),
    ...(metadata !== undefined && { metadata }),
    ...(message.threadId !== undefined && { threadId: message.threadId }),
    ...(message.priority !== undefined && { priority: message.priority }),
    ...(message.responseTimeoutMs !== undefined && { limit: Math.ceil(message.responseTimeoutMs) }),
  }
}

/**
 * Message fields without an effect, by message type. They are rejected, since they would otherwise be ignored silently.
 */
const UNUSED: Readonly<Partial<Record<MessageType, readonly (keyof MessageInput)[]>>> = {
  publish: ['recipient', 'priority', 'threadId', 'parts'],
  subscribe: ['recipient', 'structuredData', 'metadata', 'priority', 'threadId', 'parts'],
  response: ['metadata', 'priority', 'parts'],
}

/** @throws MessageRejectedError for a field without an effect. */
function checkUsed(message: MessageInput): void {
  const { type = 'request', requiresResponse } = message
  const unused = [...(UNUSED[type] ?? [])]
  if (type !== 'response') unused.push('correlationId')
  if (!requiresResponse) unused.push('responseTimeoutMs')
  const path = unused.find((field) => !isBlank(message[field]))
  if (path === undefined) return
  const why = path === 'responseTimeoutMs' ? 'a message that requires no response' : `a ${type}`
  throw new MessageRejectedError(`${path}: ${why} has no use for it. Leave it out.`, { path })
}

/** Checks for the values that the runtime itself uses for absent fields. */
const isBlank = (value: unknown) =>
  value === undefined || value === null || value === 0 || (typeof value === 'object' && Object.keys(value).length === 0)

const jsonOf = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value))

/** The schema is loaded with the first message from outside, since most teams start without one. */
async function parsed(input: unknown): Promise<MessageInput> {
  const { parseMessage } = await import('../../mailbox/parse-message.ts')
  const message = parseMessage(input)
  const { parts, metadata } = message
  const fault = parts && partsFault(parts, 'parts')
  if (fault)
    throw new MessageRejectedError(
      `The message was refused: ${fault.path}: got ${shown(fault.value)}; ${fault.needed}.`,
      { path: fault.path },
    )
  if (metadata && PARTS in metadata)
    throw new MessageRejectedError(
      `The message was refused: metadata.${PARTS}: that name is the runtime's own; give parts as parts.`,
      { path: `metadata.${PARTS}` },
    )
  return message
}

/** Address fields of a frame, which carries a message to one of its recipients. */
interface Address {
  flags: number
  names?: string | undefined
  /** Logged message that this frame is a copy of. */
  original?: Memory | undefined
}

export class Posting {
  readonly #supervisor: Supervisor
  readonly #runs: RunBook
  /** Errors whose message is a dead letter already, or was answered with the error. */
  readonly #buried = new WeakSet<DramatisError>()

  constructor(supervisor: Supervisor, runs: RunBook) {
    this.#supervisor = supervisor
    this.#runs = runs
  }

  /** Resolves with the response where one is required, else with null when the message is accepted. */
  async send(input: unknown): Promise<AgentMessage | null> {
    try {
      const message = await parsed(input)
      checkUsed(message)
      return await this.#send(message)
    } catch (error) {
      throw this.#kept(error, input)
    }
  }

  async broadcast(content: string, sender: string): Promise<RunState> {
    const input = { type: 'broadcast', sender, recipient: null, content } as const
    try {
      const message = await parsed(input)
      return await this.#toEach(message, this.#senderOf(message), null)
    } catch (error) {
      throw this.#kept(error, input)
    }
  }

  async #send(message: MessageInput): Promise<AgentMessage | null> {
    const sender = this.#senderOf(message)
    const { type = 'request', recipient } = message
    if (message.requiresResponse || type === 'delegate') return this.#request(message, sender)
    if (type === 'request') await this.#toEach(message, sender, targetsOf(message))
    else if (type === 'report') await this.#toEach(message, sender, this.#managerOf(message, sender))
    else if (type === 'broadcast') await this.#toEach(message, sender, recipient === null ? null : targetsOf(message))
    else if (type === 'publish') await this.#publish(message, sender)
    else if (type === 'subscribe') this.#subscribe(message, sender)
    else this.#respond(message, sender)
    return null
  }

  /**
   * Puts the message into that agent's mailbox, whatever recipients it names. A response or a subscription is routed by
   * its type instead.
   */
  async deliver(agent: Agent, input: unknown): Promise<void> {
    try {
      await this.#deliver(agent, await parsed(input))
    } catch (error) {
      throw this.#kept(error, input, agent.name)
    }
  }

  async #deliver(agent: Agent, message: MessageInput): Promise<void> {
    const { type } = message
    if (type === 'response' || type === 'subscribe') await this.#send({ ...message, requiresResponse: false })
    else if (type === 'delegate')
      await this.#request({ ...message, recipient: agent.name, requiresResponse: false }, this.#senderOf(message))
    else {
      const run = this.#runOf(message)
      if (this.#runs.conversations) await this.#loadConversations(this.#runs.conversations, run)
      await this.#one(message, run, agent.name, { flags: type === 'broadcast' ? TO_ALL : 0 })
    }
  }

  /** The refused message becomes a dead letter if it had a recipient and is not a dead letter yet. */
  #kept(error: unknown, input: unknown, to?: string): unknown {
    if (!(error instanceof DramatisError) || error instanceof TeamClosedError || this.#buried.has(error)) return error
    this.#buried.add(error)
    const remains = remainsOf(input, to)
    if (remains) this.#supervisor.journal.refused(undefined, remains, error)
    return error
  }

  /** Marks an error that the runtime has answered with, so that `#kept` makes no dead letter of its message. */
  #heard(error: DramatisError): DramatisError {
    this.#buried.add(error)
    return error
  }

  #runOf({ runId, threadId }: MessageInput): RunState {
    if (runId === undefined || runId === '') return this.#runs.ownRun(threadId)
    const run = this.#runs.get(runId)?.state
    if (run && !run.over) return run
    throw new UnknownRunError(
      `No run ${shown(runId)} is under way in this team. Leave runId out, or give that of a run that has not ended.`,
      { runId },
    )
  }

  #stored(message: MessageInput, run: RunState): MessageInput {
    const { parts } = message
    if (!parts) return message
    return { ...message, parts: messageParts(asJson(parts, this.#supervisor.parts.keeperFor(run))) }
  }

  /** Loads the conversations of the thread of a message, if several processes share them. */
  async #loadConversations(conversations: ThreadStore, run: RunState): Promise<void> {
    run.open += 1 // until the message is sent nothing else keeps the run
    try {
      await conversations.load(run)
    } finally {
      run.messageEnded()
    }
  }

  /**
   * Sends a message to its recipients; null means all agents but the sender. A message to several is logged once as it
   * was sent, then each recipient gets a copy. Resolves with its run when all have accepted it.
   */
  async #toEach(given: MessageInput, sender: Agent, recipients: string | readonly string[] | null): Promise<RunState> {
    const run = this.#runOf(given)
    if (this.#runs.conversations) await this.#loadConversations(this.#runs.conversations, run)
    const message = this.#stored(given, run)
    if (typeof recipients === 'string') {
      await this.#one(message, run, recipients)
      return run
    }
    const to: Address = recipients ? { flags: MANY, names: JSON.stringify(recipients) } : { flags: MANY | TO_ALL }
    const { memory, bytes } = this.#frame(message, run, sender, NOBODY, to.names, to.flags, 0)
    const { maxMessageBytes } = this.#supervisor.directory.byIndex[USER_INDEX]!.settings.mailbox
    if (bytes > maxMessageBytes) throw tooLarge(bytes, maxMessageBytes)
    this.#supervisor.journal.appendOwned(run, memory, bytes)
    const all = recipients
      ? [...new Set(recipients)]
      : this.#supervisor.hostMessages.everybodyBut(sender, run).map(({ name }) => name)
    await Promise.all(all.map((recipient) => this.#one(message, run, recipient, { ...to, original: memory })))
    return run
  }

  /** Resolves with the response where the message requires one, else with null when it is accepted. */
  async #request(message: MessageInput, sender: Agent): Promise<AgentMessage | null> {
    const { type = 'request' } = message
    if (type !== 'request' && type !== 'delegate')
      throw new MessageRejectedError(
        `requiresResponse: nobody answers a ${type}; only a request or a delegate requires a response.`,
        { path: 'requiresResponse', got: true },
      )
    const recipients = [targetsOf(message)].flat()
    const [recipient] = recipients
    if (recipient === undefined || recipients.length > 1)
      throw new MessageRejectedError(
        `A ${type === 'delegate' ? 'task' : 'message that requires a response'} has one recipient; this one has ${recipients.length}. Send one to each.`,
        { path: 'recipient', got: recipients },
      )
    const run = this.#runOf(message)
    if (this.#runs.conversations) await this.#loadConversations(this.#runs.conversations, run)
    const target = this.#supervisor.directory.find(recipient, run) ?? this.#supervisor.directory.byIndex[USER_INDEX]!
    return new Promise((resolve, reject) => {
      const settle = (memory: Memory, at: number) => {
        const { redactor } = this.#supervisor
        if (isFailure(memory, at)) reject(redactor.data(this.#heard(errorOf(memory, at))))
        else resolve(redactor.data(decodeMessage(memory, at, this.#supervisor.names)))
      }
      if (target.index === USER_INDEX) return void this.#one(message, run, recipient).catch(reject)
      const question = questionOf(this.#stored(message, run))
      const open = this.#supervisor.hostMessages.ask({ target, run, question, settle, sender })
      if (!open || message.requiresResponse) return
      resolve(null)
      this.#supervisor.journal.tell() // it is a task from now on
    })
  }

  /** Sends one message to one agent, without a caller that waits for an answer. Resolves when it is accepted. */
  async #one(given: MessageInput, run: RunState, recipient: string, to: Address = { flags: 0 }): Promise<void> {
    const message = this.#stored(given, run)
    const sender = this.#senderOf(message)
    const target = this.#supervisor.directory.agent(recipient, run)
    const correlation = this.#supervisor.hostMessages.number()
    const name = target ? to.names : recipient
    const frame = this.#frame(message, run, sender, target?.index ?? NOBODY, name, to.flags | ASKS, correlation)
    const { maxMessageBytes } = (target ?? sender).settings.mailbox
    if (frame.bytes > maxMessageBytes) {
      const error = tooLarge(frame.bytes, maxMessageBytes)
      throw this.#kept(error, { ...message, recipient })
    }
    if (to.original) copyId(to.original, 0, frame.memory, 0)
    return new Promise((resolve, reject) => {
      this.#supervisor.hostMessages.post(sender, run, frame, (error) =>
        error ? reject(this.#heard(error)) : resolve(),
      )
    })
  }

  #frame(
    message: MessageInput,
    run: RunState,
    sender: Agent,
    recipient: number,
    name: string | undefined,
    flags: number,
    correlation: number,
  ): OwnFrame {
    return this.#supervisor.frames.make({
      kind: SEND,
      sender: sender.index,
      recipient,
      ...(name !== undefined && { name }),
      run: run.index,
      correlation,
      ...questionOf(message),
      flags,
    })
  }

  /**
   * Writes to the blackboard. Content is the key, structured data the value, metadata.entryType the type; the rest of
   * metadata are options of a write.
   */
  async #publish(message: MessageInput, sender: Agent): Promise<void> {
    const refusal = refusalInItsName(sender, 'blackboard.write')
    if (refusal) throw refusal
    const { entryType = 'fact', ...options } = (message.metadata ?? {}) as WriteOptions & { entryType?: string }
    const entry = { key: message.content, value: message.structuredData ?? null, entryType, options }
    await this.#supervisor.boards.publish(sender, this.#runOf(message), entry)
  }

  #subscribe(message: MessageInput, sender: Agent): void {
    if (sender.index === USER_INDEX)
      throw new MessageRejectedError(
        "A subscription is an agent's: name it as the sender. Host code uses getBlackboard().subscribe(pattern, callback).",
        { path: 'sender', got: sender.name },
      )
    if (!message.runId)
      throw new MessageRejectedError('A subscription lives as long as its run: give the runId of one under way.', {
        path: 'runId',
        got: message.runId ?? null,
      })
    const refusal = refusalInItsName(sender, 'subscribe')
    if (refusal) throw refusal
    const run = this.#runOf(message)
    this.#supervisor.boards.subscribe(sender, run, message.content)
    this.#supervisor.journal.keep(run, { kind: 'subscribed', index: sender.index, pattern: message.content })
  }

  #managerOf(message: MessageInput, sender: Agent): string | readonly string[] {
    if (message.recipient !== null) return targetsOf(message)
    const manager = sender.settings.info.escalateTo
    if (manager) return manager
    throw new MessageRejectedError(
      "A report without a recipient goes to the sender's manager (escalateTo); this sender has none.",
      { path: 'recipient', got: null },
    )
  }

  #respond(message: MessageInput, sender: Agent): void {
    const request =
      message.correlationId === undefined ? undefined : this.#supervisor.requests.withId(message.correlationId)
    // A message that comes too late is a dead letter of its run, even if that run is over.
    const run = request?.run ?? this.#runs.get(message.runId ?? '')?.state ?? this.#runs.ownRun(message.threadId)
    const frame = this.#supervisor.frames.make({
      kind: END,
      type: 'response',
      sender: sender.index,
      recipient: request?.caller.index ?? 0,
      run: run.index,
      turn: request?.turn ?? 0,
      correlation: request?.correlation ?? 1,
      content: message.content,
      ...(message.structuredData !== undefined && { data: JSON.stringify(message.structuredData) }),
      ...(request && answering(request.envelope.memory, request.envelope.at)),
    })
    if (!request) {
      const error = new MessageRejectedError(
        `No request waits for this response (correlationId ${message.correlationId ?? 'is missing'}): there was none, or it has been answered.`,
        { path: 'correlationId', got: message.correlationId ?? null },
      )
      this.#supervisor.journal.deadLetter(run, frame.memory, 0, 'late', [error])
      throw this.#heard(error)
    }
    copyId(request.envelope.memory, request.envelope.at, frame.memory, 0)
    this.#supervisor.cancellation.answerInstead(request, frame)
  }

  #senderOf({ sender: name = USER, runId = '' }: MessageInput): Agent {
    const agent = this.#supervisor.directory.agent(name, this.#runs.get(runId)?.state)
    if (agent && !agent.removed && (agent.settings.isAgent || name === USER)) return agent
    throw new UnknownAgentError(`sender: no agent of this team is named ${shown(name)}.`, {
      path: 'sender',
      agent: name,
    })
  }
}
