/** Runs the steps and the tools of one turn. A redelivered turn gets their results from the log. */
import { v5 } from 'uuid'
import { isFailure } from '../../mailbox/codec.ts'
import { AWAITS_LOG, FAILED, idText, LOG, REPLAYED, readBody, STEP_BEGAN, STEP_DONE } from '../../mailbox/frame.ts'
import { readableParts } from '../../mailbox/stored-parts.ts'
import {
  DramatisError,
  type ErrorData,
  errorData,
  errorFrom,
  MessageRejectedError,
  shown,
  ToolFailedError,
  ToolInputError,
} from '../../shared/errors.ts'
import { anyAborted } from '../../shared/on-abort.ts'
import { own } from '../../shared/values.ts'
import { approvalOf, approvedInput } from '../definition/approval.ts'
import { checkFunction, checkStepOptions, checkText, encodeData, encodeForm } from '../definition/checks.ts'
import { type Content, type MessagePart, partsOfResult, resultOfParts } from '../definition/content.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { ToolDefinition } from '../definition/tool.ts'
import type { RoleTools } from '../model/verb-tools.ts'
import type { Settled } from './logged-turn.ts'
import type { AgentThread, OpenTurn } from './open-turn.ts'
import { checkedInput, runTool } from './run-tool.ts'
import { uploadsFor } from './run-views.ts'
import type { OpenSteps, WrittenSteps } from './steps.ts'

/** A step: the handler's own, or a tool of this thread if `tool` is set. */
interface StepOf {
  readonly name: string
  readonly idempotent: boolean
  readonly tool?: { readonly callId: string; readonly input: string | undefined; readonly polling: boolean }
}

/** Runs the steps of one turn. Each step runs once; a redelivered turn gets the step's result from the log. */
export class StepRunner {
  readonly #thread: AgentThread
  readonly #turn: OpenTurn
  readonly #open: OpenSteps
  /** Waits for the reader of the answer. */
  readonly #gate: () => Promise<void>

  constructor(thread: AgentThread, turn: OpenTurn, open: OpenSteps, gate: () => Promise<void>) {
    this.#thread = thread
    this.#turn = turn
    this.#open = open
    this.#gate = gate
  }

  /** Runs a step that the handler has named. */
  async own<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T> {
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
    checkText(name, 'name')
    checkFunction(run, 'run')
    if (options !== undefined) checkStepOptions(options)
    const { keys } = this.#thread.outbox
    return this.run({ name: keys ? keys.text(name) : name, idempotent: options?.idempotent === true }, run)
  }

