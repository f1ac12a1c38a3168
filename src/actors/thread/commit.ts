/** Ends a turn: turns the handler's result or error into PATCH frames and one END frame, the commit. */

import { answeredBy } from '../../mailbox/codec.ts'
import { BLANK_BODY, END, FAILED, frameBytes, PATCH } from '../../mailbox/frame.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import {
  AgentFailedError,
  BudgetExceededError,
  DramatisError,
  describe,
  errorData,
  GuardrailError,
  LivelockError,
  ReplyInvalidError,
  StepMismatchError,
  shown,
  TaskRefusedError,
} from '../../shared/errors.ts'
import { isMarkedFinal } from '../../shared/thrown.ts'
import type { PatchNotice } from '../definition/assignment.ts'
import type { Reply } from '../definition/definition.ts'
import { checkBySchema } from '../definition/schema.ts'
import { withContentField } from '../model/structured-output.ts'
import type { AgentThread } from '../turn/open-turn.ts'
import type { TurnStart } from '../turn/replay.ts'
import type { RunView } from '../turn/run-views.ts'
import type { Draft } from '../turn/state.ts'
import type { Turn } from '../turn/turn.ts'

const NONE: readonly string[] = []
const NO_REPLY = { content: '', structuredData: undefined }

export class Commit {
  readonly #thread: AgentThread
  /** True for a protocol script, whose DramatisErrors become the run's error unchanged. */
  readonly #isScript: boolean
  /** Bytes of the END that is to be written, if they are known. */
  #bytes = 0

  constructor(thread: AgentThread, isScript: boolean) {
    this.#thread = thread
    this.#isScript = isScript
  }

  /**
   * Writes the END frame into the outbox and returns its time. Any error on the way makes the turn a failed one.
   */
  write(turn: Turn, value: unknown, thrown: unknown): number {
    const { start } = turn
    let failure = turn.reason
    this.#bytes = 0
    if (!failure && thrown !== undefined) failure = this.failure(thrown, this.#describe(start))
    failure ??= this.#prepare(turn, value)
    if (failure) this.#prepareEnd(start, '', JSON.stringify(errorData(failure)), FAILED)
    turn.close()
    const { outbox } = this.#thread
    return outbox.writeEnd(this.#bytes || outbox.size(), start.id, start.startedAt)
  }

  /** Validates the reply against the output schema. */
  async check(turn: Turn, value: unknown): Promise<unknown> {
    const agent = this.#thread.role.name
    const { content, structuredData } = replyOf(value, turn.start, agent)
    const { output } = this.#thread.handlers
    if (!output) return value
    const fail = (issues: string) => {
      const text = `The reply of agent "${agent}" misses its output schema: ${issues}`
      return new ReplyInvalidError(text, { agent, issues })
    }
    return { content, structuredData: await checkBySchema(output, structuredData, fail) }
  }

  #prepare(turn: Turn, value: unknown): DramatisError | undefined {
    const { start } = turn
    const { outbox, role } = this.#thread
    const agent = role.name
    try {
      const said = start.correlation === 0 ? NO_REPLY : replyOf(value, start, agent)
      // Most answers have no data in which to look for a field that the caller wants as its content.
      const hasData = said.structuredData !== undefined || said.content.includes('{')
      const reply = hasData && start.message ? withContentField(said, start.message) : said
      const { structuredData } = reply
      const data = structuredData === undefined ? undefined : dataOf(structuredData, start, agent)
      const bytes = frameBytes({ ...BLANK_BODY, content: reply.content, data })
      if (bytes > outbox.maxMessageBytes) throw replyTooLarge(agent, bytes, outbox.maxMessageBytes)
      if (turn.drafts) this.#writePatches(turn)
      const missed = start.replay?.unmatched((index) => this.#thread.names.name(index)) ?? NONE
      this.#prepareEnd(start, reply.content, data, 0, { missed, told: turn.answerMetadata })
      const { metadata, threadId } = outbox.fields
      if (metadata === undefined && threadId === undefined && !outbox.keys) this.#bytes = bytes
      return undefined
    } catch (error) {
      return this.failure(error, this.#describe(start))
    }
  }

  #prepareEnd(start: TurnStart, content: string, data: string | undefined, flags: number, said = NOTHING): void {
    const fields = this.#thread.outbox.begin(END, start.run, start.turn, 0, content, data)
    fields.type = 'response'
    fields.flags = flags
    fields.recipient = start.caller
    fields.correlation = start.correlation
    fields.attempt = start.attempt
    const answered = start.correlation === 0 ? undefined : start.message
    if (answered?.threadId) fields.threadId = answered.threadId
    const to = answeredBy(answered?.subTask, answered?.acting)
    if (to || said.missed.length > 0 || said.told) fields.metadata = endMetadata(to, said)
  }

  #writePatches(turn: Turn): void {
    const { start } = turn
    const state = turn.draftOf('state') // create both drafts before either is applied
    const runState = turn.draftOf('runState')
    if (state) {
      this.#writePatch(start, { scope: 'agent', patches: state.patches })
      this.#thread.state = state.value
    }
    if (runState) {
      const { view } = start
      this.#writePatch(start, { scope: 'run', ...noticeOf(view, runState) })
      view.based = true
      view.runState = runState.value
    }
  }

  #writePatch(start: TurnStart, notice: PatchNotice): void {
    const { outbox } = this.#thread
    const fields = outbox.begin(PATCH, start.run, start.turn, 0, '', JSON.stringify(notice))
    fields.attempt = start.attempt
    outbox.write(outbox.size(), 'later') // the end of the turn follows
  }

