/** Tools that the host runs for agents: those given inline, and those with a thread of their own. */

import { isDeepStrictEqual } from 'node:util'
import { v5 } from 'uuid'
import { approvalOf, approvedInput, type GivenAnswer } from '../../actors/definition/approval.ts'
import type { AssignedTools } from '../../actors/definition/assignment.ts'
import type { Verb } from '../../actors/definition/role.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import {
  ANY_OTHER,
  type CallSpan,
  type Logger,
  type LogLevel,
  noSuchField,
  type ToolAskOptions,
  type ToolDefinition,
} from '../../actors/definition/tool.ts'
import { GrantedKeys } from '../../actors/turn/granted.ts'
import { runTool, type ToolCaller } from '../../actors/turn/run-tool.ts'
import { jsonFormOf } from '../../mailbox/json.ts'
import { environment } from '../../shared/environment.ts'
import {
  ConfigurationError,
  DramatisError,
  describe,
  errorData,
  errorFrom,
  MessageRejectedError,
  OutcomeUnknownError,
  shown,
  ToolFailedError,
} from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { Dice } from '../../shared/random.ts'
import { picked } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { callerIn, type RunState } from '../host/run.ts'
import { outputField } from '../log/host-frames.ts'
import type { ToolSettings } from '../settings/tools.ts'
import { invalidInput, isApprovedIn, noteApproval } from './approvals.ts'
import type { HostVerb, VerbWaiter } from './calls.ts'
import type { Guards } from './guards.ts'
import { CHECKED_THERE, IsolatedTools, type ToolPools } from './isolated-tools.ts'
import type { AskPerson } from './questions.ts'

/*
 * Which tools run where the rehearsal model answers. Its arguments are invented, and so is all that follows from them:
 * a tool that changes something does not run, but is answered in its place.
 */

const LABEL = '[rehearsal]'
const SEED = 1

/** Properties of a tool by which it is decided whether it runs in a rehearsal. */
export type Rehearsable = Pick<ToolDefinition, 'readOnly' | 'outside'>

/** Properties of a thread's own tool, as the thread states them. The host must check every field. */
export type ThreadTool = Rehearsable & Pick<ToolDefinition, 'outputSchema'>

export interface ToolRehearsal {
  /** False where no run of the team can be a rehearsal, or all tools run. */
  readonly isPossible: boolean
  simulates(run: RunState, tool: Rehearsable): boolean
  /** The same tool, which checks its input and says what it might have said. */
  inPlaceOf(tool: ToolDefinition, input: unknown): ToolDefinition
  /** Runs one that is not simulated. */
  perform<T>(tool: ToolDefinition, work: () => Promise<T>): Promise<T>
}

export const NO_REHEARSAL: ToolRehearsal = {
  isPossible: false,
  simulates: () => false,
  inPlaceOf: (tool) => tool,
  perform: (_tool, work) => work(),
}

export interface RehearsalRules {
  /** Checks whether the rehearsal model answers in this run, or has answered. */
  isRehearsed(run: RunState): boolean
  /** Time is virtual, and cannot wait for what goes on outside. */
  isVirtual: boolean
  /** Told before a tool is answered in place of. */
  onSimulated?(): unknown
}

export function toolRehearsal({ isRehearsed, isVirtual, onSimulated }: RehearsalRules): ToolRehearsal {
  return {
    ...NO_REHEARSAL,
    isPossible: true,
    simulates: (run, { readOnly, outside }) => (!readOnly || (isVirtual && outside)) && isRehearsed(run),
    inPlaceOf(tool, input) {
      onSimulated?.()
      return {
        ...tool,
        async run(_value, context) {
          await tool.check?.(input, context)
          return answerOf(tool, input)
        },
      }
    },
  }
}

