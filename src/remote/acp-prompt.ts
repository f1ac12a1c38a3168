/** A prompt of the Agent Client Protocol: what the agent says of its work on it, and what it asks permission for. */
import { type GivenAnswer, isShowable, NO, YES } from '../actors/definition/approval.ts'
import { type ModelPiece, NO_TOKENS, type TokenUsage } from '../actors/definition/model.ts'
import type { AcpAgent } from '../actors/definition/role-config.ts'
import { ANY_OTHER, policyOf } from '../actors/definition/tool.ts'
import { isOverIn, systemClock, type Timer } from '../shared/clock.ts'
import { AgentFailedError, DramatisError, describe } from '../shared/errors.ts'
import { anyAborted, onAbort, unlessAborted } from '../shared/on-abort.ts'
import { visible } from '../shared/text.ts'
import type { Program } from './program.ts'
import type { RemotePrompt, RemoteStep } from './role.ts'

export const DEFAULTS = { startMs: 60_000, idleMs: 600_000, cancelMs: 10_000 }
/** Characters of a title, and of words of the agent in an error. */
export const LONGEST_TITLE = 500
/** Questions that may be open for one prompt. */
const MOST_QUESTIONS = 20
/** Steps of one prompt that are told. */
const MOST_STEPS = 2_000
/** Time in ms without a word after which an agent that has ended has said all, and the longest such time. */
const LATE_MS = 200
const MOST_LATE_MS = 2_000
/** Characters of an answer that wait to be read. */
const MOST_UNREAD = 2 ** 24
const LONGEST_OUTPUT = 16_384
const KINDS = new Set(['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch', 'switch_mode'])
export const CANCELLED = { outcome: { outcome: 'cancelled' } }

export type Fields = { readonly [name: string]: unknown }
export const fieldsOf = (value: unknown): Fields => Object(value) as Fields
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The program that has begun, and the sessions in it. */
export interface Line {
  readonly program: Program
  ask(method: string, params: object): Promise<Fields>
  tell(method: string, params: object): void
  /** True if it can go on with sessions of an earlier program. */
  readonly loads: boolean
  readonly authMethods: readonly unknown[]
  readonly prompts: Map<string, OpenPrompt>
  /** Sessions that it has. */
  readonly sessions: Set<string>
  /** Ends of prompts that were cancelled. */
  readonly ending: Map<string, Promise<unknown>>
  isOver: boolean
}

/** The program ended while something was asked of it. */
export class GoneError extends Error {}

/** A step as far as it is known: the agent tells it bit by bit. */
interface Step extends RemoteStep {
  state: 'known' | 'begun' | 'ended'
}

/** A prompt that the agent works on. */
export class OpenPrompt {
  readonly #who: string
  readonly #prompt: RemotePrompt
  readonly #line: Line
  readonly #session: string
  readonly #options: AcpAgent
  readonly #steps = new Map<string, Step>()
  /** Aborted when the prompt is over. */
  readonly #over = new AbortController()
  #pieces: ModelPiece[] = []
  #unread = 0
  #isNewMessage = false
  #hasText = false
  #wake = () => {}
  #isDone = false
  #questions = 0
  #heard = 0
  #idle: Timer | undefined
  #failure: unknown

  constructor(who: string, prompt: RemotePrompt, line: Line, session: string, options: AcpAgent) {
    this.#who = who
    this.#prompt = prompt
    this.#line = line
    this.#session = session
    this.#options = options
  }