  #describe(start: TurnStart): string {
    return `its turn for a ${start.type} from "${start.message?.sender ?? this.#thread.names.name(start.caller)}"`
  }

  /**
   * Converts anything thrown into an error that names the agent and the activity that failed. Refusals stay unchanged.
   */
  failure(thrown: unknown, at: string): DramatisError {
    const agent = this.#thread.role.name
    // An error in OWN that this agent raised itself stays unchanged. The same error from another agent counts as this
    // agent's failure.
    if (OWN.some((Own) => thrown instanceof Own) && thrown instanceof DramatisError) {
      if ((thrown.details.agent ?? agent) === agent) return thrown
    }
    const script = this.#isScript
    if (script && thrown instanceof DramatisError) return thrown
    const cause = thrown instanceof DramatisError ? thrown.toJSON() : describe(thrown)
    const text = script
      ? `The protocol script failed: ${describe(thrown)}`
      : `Agent "${agent}" failed in ${at}: ${describe(thrown)}`
    return new AgentFailedError(text, { agent, cause, ...(isMarkedFinal(thrown) && { final: true }) }, thrown)
  }
}

/** Parts of an END beside the reply: the steps that the turn has left out, and metadata that it has given. */
interface Said {
  readonly missed: readonly string[]
  readonly told: object | undefined
}

const NOTHING: Said = { missed: NONE, told: undefined }

/** Returns the metadata of an answer that has some. They also name what it answers. */
const endMetadata = (answered: object | undefined, { missed, told }: Said): string =>
  JSON.stringify({ ...answered, ...(missed.length > 0 && { missed }), ...told })

/** Returns the change of a run's state. A value that the log does not have yet is written as it is, changed. */
function noticeOf({ based, runState, threadId }: RunView, { value, patches }: Draft): Omit<PatchNotice, 'scope'> {
  if (based) return { patches }
  return threadId === undefined ? { base: value, patches: [] } : { base: runState, patches }
}

const OWN = [TaskRefusedError, ReplyInvalidError, BudgetExceededError, LivelockError, StepMismatchError, GuardrailError]

const replyTooLarge = (agent: string, bytes: number, limit: number) =>
  new ReplyInvalidError(
    `The reply of agent "${agent}" is ${bytes} bytes encoded; at most ${limit} are taken (communication.maxMessageBytes).`,
    { bytes, agent, limit },
  )

/** Converts a handler's result to a reply, or throws a ReplyInvalidError. */
function replyOf(value: unknown, start: TurnStart, agent: string): { content: string; structuredData: unknown } {
  if (value === undefined || value === null) return { content: '', structuredData: undefined }
  if (typeof value === 'string') return { content: value, structuredData: undefined }
  // A message counts too, so that a handler can pass an answer on. An object with neither field is no reply, because
  // its content would be lost silently.
  const isReply =
    typeof value === 'object' && !Array.isArray(value) && ('content' in value || 'structuredData' in value)
  if (isReply || isEmptyObject(value)) {
    const { content = '', structuredData } = value as Exclude<Reply, string | void>
    if (typeof content === 'string') return { content, structuredData }
    throw wrongField(agent, start, { path: 'content', got: shown(content) })
  }
  throw new ReplyInvalidError(
    `Agent "${agent}" answered a ${start.type} with ${shown(value)}; a reply is a string, nothing, or { content?, structuredData? }.`,
    { agent, got: shown(value) },
  )
}

const isEmptyObject = (value: unknown): value is object =>
  Object.getPrototypeOf(value) === Object.prototype && Object.keys(Object(value)).length === 0

/** Converts the data to JSON. Runs after the output schema, because the schema may transform the value into JSON. */
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