/** The same for the same input. */
async function answerOf({ name, outputSchema }: ToolDefinition, input: unknown): Promise<unknown> {
  if (!outputSchema) return `${LABEL} "${name}" was not run, because this is a rehearsal.`
  const { sampleOf } = await import('../providers/json-sample.ts')
  return sampleOf(outputSchema, new Dice(SEED, JSON.stringify([name, input])), LABEL)
}

/** A tool of a thread as the host has it: what checks its input has done so there. */
export function threadTool(name: string, told: Partial<ThreadTool>): ToolDefinition {
  const { outputSchema } = told
  return {
    name,
    description: '',
    input: CHECKED_THERE,
    inputSchema: {},
    outputSchema: typeof outputSchema === 'object' && outputSchema !== null ? outputSchema : undefined,
    readOnly: told.readOnly === true,
    outside: told.outside === true,
    idempotent: true,
    timeoutMs: TIMEOUT_MS,
    sequential: false,
    polling: false,
    approval: false,
    approvers: ANY_OTHER,
    needsApproval: () => false,
    run: () => undefined,
  }
}

const TIMEOUT_MS = 30_000

/** Call of a tool, as a thread asks for it. The host must check every field. */
export interface ToolCall {
  name: unknown
  input: unknown
  callId: unknown
  /** Names of granted keys, which stand in the input in the places of the keys. */
  redacted?: unknown
  /** Set if the tool is one of the thread's own, in whose place the host answers. */
  simulated?: Partial<ThreadTool>
}

/** Does the work of a call where it is to be done: below its span. */
export type AroundTool = <T>(waiter: VerbWaiter, work: (span?: CallSpan) => Promise<T>) => Promise<T>

interface Note {
  readonly state: unknown
  readonly mayHaveRun?: true | undefined
}

interface Begun {
  agent: string
  messageId: string
  callId: string
  tool: string
}

export class HostTools {
  /** Which tools run where the rehearsal model answers. */
  rehearsal: ToolRehearsal = NO_REHEARSAL
  around: AroundTool = (_waiter, work) => work()
  /** Calls that began in an earlier process, and may not run a second time: not when their turn is retried either. */
  readonly interrupted = new Set<string>()
  /** The last notes of calls that began in an earlier process, or were given up in this one. */
  readonly held = new Map<string, Note>()
  /** Calls under way that may not run twice. */
  readonly #unrepeatable = new Set<VerbWaiter & Pick<Begun, 'tool'>>()
  readonly #core: Core
  readonly #guards: Guards
  readonly #ask: AskPerson
  readonly #isolated: IsolatedTools
  /** Those of an agent that have a thread of their own, once they are loaded. */
  readonly #loaded = new WeakMap<ToolSettings, ToolDefinition[]>()

  constructor(core: Core, guards: Guards, pools: ToolPools, ask: AskPerson) {
    this.#core = core
    this.#guards = guards
    this.#ask = ask
    this.#isolated = new IsolatedTools(core, pools)
  }

