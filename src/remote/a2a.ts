/**
 * Agents elsewhere by A2A 1.0. A prompt is a message, and what comes of it a task there, which outlives connections and
 * this process: whoever knows its id goes on with it. Source: a2a-protocol.org, version 1.0.
 */
import { v5 } from 'uuid'
import type { ModelPiece } from '../actors/definition/model.ts'
import type { A2aAgent } from '../actors/definition/role-config.ts'
import { systemClock } from '../shared/clock.ts'
import { type AgentFailedError, DeadlockError, OutcomeUnknownError } from '../shared/errors.ts'
import { digestOf } from '../shared/random.ts'
import { visible } from '../shared/text.ts'
import { A2aLine, AwayError, cut, type Fields, fieldsOf, LostError, listIn, RefusedError, textIn } from './a2a-line.ts'
import { PATH, placeOf, type RemotePeer, type RemotePrompt } from './role.ts'

/** Extension of agents that begin a message once, however often it is sent with its id. */
const ONCE = 'urn:dramatis:once'
/** Namespace of the ids of messages. */
const MESSAGES = '5b1c7d0e-8a44-4c57-9b53-2f6a51c0e7d9'
const POLL_MS = 1_000
const MOST_ROUNDS = 100
const NO_TASK = -32_001
/** Codes of reasons for which nobody goes on with a prompt later. */
const ENDS = new Set(['CANCELLED', 'TOOL_TIMEOUT', 'RUN_ABORTED', 'RUN_TIMEOUT', 'TURN_TIMEOUT'])

const stateOf = (status: Fields): string => textIn(status.state).replace('TASK_STATE_', '')
const SETTLED = new Set(['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED', 'INPUT_REQUIRED', 'AUTH_REQUIRED'])

export class A2aPeer implements RemotePeer {
  readonly #agent: string
  readonly #options: A2aAgent
  readonly #who: string
  readonly #line: A2aLine

