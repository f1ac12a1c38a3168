/** Runs the tools of one turn. Each call is a step, so a redelivered turn gets the tool's output from the log. */
import { v5 } from 'uuid'
import { idText } from '../../mailbox/frame.ts'
import { type ReadBytes, readableParts } from '../../mailbox/stored-parts.ts'
import type { Scheduler } from '../../shared/clock.ts'
import {
  type DramatisError,
  MessageRejectedError,
  shown,
  ToolFailedError,
  ToolInputError,
} from '../../shared/errors.ts'
import { anyAborted } from '../../shared/on-abort.ts'
import { approvalOf, approvedInput } from '../definition/approval.ts'
import { encodeData } from '../definition/checks.ts'
import { type Content, type MessagePart, partsOfResult, resultOfParts } from '../definition/content.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { Logger, ToolDefinition } from '../definition/tool.ts'
import type { RoleTools } from '../model/verb-tools.ts'
import type { Outbox } from './link.ts'
import type { TurnStart } from './replay.ts'
import { checkedInput, runTool } from './run-tool.ts'
import { uploadsFor } from './run-views.ts'
import type { Toolbox } from './toolbox.ts'

export interface ToolNeeds {
  readonly outbox: Outbox
  readonly role: RoleInfo
  readonly timer: Scheduler['timer']
  readonly toolbox: Toolbox
  /** Returns what reads stored bytes of that run. */
  bytesOf(run: number, hash: string): ReadBytes
  /** Returns a logger; `fields` are added to each of its lines. */
  loggerFor(start: TurnStart, fields?: object): Logger
}

/** A step: the handler's own, or a tool of this thread if `tool` is set. */
export interface StepOf {
  readonly name: string
  readonly idempotent: boolean
  readonly tool?: { readonly callId: string; readonly input: string | undefined; readonly polling: boolean }
}

/** The parts of its turn that are needed here. */
export interface ToolTurn {
  readonly start: TurnStart
  readonly runId: string
  signal(): AbortSignal
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
  /** Calls a verb that the host serves. */
  call(operation: string, args: object, signal?: AbortSignal): Promise<unknown>
  /** Has a call checked; returns its input, changed or not. Only where there are checks. */
  guard?(tool: string, input: unknown, signal: AbortSignal | undefined): Promise<unknown>
  runStep<T>(step: StepOf, run: () => Promise<T>): Promise<T>
  /** Runs `work` and counts it as the turn's own work. */
  atWork<T>(work: () => Promise<T>): Promise<T>
  progress(tool: string, callId: string, note: string): void
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
    return this.#needs.toolbox.specs
  }

  isSequential(name: string): boolean {
    return this.#needs.toolbox.isSequential(name)
  }

  polls(name: string): boolean {
    return this.#needs.toolbox.polls(name)
  }

  readonly #needs: ToolNeeds
  readonly #turn: ToolTurn
  /** Number of calls made in this turn, by call id. */
  readonly #made = new Map<string, number>()

  constructor(needs: ToolNeeds, turn: ToolTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Runs a tool and returns its output. `signal` withdraws the call. */
  async run(name: string, given: unknown, signal?: AbortSignal): Promise<unknown> {
    const { output } = await this.#run(name, given, signal)
    const parts = partsOfResult(output)
    if (!parts) return output
    return resultOfParts(readableParts(parts, ({ hash }) => this.#needs.bytesOf(this.#turn.start.run, hash)))
  }

  async #run(name: string, given: unknown, signal: AbortSignal | undefined): Promise<Made> {
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
    const definition = this.#needs.toolbox.find(name, this.#needs.role.name)
    encodeData(given, 'input')
    const { guard } = this.#turn
    const input = guard ? await guard(name, given, signal) : given
    const text = encodeData(input, 'input')
    const { keys } = this.#needs.outbox
    const redacted = (text !== undefined && keys?.in(text)) || []
    const callId = this.#callId(name, text && keys ? keys.text(text) : text)
    const call = { name, input, callId, ...(redacted.length > 0 && { redacted }) }
    if (!this.#needs.toolbox.asksApproval(name)) return { output: await this.#perform(call, definition, signal) }
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
    return this.#turn.runStep(step, () => this.#runHere(definition, input, callId, signal))
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
    const { guard } = this.#turn
    let { input } = call
    for (let isEdited = false; ; isEdited = true) {
      const approved = await this.#askPerson({ ...call, input }, definition, signal)
      if (!approved?.isEdited) return { input, isEdited }
      input = guard ? await guard(name, approved.input, signal) : approved.input
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
    const agent = this.#needs.role.name
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
    if (!this.#needs.toolbox.rehearsed) return false
    return (await this.#turn.call('tool.simulated', { readOnly, outside }, signal)) === true
  }

  /** Passes the call to the host, which answers in place of the tool. */
  async #simulated(tool: ToolDefinition, input: unknown, callId: string, signal?: AbortSignal): Promise<unknown> {
    const { name, polling, readOnly, outside, outputSchema } = tool
    await checkedInput(tool, input, this.#needs.role.name)
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
    const { role } = this.#needs
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
    const call = v5(JSON.stringify([this.#needs.role.name, name, input]), idText(...this.#turn.start.id))
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
    const ofTurn = this.#turn.signal()
    const either = signal && anyAborted([ofTurn, signal])
    const running = runTool(tool, input, {
      agent: this.#needs.role.name,
      runId,
      idempotencyKey: callId,
      log: this.#needs.loggerFor(start, { tool: tool.name }),
      signal: either?.signal ?? ofTurn,
      timer: (ms, task, limit) => this.#needs.timer(ms, task, limit),
      maxBytes: this.#needs.outbox.maxMessageBytes,
      partKeeper: uploadsFor(this.#needs.outbox, start.view),
      progress: (note) => this.#turn.progress(tool.name, callId, note),
    })
    const output = await running.finally(either?.forget)
    return output === undefined ? undefined : JSON.parse(output)
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