  get verbs(): [Verb, HostVerb][] {
    return [
      ['tool', (args, caller, signal) => this.call(caller, args as Partial<ToolCall>, signal)],
      ['approve', (args, caller, signal) => this.#approve(caller, args as Partial<ToolCall>, signal)],
      ['tool.simulated', (args, { run }) => this.isSimulated(run, args as object)],
    ]
  }

  /**
   * Returns the descriptions of the tools that the host runs, before the agent starts. Rejects as `IsolatedTools.load`
   * does.
   */
  async specsOf({ settings }: Agent, from: string): Promise<AssignedTools['host']> {
    const { inline, isolated } = settings.tools
    const { maxMessageBytes } = settings.mailbox
    const loaded = await Promise.all(isolated.map((tool) => this.#isolated.load(tool, settings, maxMessageBytes, from)))
    this.#loaded.set(settings.tools, loaded)
    return [...inline, ...loaded.map((tool, i) => ({ tool, option: isolated[i]!.option }))].map(specOf)
  }

  /** Checks whether a tool of a thread does not run in this run, by what the thread says of the tool. */
  isSimulated(run: RunState, told: object): boolean {
    return this.rehearsal.simulates(run, threadTool('', told))
  }

  /** Those of an agent that do not run where they are simulated, as far as they are known by now. */
  harmfulOf({ settings: { tools }, harmful }: Agent): string[] {
    const own = [...tools.inline.map(({ tool }) => tool), ...(this.#loaded.get(tools) ?? [])]
    return [...own.filter(({ readOnly }) => !readOnly).map(({ name }) => name), ...harmful]
  }

  unrepeatableIn({ index }: Agent, turn: number): string | undefined {
    for (const { agent, turn: of, tool } of this.#unrepeatable) if (agent.index === index && of === turn) return tool
    return undefined
  }

  /** True if any call is under way that may not run twice. */
  get isUnrepeatable(): boolean {
    return this.#unrepeatable.size > 0
  }

  close(): void {
    this.#isolated.close()
  }

  /**
   * Runs a tool and returns its output, a JSON value. The run gets an event for the start and for the end of the call.
   */
  async call(waiter: VerbWaiter, given: Partial<ToolCall>, signal: AbortSignal): Promise<unknown> {
    const { agent, run } = waiter
    const { name } = named(given)
    const { simulated } = given
    const tool = simulated ? this.#inThread(agent, run, name, simulated) : this.#find(agent, name)
    return this.perform(waiter, tool, given, signal)
  }

  /** Does the same with a tool that is none of the agent's. `notesFirst`: it does nothing before its first note. */
  async perform(
    waiter: VerbWaiter,
    tool: ToolDefinition,
    given: Partial<ToolCall>,
    signal: AbortSignal,
    { notesFirst = false } = {},
  ): Promise<unknown> {
    const { agent, run } = waiter
    const { callId } = named(given)
    const call: Begun = { agent: agent.name, messageId: agent.messageIdOf(waiter.turn), callId, tool: tool.name }
    const note = this.held.get(callId)
    const mayHaveRun = note ? note.mayHaveRun : !notesFirst
    if (this.interrupted.has(callId) && !tool.idempotent && mayHaveRun) throw unknownOutcome(call)
    const isApproved = tool.approval && isApprovedIn(run, callId, given.input)
    const input = isApproved ? given.input : await this.#approvedInput(waiter, tool, given.input, callId, signal)
    const { clock } = this.#core
    const began = clock.monotonic()
    const isSimulated = this.rehearsal.simulates(run, tool)
    if (!tool.idempotent && !isSimulated && this.#core.isHandingOver)
      await unlessAborted(signal, new Promise<never>(() => {})) // the next process calls it
    const performed = isSimulated ? this.rehearsal.inPlaceOf(tool, input) : tool
    this.#core.journal.record(run, { kind: 'tool.started', ...call, input, ...(isSimulated && { simulated: true }) })
    const keys = isSimulated ? undefined : keysIn(agent, given)
    const writing = isSimulated ? undefined : this.#core.journal.written()
    const underWay = { ...waiter, tool: tool.name }
    if (!tool.idempotent && !isSimulated) this.#unrepeatable.add(underWay)
    let error: DramatisError | null = null
    let output: string | undefined
    try {
      if (writing) await writing
      signal.throwIfAborted()
      const said = await this.around(waiter, (span) => {
        const caller = this.#caller(waiter, call, signal, keys, span)
        const work = () => runTool(performed, keys ? keys.filled(input) : input, caller)
        return isSimulated ? work() : this.rehearsal.perform(tool, work)
      })
      output = said && keys ? keys.text(said) : said
      return output === undefined ? undefined : JSON.parse(output)
    } catch (thrown) {
      const failed =
        thrown instanceof DramatisError ? thrown : new ToolFailedError(describe(thrown), { ...call }, thrown)
      const data = errorData(failed)
      error = errorFrom(keys ? keys.data(data) : data) // an error of a client may hold its requests, and they a key
      throw keys ? error : failed
    } finally {
      this.#unrepeatable.delete(underWay)
      this.held.delete(callId)
      const finished = { durationMs: clock.monotonic() - began, ...outputField(output), error }
      this.#core.journal.record(run, { kind: 'tool.finished', ...call, ...finished })
    }
  }

  /**
   * Asks a person for the approval of a call, before the call is made: meanwhile its turn only waits. Returns undefined
   * if the call needs none.
   */
  async #approve(waiter: VerbWaiter, given: Partial<ToolCall>, signal: AbortSignal): Promise<GivenAnswer | undefined> {
    const { agent, run } = waiter
    const { name, callId } = named(given)
    const tool = this.#find(agent, name)
    const { input } = given
    const approval = await approvalOf(tool, { agent: agent.name, callId, input })
    if (!approval) return undefined
    const answer = await this.#ask(waiter, approval, signal, (edited) => takes(tool, edited))
    noteApproval(run, approval, answer)
    return answer
  }

  /**
   * Returns the input with which a person lets a call begin that was made without asking before. An edited input is
   * checked; what a check has changed in it is asked about again.
   */
  async #approvedInput(
    waiter: VerbWaiter,
    tool: ToolDefinition,
    input: unknown,
    callId: string,
    signal: AbortSignal,
  ): Promise<unknown> {
    const agent = waiter.agent.name
    const approval = await approvalOf(tool, { agent, callId, input })
    if (!approval) return input
    const answer = await this.#ask(waiter, approval, signal, (edited) => takes(tool, edited))
    const approved = approvedInput(answer, tool.name, { agent, input })
    if (!approved.isEdited) return approved.input
    const checked = await this.#guards.inputOf(waiter, tool.name, approved.input, signal)
    if (isDeepStrictEqual(checked, approved.input)) return checked
    return this.#approvedInput(waiter, tool, checked, callId, signal)
  }

  #find({ name: agent, settings }: Agent, name: string): ToolDefinition {
    const { tools } = settings
    const own = [...tools.inline.map(({ tool }) => tool), ...(this.#loaded.get(tools) ?? [])]
    const found = own.find((tool) => tool.name === name)
    if (found) return found
    throw new ConfigurationError(`Agent "${agent}" has no tool "${shown(name)}".`, { agent, got: shown(name) })
  }

  /** Returns a tool that the host cannot run itself. The rehearsal model answers it, or the call is refused. */
  #inThread({ name: agent }: Agent, run: RunState, name: string, told: Partial<ThreadTool>): ToolDefinition {
    const tool = threadTool(name, told)
    if (this.rehearsal.simulates(run, tool)) return tool
    throw new ConfigurationError(`The tool "${name}" of agent "${agent}" runs in its thread.`, { agent, got: name })
  }

  #caller(
    waiter: VerbWaiter,
    call: Begun,
    signal: AbortSignal,
    keys: GrantedKeys | undefined,
    span: CallSpan | undefined,
  ): ToolCaller {
    const { agent, run } = waiter
    const state = this.held.get(call.callId)?.state
    const { clock, logger } = this.#core
    const asked = new Set<string>()
    return {
      agent: agent.name,
      runId: run.id,
      caller: callerIn(run.metadata) ?? undefined,
      tenant: run.tenant,
      idempotencyKey: call.callId,
      log: withFields(logger, { agent: agent.name, runId: run.id, tool: call.tool }),
      signal,
      timer: (ms, task, limit) => clock.timer(ms, task, limit),
      notes: {
        state: state !== undefined && keys ? keys.filled(state) : state,
        span,
        note: async (given, { mayHaveRun = false } = {}) => {
          const state = keys ? keys.data(given as object) : given
          const { agent: name, callId, tool } = call
          const note = { agent: name, callId, tool, state, ...(mayHaveRun && { mayHaveRun: true as const }) }
          this.#core.journal.record(run, { kind: 'tool.held', ...note })
          await this.#core.journal.written()
        },
      },
      person: {
        monotonic: () => clock.monotonic(),
        ask: async (question, options, withdrawn) => {
          const { key = `${asked.size}`, ...said } = askedIn(question, options)
          if (asked.has(key)) throw wrongAsk('key', `${shown(key)} is the key of another question of the call`)
          asked.add(key)
          const id = v5(JSON.stringify([run.id, call.callId, key, said]), QUESTIONS)
          const of = { ...waiter, ofTool: waiter.callId, callId: id }
          return (await this.#ask(of, keys ? keys.data(said) : said, withdrawn)) as string
        },
      },
      maxBytes: agent.settings.mailbox.maxMessageBytes,
      partKeeper: this.#core.parts.keeperFor(run),
      progress: (said) => {
        const note = keys ? keys.text(said) : said
        this.#core.journal.record(run, { kind: 'tool.progress', ...call, note })
      },
    }
  }
}

/** Namespace of the ids of questions that tools ask. */
const QUESTIONS = '5b1de0c3-7f64-5a0e-8d43-1f6a9c27e8b4'

/** Returns the agent's keys that stand in the input under their names; undefined for most calls. */
function keysIn({ settings }: Agent, { redacted }: Partial<ToolCall>): GrantedKeys | undefined {
  if (!Array.isArray(redacted)) return undefined
  const names = settings.env.filter((name) => redacted.includes(name))
  return GrantedKeys.of(picked(environment(), names), names)
}

/** Returns the question of a tool as it is asked. Fields that only the runtime has are refused. */
function askedIn(question: string, options: ToolAskOptions) {
  const { choices, form, answerWithinMs, key, ...others } = Object(options) as ToolAskOptions
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw wrongAsk(unknown, noSuchField(unknown, ['choices', 'form', 'answerWithinMs', 'key']))
  if (key !== undefined && typeof key !== 'string') throw wrongAsk('key', `it is ${shown(key)}; accepted: a text`)
  const read = jsonFormOf(form ?? null, 'form')
  if (read.issue) throw wrongAsk('form', `${read.issue.path} is ${read.issue.got}; accepted: a JSON schema`)
  const given = { choices, answerWithinMs, key, form: read.value ?? undefined }
  return { question, ...given } as { question: string } & ToolAskOptions
}

const wrongAsk = (path: string, why: string) => new MessageRejectedError(`ask: ${path}: ${why}.`, { path })

function named({ name, callId }: Partial<ToolCall>): { name: string; callId: string } {
  for (const [path, value] of Object.entries({ name, callId }))
    if (typeof value !== 'string') throw new MessageRejectedError(`tool: ${path} is ${shown(value)}.`, { path })
  return { name: name as string, callId: callId as string }
}

/** Rejects with `ConfigurationError` for an input that a person gives and the tool would refuse. */
async function takes({ name, input: schema }: ToolDefinition, input: unknown): Promise<void> {
  await checkBySchema(schema, input, (issues) => invalidInput(name, issues))
}

const unknownOutcome = ({ agent, tool, callId }: Begun) =>
  new OutcomeUnknownError(
    `The process ended while the tool "${tool}" of agent "${agent}" was under way: it may have happened, or not, so it is not run again. Mark the tool { idempotent: true } if it may.`,
    { agent, tool, callId },
  )

export const specOf = ({ option, tool }: { option: string; tool: ToolDefinition }) => ({
  option,
  name: tool.name,
  description: tool.description,
  inputSchema: tool.inputSchema,
  sequential: tool.sequential,
  polling: tool.polling,
  approval: tool.approval,
})

/** A logger whose lines have these fields beside their own. */
function withFields(logger: Logger, all: object): Logger {
  // pino takes a text alone as well
  const write = (level: LogLevel) => (fields: object, text: string) =>
    typeof fields === 'string' && text === undefined
      ? logger[level](all, fields)
      : logger[level]({ ...fields, ...all }, text)
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