  constructor(agent: string, options: A2aAgent | string) {
    this.#agent = agent
    this.#options = typeof options === 'string' ? { url: options } : { ...options }
    this.#who = `The agent behind "${agent}" (${visible(placeOf({ a2a: options }))})`
    this.#line = new A2aLine(this.#who, this.#options)
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {}

  async *prompt(prompt: RemotePrompt): AsyncGenerator<ModelPiece> {
    const { signal } = prompt
    const held = heldIn(prompt.held)
    const task = new Task(prompt, held, (what, cause) => this.#line.failed(what, cause))
    const { timeoutMs = 600_000, idempotent = false } = this.#options
    let contact = systemClock.monotonic()
    let tries = 0
    let rounds = 0
    /** Message that is to be sent; undefined: the task is followed. */
    let message: object | undefined = task.id === undefined ? messageOf(prompt, { text: prompt.text }) : undefined
    /** Question that was answered last. */
    let answered = ''
    try {
      for (;;) {
        try {
          const { streams, extensions } = await this.#line.card(signal)
          const isOnce = idempotent || extensions.includes(ONCE)
          if (task.id === undefined) await prompt.note({ sent: true }, { mayHaveRun: !isOnce })
          signal.throwIfAborted()
          const events = message ? this.#said(message, streams, signal) : this.#followed(task.id!, streams, signal)
          let isHeard = false
          for await (const event of events) {
            contact = systemClock.monotonic()
            tries = 0
            isHeard = true
            yield* await task.take(event)
            if (task.isSettled) break
          }
          if (!isHeard && task.id === undefined) throw new LostError('its answer ended before it began')
          if (task.id === undefined && !task.isSettled) throw this.#line.failed('answers with neither a task nor words')
          message = undefined
          if (!task.isSettled) yield* await task.take({ task: await this.#now(task.id!, signal) })
        } catch (error) {
          if (signal.aborted) throw error
          const isKnown = task.id !== undefined
          if (error instanceof RefusedError) {
            if (error.code === NO_TASK && isKnown) throw this.#unknown('does not know its task any more', error)
            if (!isKnown) throw this.#refused(error)
            // The task may be over, or somebody else may have answered: then it says so.
            const now = await this.#now(task.id!, signal).catch(() => {
              throw this.#refused(error)
            })
            yield* await task.take({ task: now })
            if (message && task.key === answered) throw this.#refused(error)
            message = undefined
            if (!task.isSettled) await this.#line.pause(tries++, POLL_MS, signal) // it cannot be followed: it is polled
          } else if (error instanceof AwayError || error instanceof LostError) {
            const { extensions = [] } = (await this.#line.card(signal).catch(() => undefined)) ?? {}
            const isOnce = idempotent || extensions.includes(ONCE)
            if (error instanceof LostError && !isKnown && !isOnce) throw this.#unknown(error.message, error)
            if (isKnown) message = undefined // it says whether it has the answer
            if (systemClock.monotonic() - contact > timeoutMs)
              throw isKnown || error instanceof LostError
                ? this.#unknown(`is away for ${timeoutMs} ms (timeoutMs): ${error.message}`, error)
                : this.#line.failed(`cannot be reached: ${error.message}`, error)
            await this.#line.pause(tries++, error instanceof AwayError ? error.afterMs : 0, signal)
          } else throw error
        }
        if (task.isOver) return yield* task.end()
        if (task.isSettled) {
          rounds += 1
          if (rounds > MOST_ROUNDS) throw this.#line.failed(`asks more than ${MOST_ROUNDS} times`)
          if (answered === task.key) await this.#line.pause(tries++, POLL_MS, signal) // it still shows what is answered
          const parts = await task.answers(this.#who)
          answered = task.key
          contact = systemClock.monotonic()
          message = parts && messageOf(prompt, { parts, key: answered, taskId: task.id!, contextId: task.contextId })
          if (!parts) await this.#line.pause(tries++, POLL_MS, signal)
        } else if (task.id !== undefined && tries === 0) await this.#line.pause(0, POLL_MS, signal)
        task.isSettled = false
      }
    } catch (error) {
      const isWanted = signal.aborted && !ENDS.has(String(fieldsOf(signal.reason).code))
      if (task.id !== undefined && !task.isOver && !isWanted && !(error instanceof OutcomeUnknownError))
        void this.#line.call('CancelTask', { id: task.id }, AbortSignal.timeout(5_000)).catch(() => {})
      throw error
    }
  }

  #said(message: object, streams: boolean, signal: AbortSignal): AsyncIterable<Fields> {
    if (streams) return this.#line.stream('SendStreamingMessage', { message }, signal)
    return one(this.#line.call('SendMessage', { message, configuration: { returnImmediately: true } }, signal))
  }

  async *#followed(id: string, streams: boolean, signal: AbortSignal): AsyncGenerator<Fields> {
    const now = await this.#now(id, signal)
    yield { task: now }
    if (streams && !SETTLED.has(stateOf(fieldsOf(now.status))))
      yield* this.#line.stream('SubscribeToTask', { id }, signal)
  }

  #now(id: string, signal: AbortSignal): Promise<Fields> {
    return this.#line.call('GetTask', { id }, signal)
  }

  #unknown(what: string, cause: Error): OutcomeUnknownError {
    const advice =
      'It may have done its task, or a part of it, so that is not begun again. Say idempotent: true in remote.a2a if it may be.'
    return new OutcomeUnknownError(`${this.#who}: ${cut(what)}. ${advice}`, { agent: this.#agent }, cause)
  }

  #refused(error: RefusedError): Error {
    const { message } = error
    if (message.startsWith('DEADLOCK'))
      return new DeadlockError(`${this.#who} refuses: ${message}`, { agent: this.#agent })
    return this.#line.failed(`refuses: ${message}`, error)
  }
}

async function* one(result: Promise<Fields>): AsyncGenerator<Fields> {
  yield await result
}

interface HeldTask {
  readonly taskId?: string
  readonly contextId?: string
}

function heldIn(held: unknown): HeldTask {
  const { taskId, contextId } = fieldsOf(held)
  return typeof taskId === 'string' ? { taskId, contextId: textIn(contextId) } : {}
}

interface Saying {
  readonly text?: string
  readonly parts?: readonly object[]
  /** Question that it answers. */
  readonly key?: string
  readonly taskId?: string
  readonly contextId?: string | undefined
}

/** Returns a message with an id that is the same whenever it is sent. */
function messageOf(
  { id, session, path }: RemotePrompt,
  { text, parts, key = '', taskId, contextId = session }: Saying,
) {
  return {
    messageId: v5(JSON.stringify([id, key]), MESSAGES),
    role: 'ROLE_USER',
    parts: parts ?? [{ text, mediaType: 'text/plain' }],
    ...(contextId && { contextId }),
    ...(taskId !== undefined && { taskId }),
    ...(path.length > 0 && { metadata: { [PATH]: path } }),
  }
}

type Failed = (what: string, cause?: unknown) => AgentFailedError

/** A task there, as far as it was told. */
class Task {
  id: string | undefined
  contextId: string | undefined
  isSettled = false
  isOver = false
  readonly #prompt: RemotePrompt
  readonly #failed: Failed
  #status: Fields = {}
  /** Texts of its artifacts, by id. */
  readonly #texts = new Map<string, string>()
  /** Words of it that were passed on. */
  #said = ''
  #usage: Fields = {}

  constructor(prompt: RemotePrompt, { taskId, contextId }: HeldTask, failed: Failed) {
    this.#prompt = prompt
    this.#failed = failed
    this.id = taskId
    this.contextId = contextId
    if (contextId) prompt.inSession(contextId)
  }

  /** Takes an event of its stream. Returns what is passed on. */
  async take(event: Fields): Promise<ModelPiece[]> {
    const [[kind, value] = ['', {}]] = Object.entries(event)
    const fields = fieldsOf(value)
    const { id = fields.taskId, contextId, status, artifacts, artifact, metadata, append } = fields
    if (kind === 'message') {
      this.isOver = this.isSettled = true
      this.#status = { state: 'COMPLETED', message: fields }
    }
    const isNew = this.id === undefined && typeof id === 'string' && id !== ''
    if (isNew) this.id = id
    if (typeof contextId === 'string' && contextId !== '' && contextId !== this.contextId) {
      this.contextId = contextId
      this.#prompt.inSession(contextId)
    }
    if (isNew) await this.#prompt.note({ taskId: this.id, contextId: this.contextId }, { mayHaveRun: false })
    if (metadata !== undefined) this.#usage = fieldsOf(fieldsOf(metadata)['dramatis/usage'])
    if (status !== undefined) this.#stands(fieldsOf(status))
    if (Array.isArray(artifacts)) this.#texts.clear()
    for (const each of listIn(artifacts)) this.#keep(fieldsOf(each), false)
    if (artifact !== undefined) this.#keep(fieldsOf(artifact), append === true)
    return this.#pieces()
  }

  #stands(status: Fields): void {
    this.#status = status
    const state = stateOf(status)
    this.isSettled = SETTLED.has(state)
    this.isOver = this.isSettled && !/_REQUIRED$/.test(state)
    const words = wordsIn(fieldsOf(status.message).parts)
    if (!this.isSettled && words !== '') this.#prompt.progress(cut(words))
  }

  #keep(artifact: Fields, isMore: boolean): void {
    const id = textIn(artifact.artifactId)
    this.#texts.set(id, (isMore ? (this.#texts.get(id) ?? '') : '') + wordsIn(artifact.parts))
  }

  /** Returns what is new in its words; all of them where they are others now. */
  #pieces(): ModelPiece[] {
    const text = [...this.#texts.values()].join('\n')
    const before = this.#said
    if (text === before) return []
    this.#said = text
    if (text.startsWith(before)) return [{ text: text.slice(before.length) }]
    return [{ restart: true }, ...(text === '' ? [] : [{ text }])]
  }

  *end(): Generator<ModelPiece> {
    const state = stateOf(this.#status)
    const words = wordsIn(fieldsOf(this.#status.message).parts)
    if (state !== 'COMPLETED')
      throw this.#failed(`has ${ENDED.get(state) ?? 'ended'} its task${words && `: ${cut(words)}`}`)
    if (this.#said === '' && words !== '') yield { text: words }
    const { inputTokens = 0, outputTokens = 0, totalTokens = 0, calls = 0 } = this.#usage
    const numbers = [inputTokens, outputTokens, totalTokens, calls].map((each) =>
      Number.isSafeInteger(each) ? Math.max(0, each as number) : 0,
    )
    const [input, output, total, all] = numbers as [number, number, number, number]
    yield { usage: { inputTokens: input, outputTokens: output, totalTokens: total, calls: Math.max(1, all) } }
  }

  /** Names what it asks now. */
  get key(): string {
    const { parts, messageId } = fieldsOf(this.#status.message)
    return digestOf([stateOf(this.#status), messageId ?? '', parts ?? []]).slice(0, 32)
  }

  /** Answers that people have given, by what was asked: it may still show what is answered. */
  readonly #given = new Map<string, object[] | undefined>()

  async answers(who: string): Promise<object[] | undefined> {
    const { key } = this
    if (!this.#given.has(key)) this.#given.set(key, await this.#asked(who))
    return this.#given.get(key)
  }

  /** Asks people what it wants to know. Returns the parts of the message that answers; undefined: nothing is sent. */
  async #asked(who: string): Promise<object[] | undefined> {
    const { message } = this.#status
    const words = wordsIn(fieldsOf(message).parts)
    const { key } = this
    const { ask } = this.#prompt
    if (stateOf(this.#status) === 'AUTH_REQUIRED') {
      const answer = await ask(`${who} asks for a login: ${visible(words)}`, { choices: ['done', 'declined'], key })
      if (answer !== 'done') throw this.#failed('asks for a login, which was declined')
      return undefined
    }
    const questions = questionsIn(message)
    if (questions.length === 0) return [{ text: await ask(`${who} asks: ${visible(words)}`, { key }) }]
    return Promise.all(
      questions.map(async ({ questionId, digest, text, choices, form }) => {
        const isApproval = digest !== undefined
        const given = listIn(choices).filter((each) => typeof each === 'string')
        const answer = await ask(`${who} asks: ${visible(textIn(text))}`, {
          key: `${key} ${questionId}`,
          ...(isApproval ? { choices: ['yes', 'no'] } : given.length > 0 ? { choices: given as string[] } : {}),
          ...(!isApproval && form !== undefined && { form: fieldsOf(form) }),
        })
        return { data: { questionId, ...(isApproval ? { digest, approved: answer === 'yes' } : { answer }) } }
      }),
    )
  }
}

const ENDED = new Map([
  ['FAILED', 'failed'],
  ['CANCELED', 'cancelled'],
  ['REJECTED', 'rejected'],
])

/** Returns the text of parts; data, as JSON text, where there is no other. */
function wordsIn(parts: unknown): string {
  const all = listIn(parts).map(fieldsOf)
  const texts = all.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  const data = all.flatMap((part) => (part.data === undefined ? [] : [JSON.stringify(part.data)]))
  return (texts.length > 0 ? texts : data).join('\n')
}

/** Returns the questions that a message of a team has as data. */
const questionsIn = (message: unknown): Fields[] =>
  listIn(fieldsOf(message).parts)
    .map((part) => fieldsOf(fieldsOf(part).data))
    .filter(({ questionId }) => typeof questionId === 'string')