  async *pieces(text: string): AsyncGenerator<ModelPiece> {
    const { signal } = this.#prompt
    const sessionId = this.#session
    this.#line.prompts.set(sessionId, this)
    const done = this.#line.ask('session/prompt', { sessionId, prompt: [{ type: 'text', text }] })
    let end: Fields | undefined
    const over = done
      .then(
        async (result) => {
          end = result
          await this.#quiet()
        },
        (error: unknown) => this.#fail(error),
      )
      .finally(() => {
        this.#isDone = true
        this.#wake()
      })
    const stop = onAbort(signal, () => this.#fail(signal.reason))
    this.#hears()
    try {
      for (;;) {
        const pieces = this.#pieces
        this.#pieces = []
        this.#unread = 0
        yield* pieces
        if (this.#failure !== undefined) throw this.#failure
        if (this.#pieces.length > 0) continue
        if (this.#isDone) break
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      yield this.#ending(fieldsOf(end))
    } catch (error) {
      if (error instanceof GoneError || error instanceof DramatisError || signal.aborted) throw error
      const { message, data } = fieldsOf(error)
      const more = data === undefined ? '' : ` (${cut(JSON.stringify(data), LONGEST_TITLE)})`
      throw new AgentFailedError(`${this.#who} failed: ${cut(String(message), LONGEST_TITLE)}${more}`, {}, error)
    } finally {
      stop()
      this.#idle?.cancel()
      this.#over.abort()
      if (this.#line.prompts.get(sessionId) === this) this.#line.prompts.delete(sessionId)
      for (const { id, state } of this.#steps.values())
        if (state === 'begun') this.#prompt.ended({ id }, { failed: 'The task was over before it.' })
      if (!this.#isDone) this.#cancel(over)
    }
  }

  /** Stops the agent: what it does not stop by itself ends with the program. */
  #cancel(over: Promise<unknown>): void {
    const { cancelMs = DEFAULTS.cancelMs } = this.#options
    const { ending, program, sessions } = this.#line
    this.#line.tell('session/cancel', { sessionId: this.#session })
    const stopped = isOverIn(cancelMs, over).then(async (isStopped) => {
      if (isStopped) return
      this.#line.isOver = true
      sessions.clear()
      await program.stop()
    })
    ending.set(this.#session, stopped)
    void stopped.then(() => ending.delete(this.#session))
  }

  /** Waits for what comes behind the end: several agents say their last words after it. */
  async #quiet(): Promise<void> {
    for (let ms = 0, heard = -1; ms < MOST_LATE_MS && heard !== this.#heard; ms += LATE_MS) {
      heard = this.#heard
      await systemClock.sleep(LATE_MS, this.#over.signal).catch(() => {})
    }
  }

  #ending({ stopReason, usage }: Fields): ModelPiece {
    const used = usageIn(usage)
    if (stopReason === 'refusal') throw new AgentFailedError(`${this.#who} refused the task.`)
    if (stopReason === 'cancelled')
      throw new AgentFailedError(`${this.#who} gave the task up: it says that it was cancelled.`)
    return { ...used, finishReason: /^max_/.test(String(stopReason)) ? 'length' : 'stop' }
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#over.abort()
    this.#wake()
  }

  /** Notes a sign of life. */
  #hears(): void {
    const { idleMs = DEFAULTS.idleMs } = this.#options
    this.#idle?.cancel()
    this.#idle = undefined
    if (this.#questions > 0 || this.#over.signal.aborted) return
    const silent = new AgentFailedError(
      `${this.#who} said nothing for ${idleMs} ms (idleMs), so its task was cancelled.`,
    )
    this.#idle = systemClock.timer(idleMs, () => this.#fail(silent), true)
  }

  /** Takes what the agent says of its work. */
  hear(update: Fields): void {
    if (this.#over.signal.aborted) return
    this.#heard += 1
    this.#hears()
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
        return this.#says('text', update)
      case 'agent_thought_chunk':
        return this.#says('reasoning', update)
      case 'tool_call':
      case 'tool_call_update':
        return this.#works(update)
      case 'plan':
        return this.#prompt.progress(planIn(update))
    }
  }

  #says(part: 'text' | 'reasoning', { content }: Fields): void {
    const { type, text } = fieldsOf(content)
    if (type !== 'text' || typeof text !== 'string' || text === '') return
    // it says several things in one task, with steps between them
    const isApart = part === 'text' && this.#isNewMessage && this.#hasText
    if (part === 'text') {
      this.#isNewMessage = false
      this.#hasText = true
    }
    this.#unread += text.length
    if (this.#unread > MOST_UNREAD) return this.#line.program.fail(`says more than ${MOST_UNREAD} characters at once`)
    this.#pieces.push({ [part]: isApart ? `\n\n${text}` : text })
    this.#wake()
  }

  #works(update: Fields): void {
    const step = this.#step(update)
    if (!step) return
    this.#isNewMessage = true
    const { status } = update
    if (status !== undefined && status !== null && status !== 'pending') this.#begin(step)
    if ((status !== 'completed' && status !== 'failed') || step.state === 'ended') return
    step.state = 'ended'
    const output = outputIn(update)
    this.#prompt.ended(step, status === 'failed' ? { failed: output ?? 'It failed.' } : { output })
  }

  #begin(step: Step): void {
    if (step.state !== 'known') return
    step.state = 'begun'
    this.#prompt.began(step)
  }

  /** Returns what is known of a step, with what is new of it. */
  #step(call: Fields): Step | undefined {
    const id = String(call.toolCallId)
    const before = this.#steps.get(id)
    if (!before && this.#steps.size === MOST_STEPS) return undefined
    const known = fieldsOf(before?.input)
    const { kind = before?.tool } = call
    const input = shownOf({
      title: typeof call.title === 'string' ? cut(call.title, LONGEST_TITLE) : known.title,
      locations: locationsIn(call) ?? known.locations,
      rawInput: isEmpty(call.rawInput) ? known.rawInput : call.rawInput,
      diff: diffIn(call) ?? known.diff,
    })
    const step = { id, tool: KINDS.has(String(kind)) ? String(kind) : 'other', input, state: before?.state ?? 'known' }
    this.#steps.set(id, step)
    return step
  }

  /** Answers a request for permission. */
  async permit({ toolCall, options }: Fields, withdrawn: AbortSignal): Promise<object> {
    const step = this.#step(fieldsOf(toolCall))
    if (!step || this.#over.signal.aborted || this.#questions === MOST_QUESTIONS) return CANCELLED
    this.#begin(step)
    const offered = listIn(options)
      .map(fieldsOf)
      .filter(({ optionId }) => typeof optionId === 'string')
    const ofKind = (kind: string) => offered.find((option) => option.kind === kind)?.optionId
    const once = ofKind('allow_once')
    const reject = ofKind('reject_once')
    const { permissions = 'ask' } = this.#options
    const approvers = typeof permissions === 'object' ? policyOf(permissions) : ANY_OTHER
    const more = new Map<string, unknown>()
    // one of several people does not give more than all of them are asked for
    for (const { optionId, kind, name } of approvers.quorum === 1 ? offered.slice(0, MOST_QUESTIONS) : []) {
      if (optionId === once || optionId === reject) continue
      const words = visible(cut(String(name ?? kind), LONGEST_TITLE)).trim()
      if (words !== '' && words !== YES && words !== NO) more.set(words, optionId)
    }
    const { signal, forget } = anyAborted([this.#over.signal, withdrawn])
    this.#questions += 1
    this.#hears()
    try {
      const answer = await this.#decided(step, { more: [...more.keys()], approvers }, signal)
      const picked = typeof answer === 'string' ? answer : answer.answer
      const optionId = picked === YES ? once : picked === NO ? reject : more.get(picked)
      if (picked === YES && once === undefined)
        this.#prompt.log.warn(
          { offered: [...more.keys()] },
          'the agent offers no way to allow a call once: answer by a choice',
        )
      return optionId === undefined ? CANCELLED : { outcome: { outcome: 'selected', optionId } }
    } catch (error) {
      if (!signal.aborted)
        this.#prompt.log.warn({ error: describe(error) }, 'a permission was not given: nobody said yes')
      return CANCELLED
    } finally {
      forget()
      this.#questions -= 1
      this.#hears()
    }
  }

  async #decided(step: Step, asked: Parameters<RemotePrompt['permit']>[1], signal: AbortSignal): Promise<GivenAnswer> {
    const { permissions = 'ask' } = this.#options
    if (permissions === 'deny') return NO
    if (typeof permissions === 'function') {
      const { tool: kind, input } = step
      const { agent, runId } = this.#prompt
      let decision: unknown
      try {
        const asked = { agent, runId, kind, title: String(fieldsOf(input).title ?? kind), input }
        decision = await unlessAborted(signal, Promise.resolve(permissions(asked)))
      } catch (error) {
        this.#prompt.log.error({ error: describe(error) }, 'permissions of remote.acp threw, so the call is rejected')
      }
      if (decision === 'allow') return YES
      if (decision !== 'ask') return NO
    }
    return await this.#prompt.permit(step, asked, signal)
  }
}

export const cut = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most)}… (${text.length} characters)` : text

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

const locationsIn = ({ locations }: Fields): unknown =>
  Array.isArray(locations) && locations.length > 0
    ? locations.slice(0, MOST_QUESTIONS).map((each) => cut(String(fieldsOf(each).path), LONGEST_TITLE))
    : undefined

function diffIn({ content }: Fields): unknown {
  const diffs = listIn(content)
    .map(fieldsOf)
    .filter(({ type }) => type === 'diff')
  return diffs.length > 0 ? diffs.map(({ path, oldText, newText }) => ({ path, oldText, newText })) : undefined
}

/** Returns the same, cut so that a person can be shown all of it. What is cut says so. */
function shownOf(input: Fields): Fields {
  const own = Object.entries(input).filter(([, value]) => value !== undefined)
  for (let most = 16_384; ; most /= 2) {
    const short = Object.fromEntries(
      own.map(([name, value]) => {
        const text = typeof value === 'string' ? value : JSON.stringify(value)
        return [name, text.length > most ? cut(text, most) : value]
      }),
    )
    if (isShowable(short) || most < 2) return short
  }
}

function outputIn({ content, rawOutput }: Fields): string | undefined {
  const texts = listIn(content).flatMap((each) => {
    const { text } = fieldsOf(fieldsOf(each).content)
    return typeof text === 'string' ? [text] : []
  })
  if (texts.length > 0) return cut(texts.join('\n'), LONGEST_OUTPUT)
  return isEmpty(rawOutput) ? undefined : cut(JSON.stringify(rawOutput), LONGEST_OUTPUT)
}

const planIn = ({ entries }: Fields): string =>
  listIn(entries)
    .map(fieldsOf)
    .map(({ status, content }) => `${status === 'completed' ? '[x]' : '[ ]'} ${String(content)}`)
    .join('\n')

function usageIn(usage: unknown): { usage?: TokenUsage } {
  const count = (name: string): number => {
    const value = Number(Reflect.get(fieldsOf(usage), name))
    return Number.isFinite(value) && value > 0 ? Math.round(value) : 0
  }
  const [inputTokens, outputTokens] = [count('inputTokens'), count('outputTokens')]
  const totalTokens = Math.max(count('totalTokens'), inputTokens + outputTokens)
  if (totalTokens === 0) return {}
  const [cachedTokens, reasoningTokens] = [count('cachedReadTokens'), count('thoughtTokens')]
  return {
    usage: {
      ...NO_TOKENS,
      inputTokens,
      outputTokens,
      totalTokens,
      calls: 1,
      ...(cachedTokens > 0 && { cachedTokens }),
      ...(reasoningTokens > 0 && { reasoningTokens }),
    },
  }
}
