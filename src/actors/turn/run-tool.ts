/** Runs one call of a tool, in any thread: checks its input, limits its time, and converts its output to JSON. */

import { plainFrameBytes } from '../../mailbox/frame.ts'
import { jsonFormOf } from '../../mailbox/json.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import {
  CancelledError,
  ConfigurationError,
  DramatisError,
  describe,
  type ErrorData,
  OutcomeUnknownError,
  shown,
  ToolFailedError,
  ToolInputError,
  ToolTimeoutError,
} from '../../shared/errors.ts'
import { anyAborted, onAbort } from '../../shared/on-abort.ts'
import type { ToolCode } from '../definition/assignment.ts'
import { asJson, type PartKeeper, partsOfResult, resultOfParts } from '../definition/content.ts'
import type { ToolSpec } from '../definition/model.ts'
import { checkBySchema } from '../definition/schema.ts'
import {
  type Held,
  keepNotes,
  type LogLevel,
  type ToolAskOptions,
  type ToolContext,
  type ToolDefinition,
  toolDefinitionOf,
  usable,
} from '../definition/tool.ts'

/**
 * Flushes the output that a thread has printed to the host. The thread calls it before it reports that it is done,
 * because the host may terminate it after that.
 */

export async function printed(): Promise<void> {
  await Promise.all([process.stdout, process.stderr].map(flushed))
}

async function flushed(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}

/** The caller's identity, and the resources of the call. */
export interface ToolCaller
  extends Pick<ToolContext, 'agent' | 'runId' | 'caller' | 'tenant' | 'idempotencyKey' | 'log'> {
  /** Aborted when the caller no longer waits for the call. */
  readonly signal: AbortSignal
  readonly timer: Scheduler['timer']
  /** Notes for a later process; undefined: this is another thread than the host's. */
  readonly notes?: Omit<Held, 'ask' | 'untimed'>
  /** Asks a person, by the clock of `timer`; undefined: this is another thread than the host's. */
  readonly person?: {
    ask(question: string, options: ToolAskOptions, signal: AbortSignal): Promise<string>
    monotonic(): number
  }
  /** Maximum size of the output in bytes, encoded as a frame. */
  readonly maxBytes: number
  /** Keeps the bytes of large parts of the output; undefined: they are a part of it. */
  readonly partKeeper?: PartKeeper
  progress(note: string): void
}

const LONGEST_NOTE = 2_000
/** Errors of this library that a tool may throw itself; they are passed on unchanged. */
const OWN = [ToolInputError, ToolFailedError, ToolTimeoutError, OutcomeUnknownError] as const
/** Maximum number of progress notes per call; further notes are dropped. */
const MOST_NOTES = 1_000

/**
 * Runs a tool and returns its output as JSON; undefined if it has none. Rejects with `ToolInputError`,
 * `ToolTimeoutError`, `ToolFailedError`, or the abort reason of the signal.
 */
