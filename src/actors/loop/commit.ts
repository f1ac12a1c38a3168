/** The end of a turn: what the handler returned or threw becomes patches and one END, the commit. */
import {
  AgentFailedError,
  BudgetExceededError,
  DramatisError,
  describe,
  errorData,
  LivelockError,
  ReplyInvalidError,
  shown,
  TaskRefusedError,
} from '../../errors.ts'
import { END, FAILED, PATCH } from '../../mailbox/frame.ts'
import { frameBytes } from '../../mailbox/frame-body.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import type { PatchNotice } from '../definition/assignment.ts'
import type { AgentHandlers, Reply } from '../definition/definition.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { Draft } from '../turn/drafts.ts'
import type { Turn } from '../turn/turn.ts'
import type { TurnStart } from '../turn/turn-host.ts'

/** What a commit needs of the loop. */
export interface CommitHost {
  readonly outbox: Outbox
  readonly agent: string
  /** A protocol script: the runtime's own errors are the run's, as they are. */
  readonly script: boolean
  readonly output: AgentHandlers['output']
  name(index: number): string
  /** The turn's state becomes the agent's. */
  keep(draft: Draft): void
}

const NO_REPLY = { content: '', structuredData: undefined }

export class Commit {
  readonly #host: CommitHost

  constructor(host: CommitHost) {
    this.#host = host
  }

  /** Ends the turn in the log; returns when that was. What goes wrong on the way makes the turn a failed one. */
  write(turn: Turn, value: unknown, thrown: unknown): number {
    const { start } = turn
    let failure = turn.reason
    if (!failure && thrown !== undefined) failure = this.failure(thrown, this.#describe(start))
    failure ??= this.#prepare(turn, value)
    if (failure) this.#prepareEnd(start, '', JSON.stringify(errorData(failure)), FAILED)
    turn.close()
    const { outbox } = this.#host
    return outbox.writeEnd(outbox.size(), start.id, start.startedAt)
  }

  /** Whether the reply has to be checked against a schema first. */
  checks(turn: Turn): boolean {
    return this.#host.output !== undefined && turn.start.correlation !== 0 && turn.reason === undefined
  }

  async check(turn: Turn, value: unknown): Promise<unknown> {
    const { agent, output } = this.#host
    const { content, structuredData } = replyOf(value, turn.start, agent)
    if (!output) return value
    const fail = (issues: string) => {
      const text = `The reply of agent "${agent}" misses its output schema: ${issues}`
      return new ReplyInvalidError(text, { agent, issues })
    }
    return { content, structuredData: await checkBySchema(output, structuredData, fail) }
  }

  #prepare(turn: Turn, value: unknown): DramatisError | undefined {
    const { start } = turn
    const { outbox, agent } = this.#host
    try {
      const reply = start.correlation === 0 ? NO_REPLY : replyOf(value, start, agent)
      const data = dataOf(reply.structuredData, start, agent)
      const bytes = frameBytes(reply.content, data)
      if (bytes > outbox.maxMessageBytes) throw replyTooLarge(agent, bytes, outbox.maxMessageBytes)
      this.#writePatches(turn)
      this.#prepareEnd(start, reply.content, data, 0)
      const missed = start.replay?.unmatched((index) => this.#host.name(index)) ?? []
      if (missed.length > 0) outbox.fields.metadata = JSON.stringify({ missed })
      return undefined
    } catch (error) {
      return this.failure(error, this.#describe(start))
    }
  }

  #prepareEnd(start: TurnStart, content: string, data: string | undefined, flags: number): void {
    const fields = this.#host.outbox.begin(END, start.run, start.turn, 0, content, data)
    fields.type = 'response'
    fields.flags = flags
    fields.recipient = start.caller
    fields.correlation = start.correlation
    fields.attempt = start.attempt
  }

  #writePatches(turn: Turn): void {
    const { start } = turn
    const state = turn.draftOf('state') // both before either counts
    const runState = turn.draftOf('runState')
    if (state) {
      this.#writePatch(start, { scope: 'agent', patches: state.patches })
      this.#host.keep(state)
    }
    if (runState) {
      const { view } = start
      const base = view.based ? {} : { base: view.runState }
      this.#writePatch(start, { scope: 'run', patches: runState.patches, ...base })
      view.based = true
      view.runState = runState.value
    }
  }

  #writePatch(start: TurnStart, notice: PatchNotice): void {
    const { outbox } = this.#host
    outbox.begin(PATCH, start.run, start.turn, 0, '', JSON.stringify(notice))
    outbox.write(outbox.size(), 'soon')
  }

  #describe(start: TurnStart): string {
    return `its turn for a ${start.type} from "${this.#host.name(start.caller)}"`
  }

  /** Anything thrown, as an error that says who failed at what. Refusals stay what they are. */
  failure(thrown: unknown, at: string): DramatisError {
    // Its own refusal, want of budget, or loop stays what it is; another agent's is this one's failure.
    if (OWN.some((Own) => thrown instanceof Own) && thrown instanceof DramatisError) {
      if ((thrown.details.agent ?? this.#host.agent) === this.#host.agent) return thrown
    }
    const { agent, script } = this.#host
    if (script && thrown instanceof DramatisError) return thrown
    const cause = thrown instanceof DramatisError ? thrown.toJSON() : describe(thrown)
    const text = script
      ? `The protocol script failed: ${describe(thrown)}`
      : `Agent "${agent}" failed in ${at}: ${describe(thrown)}`
    return new AgentFailedError(text, { agent, cause }, thrown instanceof Error ? thrown : new Error(describe(thrown)))
  }
}

const OWN = [TaskRefusedError, ReplyInvalidError, BudgetExceededError, LivelockError]

const replyTooLarge = (agent: string, bytes: number, limit: number) =>
  new ReplyInvalidError(
    `The reply of agent "${agent}" is ${bytes} bytes encoded; at most ${limit} are taken (communication.maxMessageBytes).`,
    { bytes, agent, limit },
  )

/** What a handler returned, as a reply; or the error that it is none. */
function replyOf(value: unknown, start: TurnStart, agent: string): { content: string; structuredData: unknown } {
  if (value === undefined || value === null) return { content: '', structuredData: undefined }
  if (typeof value === 'string') return { content: value, structuredData: undefined }
  if (isReply(value)) {
    const { content = '', structuredData } = value
    if (typeof content === 'string') return { content, structuredData }
    throw wrongField(agent, start, { path: 'content', got: shown(content) })
  }
  throw new ReplyInvalidError(
    `Agent "${agent}" answered a ${start.type} with ${shown(value)}; a reply is a string, nothing, or { content?, structuredData? }.`,
    { agent, got: shown(value) },
  )
}

/** A message counts as one too: to pass an answer on. An object that has neither field would be lost in silence. */
function isReply(value: unknown): value is Exclude<Reply, string | void> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  if ('content' in value || 'structuredData' in value) return true
  return Object.getPrototypeOf(value) === Object.prototype && Object.keys(value).length === 0
}

/** As JSON; not before the output schema has seen it, which may make JSON of it. */
function dataOf(value: unknown, start: TurnStart, agent: string): string | undefined {
  if (value === undefined) return undefined
  const issue = jsonIssue(value, 'structuredData')
  if (issue) throw wrongField(agent, start, issue)
  return JSON.stringify(value)
}

const wrongField = (agent: string, start: TurnStart, wrong: { path: string; got: string }) =>
  new ReplyInvalidError(
    `Agent "${agent}" answered a ${start.type} with a reply in which ${wrong.path} is ${wrong.got}; content is a string, structuredData a JSON value.`,
    { agent, ...wrong },
  )