  async run<T>({ name, idempotent, tool }: StepOf, run: () => Promise<T> | T): Promise<T> {
    if (this.#turn.emitter?.behind) await this.#gate()
    const { replay } = this.#turn.start
    const logged = replay?.matchStep(name, tool?.callId)
    if (logged?.settled) {
      this.#record(REPLAYED, logged.number, name, undefined, 0)
      return this.#again<T>(logged.settled)
    }
    const { hold, settlements } = this.#turn
    if (hold?.isOpen && !logged) await hold.until(`${tool ? 'tool' : 'step'} ${name}`, () => Promise.resolve())
    // The turn begins work of its own, so it does not only wait.
    const permit = this.#thread.goingOn.permit(this.#turn.start)
    if (permit) await permit
    const step = logged?.number ?? ++this.#turn.step
    // A tool that may run twice waits too: a later process has to find its call, which has the idempotency key.
    const written = idempotent && !tool ? undefined : this.#thread.writtenSteps
    const flags = (idempotent ? 0 : FAILED) | (written ? AWAITS_LOG : 0)
    this.#record(STEP_BEGAN, step, name, tool?.input, flags, tool?.callId, undefined, tool?.polling)
    const open = tool ? this.#open.beginTool() : this.#open.begin()
    const beganAt = tool && this.#thread.now()
    settlements.open += 1
    try {
      if (written) await this.#isWritten(written, step)
      const result = await (tool ? run() : this.#open.call(open, run))
      const { data, value } = this.#said(encodeForm(result, `step "${name}"`))
      this.#record(STEP_DONE, step, name, data, 0, tool?.callId, beganAt)
      return value as T
    } catch (error) {
      const failure = tool && error instanceof DramatisError ? error : this.#thread.failure(error, `step "${name}"`)
      if (!this.#turn.ended)
        this.#record(STEP_DONE, step, name, JSON.stringify(errorData(failure)), FAILED, tool?.callId, beganAt)
      throw error
    } finally {
      this.#open.end(open)
      if (!settlements.isFree) await settlements.turn()
      settlements.ended()
      this.#thread.mayPark()
    }
  }

  /** Returns a result as the log has it, where it holds a granted key: a later attempt gets nothing else. */
  #said(form: ReturnType<typeof encodeForm>): ReturnType<typeof encodeForm> {
    const { keys } = this.#thread.outbox
    if (!keys || form.data === undefined) return form
    const data = keys.text(form.data)
    return data === form.data ? form : { data, value: JSON.parse(data) }
  }

  /** Settles a step as the log has it. */
  async #again<T>(settled: Settled): Promise<T> {
    const { settlements } = this.#turn
    const { memory, at } = settled.frame!
    settlements.open += 1
    await new Promise<void>((resolve) => settlements.again(settled, resolve))
    settlements.ended()
    const { data } = readBody(memory, at)
    if (isFailure(memory, at)) throw errorFrom(JSON.parse(data!) as ErrorData)
    return (data === undefined ? undefined : JSON.parse(data)) as T
  }

  /** Resolves when the step may begin. Rejects if its turn has ended meanwhile. */
  async #isWritten(written: WrittenSteps, step: number): Promise<void> {
    const { start } = this.#turn
    await written.wait({ turn: start.turn, step })
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
  }