export async function runTool(tool: ToolDefinition, input: unknown, caller: ToolCaller): Promise<string | undefined> {
  const { agent, runId, tenant, idempotencyKey, log, signal } = caller
  if (signal.aborted) throw reasonOf(signal, tool.name, agent)
  const ending = new AbortController()
  const asking = new AbortController() // also over when the tool has ended
  let cut = (_error: DramatisError) => {}
  const cutOff = new Promise<never>((_resolve, reject) => {
    cut = (error) => {
      reject(error) // reject first: the caller gets this error, however the tool reacts to its signal
      ending.abort(error)
      asking.abort(error)
    }
  })
  cutOff.catch(() => {}) // also after the tool has ended
  const limit = new Limit(tool.timeoutMs, caller, () => cut(tookTooLong(tool, agent)))
  const stop = onAbort(signal, () => cut(reasonOf(signal, tool.name, agent)))
  let notes = MOST_NOTES
  const context: ToolContext = {
    agent,
    runId,
    caller: caller.caller,
    tenant,
    idempotencyKey,
    log,
    signal: ending.signal,
    progress: (note) => {
      if (notes-- > 0) caller.progress(String(note).slice(0, LONGEST_NOTE))
    },
    ask: (question, options = {}) => {
      const answer = ask(question, options)
      answer.catch(() => {}) // the tool may await it later, or not at all
      return answer
    },
  }
  const ask = async (question: string, options: ToolAskOptions, until = asking.signal) => {
    const { person } = caller
    if (!person) throw cannotAsk(tool.name, agent)
    asking.signal.throwIfAborted()
    const either = anyAborted([asking.signal, until])
    return limit.without(person, () => person.ask(question, options, either.signal)).finally(() => either.forget())
  }
  const { notes: kept, person } = caller
  const untimed = <T>(work: () => Promise<T>) => (person ? limit.without(person, work) : work())
  if (kept) keepNotes(context, { ...kept, ask, untimed })
  try {
    return await Promise.race([performed(tool, input, context, caller), cutOff])
  } finally {
    notes = 0
    asking.abort(new CancelledError(`The call of the tool "${tool.name}" is over.`, { tool: tool.name, agent }))
    limit.cancel()
    stop()
  }
}

/** A time limit that stands still while a person is asked. */
class Limit {
  readonly #caller: ToolCaller
  readonly #late: () => void
  #leftMs: number
  #since: number
  #asking = 0
  #timer: Timer | undefined

  constructor(ms: number, caller: ToolCaller, late: () => void) {
    this.#caller = caller
    this.#late = late
    this.#leftMs = ms
    this.#since = caller.person?.monotonic() ?? 0
    this.#timer = caller.timer(ms, late, true)
  }

  async without<T>({ monotonic }: { monotonic(): number }, work: () => Promise<T>): Promise<T> {
    if (this.#asking++ === 0) {
      this.#timer?.cancel()
      this.#leftMs -= monotonic() - this.#since
    }
    try {
      return await work()
    } finally {
      if (--this.#asking === 0 && this.#timer) {
        this.#since = monotonic()
        this.#timer = this.#caller.timer(Math.max(0, this.#leftMs), this.#late, true)
      }
    }
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }
}

async function performed(
  tool: ToolDefinition,
  input: unknown,
  context: ToolContext,
  { maxBytes, partKeeper }: ToolCaller,
): Promise<string | undefined> {
  const { agent } = context
  try {
    const value = await checkedInput(tool, input, agent)
    const output = await tool.run(value, context)
    const parts = partKeeper && partsOfResult(output)
    const kept = parts ? resultOfParts(asJson(parts, partKeeper) as MessagePart[]) : output
    return outputOf(tool, agent, kept, maxBytes)
  } catch (error) {
    if (OWN.some((own) => error instanceof own)) throw error
    const text = `Tool "${tool.name}", called by agent "${agent}", failed: ${describe(error)}`
    throw new ToolFailedError(text, { tool: tool.name, agent }, error)
  }
}

/** Returns the input as the tool's schema parses it. Rejects with `ToolInputError` if the input does not match. */
export function checkedInput({ name, input: schema }: ToolDefinition, input: unknown, agent: string): Promise<unknown> {
  return checkBySchema(schema, input, (issues) => misses(name, agent, issues))
}

function outputOf({ name }: ToolDefinition, agent: string, output: unknown, maxBytes: number): string | undefined {
  if (output === undefined) return undefined
  const { value, issue } = jsonFormOf(output, 'output')
  if (issue) {
    const { path, got, advice } = issue
    const text = `Tool "${name}" gave agent "${agent}" what is no JSON: ${path} is ${got}. ${advice}`
    throw new ToolFailedError(text, { tool: name, agent, path, got })
  }
  const text = JSON.stringify(value)
  const bytes = plainFrameBytes('', text)
  if (bytes <= maxBytes) return text
  throw new ToolFailedError(
    `Tool "${name}" gave agent "${agent}" ${bytes} bytes; at most ${maxBytes} are taken (communication.maxMessageBytes). Let it return less, or a reference.`,
    { tool: name, agent, bytes, limit: maxBytes },
  )
}

const misses = (tool: string, agent: string, issues: string) =>
  new ToolInputError(`The input that agent "${agent}" gave the tool "${tool}" misses its schema: ${issues}`, {
    tool,
    agent,
    issues,
  })

const cannotAsk = (tool: string, agent: string) =>
  new ConfigurationError(
    `ask: the tool "${tool}" of agent "${agent}" has no person to ask, since it runs in another thread than the host's. Give it inline (tools: [it]), or let the agent ask.`,
    { path: 'ask', tool, agent },
  )

const tookTooLong = ({ name, timeoutMs }: Pick<ToolDefinition, 'name' | 'timeoutMs'>, agent: string) =>
  new ToolTimeoutError(
    `Tool "${name}", called by agent "${agent}", did not end within ${timeoutMs} ms. Raise its timeoutMs, or ask it for less.`,
    { tool: name, agent, timeoutMs },
  )

function reasonOf({ reason }: AbortSignal, tool: string, agent: string): DramatisError {
  if (reason instanceof DramatisError) return reason
  const text = `Agent "${agent}" no longer waits for the tool "${tool}": its signal was aborted.`
  return new CancelledError(text, { tool, agent }, reason)
}

/** Position of the export, as in `ToolCode`. */
interface Place {
  readonly export: string
  readonly shown: string
  readonly option: string
}

/**
 * Returns the tool with that name among a module's exports.
 *
 * @throws ConfigurationError if the export is no tool, or one that cannot work here.
 */
export function toolIn(exports: object, { export: name, shown: module, option }: Place): ToolDefinition {
  const exported: unknown = Reflect.get(exports, name)
  const tool = toolDefinitionOf(exported)
  const path = `${option}.${name === 'default' ? 'module' : 'export'}`
  if (tool) return usable(tool, path)
  const others = Object.keys(exports).filter((other) => toolDefinitionOf(Reflect.get(exports, other)))
  const advice =
    others.length > 0 ? `Tools among its exports: ${others.join(', ')}.` : 'Write: export default defineTool({ ... }).'
  const got = exported === undefined ? 'nothing' : `${shown(exported)}, which is no tool`
  throw new ConfigurationError(`${path}: the module ${module} has ${got} as its export "${name}". ${advice}`, {
    path,
    module,
    got: shown(exported),
    accepted: 'what defineTool returns',
  })
}

/** A task for the thread. Without a `call` the thread only describes the tool. */
export interface ToolTask {
  code: ToolCode
  call?: {
    agent: string
    runId: string
    caller?: string | undefined
    tenant?: string | undefined
    idempotencyKey: string
    input: unknown
    /** Maximum size of the output in bytes, encoded as a frame. */
    maxBytes: number
    /** True: check the input only, do not run the tool. */
    checkOnly?: boolean
  }
}

/** Description of a tool for the host. */
export type IsolatedSpec = ToolSpec &
  Pick<
    ToolDefinition,
    | 'timeoutMs'
    | 'sequential'
    | 'polling'
    | 'approval'
    | 'approvers'
    | 'answerWithinMs'
    | 'idempotent'
    | 'readOnly'
    | 'outside'
    | 'outputSchema'
  >

/** Result of a task. `importing`: the import of the module threw. */
export type ToolTaskResult =
  | { ok: true; tool: IsolatedSpec }
  | { ok: true; output: string | undefined }
  | { ok: false; error: ErrorData; importing?: true }

/** Posted by the thread during a task, before `{ done: ToolTaskResult }`. The fields of a log line are JSON. */
export type ToolNotice = { progress: string } | { log: LogLevel; fields: string; text: string }