  #record(
    kind: number,
    step: number,
    content: string,
    data: string | undefined,
    flags: number,
    callId?: string,
    beganAt?: number,
    polling = false,
  ): void {
    const { outbox } = this.#thread
    const { start, ended } = this.#turn
    if (ended) throw this.#turn.refusal()
    const fields = outbox.begin(kind, start.run, start.turn, step, content, data)
    fields.flags = flags
    fields.threadId = callId
    fields.polling = polling
    if (kind === STEP_DONE) this.#turn.settlements.mark(fields)
    if (beganAt !== undefined) fields.limit = Math.min(Math.round(this.#thread.now() - beganAt), 2 ** 31 - 1)
    fields.attempt = start.attempt
    outbox.checkedSize()
    outbox.writeAbout(start.id)
  }
}

interface ToolCall {
  readonly name: string
  readonly input: unknown
  readonly callId: string
  /** Names of granted keys in the input: the frame has them in their places, and the host puts the keys back. */
  readonly redacted?: readonly string[]
}

/** Outcome of a call. `edited`: the input that a person has put in the place of the given one. */
interface Made {
  readonly output: unknown
  readonly edited?: unknown
}

export class TurnTools implements RoleTools {
  /** Descriptions of the tools for a model. */
  get specs(): readonly ToolSpec[] {
    return this.#thread.toolbox.specs
  }

  isSequential(name: string): boolean {
    return this.#thread.toolbox.isSequential(name)
  }

  polls(name: string): boolean {
    return this.#thread.toolbox.polls(name)
  }

  readonly #thread: AgentThread
  readonly #turn: OpenTurn
  readonly #steps: StepRunner
  /** Number of calls made in this turn, by call id. */
  readonly #made = new Map<string, number>()

  constructor(thread: AgentThread, turn: OpenTurn, steps: StepRunner) {
    this.#thread = thread
    this.#turn = turn
    this.#steps = steps
  }

  /** Runs a tool and returns its output. `signal` withdraws the call. */
  async run(name: string, given: unknown, signal?: AbortSignal): Promise<unknown> {
    const { output } = await this.#run(name, given, signal)
    const parts = partsOfResult(output)
    if (!parts) return output
    return resultOfParts(readableParts(parts, ({ hash }) => this.#thread.bytesOf(this.#turn.start.run, hash)))
  }

  async #run(name: string, given: unknown, signal: AbortSignal | undefined): Promise<Made> {
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
    const definition = this.#thread.toolbox.find(name, this.#thread.role.name)
    encodeData(given, 'input')
    const isGuarded = this.#turn.guardedBy?.tool
    const input = isGuarded ? await this.#turn.guard({ on: 'tool', tool: name, input: given }, signal) : given
    const text = encodeData(input, 'input')
    const { keys } = this.#thread.outbox
    const redacted = (text !== undefined && keys?.in(text)) || []
    const callId = this.#callId(name, text && keys ? keys.text(text) : text)
    const call = { name, input, callId, ...(redacted.length > 0 && { redacted }) }
    if (!this.#thread.toolbox.asksApproval(name)) return { output: await this.#perform(call, definition, signal) }
    const { input: approved, isEdited } = await this.#approved(call, definition, signal)
    const output = await this.#perform({ ...call, input: approved }, definition, signal)
    return isEdited ? { output, edited: approved } : { output }
  }

  /** Makes a call that a person has approved, or that needs no approval. */
  async #perform(call: ToolCall, definition: ToolDefinition | null, signal: AbortSignal | undefined): Promise<unknown> {
    const { name, input, callId } = call
    if (!definition) {
      const marked = { ...call, ...(this.polls(name) && { polling: true }) }
      return this.#turn.atWork(() => this.#turn.call('tool', marked, signal))
    }
    if (await this.#isSimulated(definition, signal)) return this.#simulated(definition, input, callId, signal)
    const { idempotent, polling } = definition
    const step = { name, idempotent, tool: { callId, input: encodeData(input, 'input'), polling } }
    return this.#steps.run(step, () => this.#runHere(definition, input, callId, signal))
  }

  /**
   * Returns the input that a person has approved, or that needs no approval. An edited input is checked as the agent's
   * own is; what a check has changed in it is asked about again, since the call has no input that nobody has seen.
   */
  async #approved(
    call: ToolCall,
    definition: ToolDefinition | null,
    signal: AbortSignal | undefined,
  ): Promise<{ input: unknown; isEdited: boolean }> {
    const { name } = call
    let { input } = call
    for (let isEdited = false; ; isEdited = true) {
      const approved = await this.#askPerson({ ...call, input }, definition, signal)
      if (!approved?.isEdited) return { input, isEdited }
      input = approved.input
      if (this.#turn.guardedBy?.tool) input = await this.#turn.guard({ on: 'tool', tool: name, input }, signal)
      if (encodeData(input, 'input') === encodeData(approved.input, 'input')) return { input, isEdited: true }
    }
  }

  /**
   * Asks a person, if the call needs that, and returns the input of the person. The turn only waits meanwhile. The host
   * asks for a tool of its own; in a log of an earlier version it did so within the call.
   */
  async #askPerson(
    call: ToolCall,
    definition: ToolDefinition | null,
    signal: AbortSignal | undefined,
  ): Promise<{ input: unknown; isEdited: boolean } | undefined> {
    const agent = this.#thread.role.name
    const { name, callId, input } = call
    if (!definition) {
      if (this.#turn.start.replay?.asksWithin(callId)) return undefined
      const answer = await this.#turn.call('approve', call, signal)
      return answer === undefined ? undefined : approvedInput(answer, name, { agent, input })
    }
    const approval = await approvalOf(definition, { agent, callId, input })
    return approval && approvedInput(await this.#turn.call('ask', approval, signal), name, { agent, input })
  }

  async #isSimulated({ readOnly, outside }: ToolDefinition, signal: AbortSignal | undefined): Promise<boolean> {
    if (!this.#thread.toolbox.rehearsed) return false
    return (await this.#turn.call('tool.simulated', { readOnly, outside }, signal)) === true
  }

  /** Passes the call to the host, which answers in place of the tool. */
  async #simulated(tool: ToolDefinition, input: unknown, callId: string, signal?: AbortSignal): Promise<unknown> {
    const { name, polling, readOnly, outside, outputSchema } = tool
    await checkedInput(tool, input, this.#thread.role.name)
    const simulated = { readOnly, outside, outputSchema }
    const call = { name, input, callId, simulated, ...(polling && { polling: true }) }
    return this.#turn.atWork(() => this.#turn.call('tool', call, signal))
  }

  /**
   * Runs a tool for a model. `input` is JSON text written by the model; the output is text for the model, or parts.
   * Errors are for the model too, including a `ToolInputError` if the input is no JSON, and a `ToolFailedError` if the
   * role does not accept a part.
   */
  async call(name: string, input: string, signal: AbortSignal | undefined): Promise<Content> {
    const { role } = this.#thread
    const made = await this.#run(name, parsed(name, role.name, input), signal)
    const { output } = made
    // The model must not take the output for that of the call as it has written it.
    const note = 'edited' in made ? `A person has changed the input to ${JSON.stringify(made.edited)}. Output:` : ''
    const parts = partsOfResult(output)
    if (parts) return accepted(name, role, note === '' ? parts : [{ type: 'text', text: note }, ...parts])
    const text = typeof output === 'string' ? output : (JSON.stringify(output) ?? '')
    return note === '' ? text : `${note} ${text}`
  }

  /**
   * Returns the id of a call, which is its idempotency key. It is the same for the same call of the same message in
   * each attempt of the turn, also in a later process. The copies of a broadcast share one message id, so the id of a
   * call depends on the agent too.
   */
  #callId(name: string, input: string | undefined): string {
    const call = v5(JSON.stringify([this.#thread.role.name, name, input]), idText(...this.#turn.start.id))
    const nth = (this.#made.get(call) ?? 0) + 1
    this.#made.set(call, nth)
    return nth === 1 ? call : v5(`${nth}`, call)
  }

  async #runHere(
    tool: ToolDefinition,
    input: unknown,
    callId: string,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const { start, runId } = this.#turn
    const ofTurn = this.#turn.signal
    const either = signal && anyAborted([ofTurn, signal])
    const running = runTool(tool, input, {
      agent: this.#thread.role.name,
      runId,
      caller: own(start.view.metadata, 'caller'),
      tenant: start.view.tenant,
      idempotencyKey: callId,
      log: this.#thread.loggerFor(start, { tool: tool.name }),
      signal: either?.signal ?? ofTurn,
      timer: (ms, task, limit) => this.#thread.timer(ms, task, limit),
      maxBytes: this.#thread.outbox.maxMessageBytes,
      partKeeper: uploadsFor(this.#thread.outbox, start.view),
      progress: (note) => this.#progress(tool.name, callId, note),
    })
    const output = await running.finally(either?.forget)
    return output === undefined ? undefined : JSON.parse(output)
  }

  #progress(tool: string, callId: string, note: string): void {
    if (this.#turn.ended) return
    const { outbox } = this.#thread
    const { run, turn, id } = this.#turn.start
    outbox.begin(LOG, run, turn, 0, note, JSON.stringify({ tool })).threadId = callId
    outbox.writeAbout(id)
  }
}

function accepted(tool: string, { accepts, name }: RoleInfo, parts: readonly MessagePart[]): Content {
  const foreign = parts.find(({ type }) => type !== 'text' && !(accepts?.includes(type) ?? true))
  if (!foreign) return parts
  const text = `Tool "${tool}" gave agent "${name}" a part of type "${foreign.type}", which its role does not accept (accepts). Ask for a text.`
  throw new ToolFailedError(text, { tool, agent: name, type: foreign.type })
}

function parsed(tool: string, agent: string, input: string): unknown {
  if (input.trim() === '') return {} // models write this if a tool needs no input
  try {
    return JSON.parse(input)
  } catch (error) {
    const text = `The input that agent "${agent}" gave the tool "${tool}" is no JSON: ${error instanceof Error ? error.message : ''}`
    throw new ToolInputError(text, { tool, agent }, error)
  }
}

export function toolNameOf(tool: unknown): string {
  const name: unknown = typeof tool === 'string' ? tool : Object(tool).name
  if (typeof name === 'string' && name !== '') return name
  throw new MessageRejectedError(`tool is ${shown(tool)}; a tool or its name is needed.`, {
    path: 'tool',
    got: shown(tool),
  })
}
