/** Asks several agents and continues as soon as enough have answered. */
import type { AgentContext, OrchestratorContext, Outcome, RequestOptions } from '../actors/definition/context.ts'
import type { AnswerFunction } from '../actors/definition/model.ts'
import type { NoteWaiting } from '../actors/definition/promises.ts'
import { checkBySchema } from '../actors/definition/schema.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { LAST_SPEAKER } from '../actors/model/last-speaker.ts'
import { checkSchema, jsonIn, withAnswerSchema, writtenSchema } from '../actors/model/structured-output.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import {
  AgentFailedError,
  CancelledError,
  DramatisError,
  describe,
  type ErrorCode,
  ReplyInvalidError,
} from '../shared/errors.ts'

interface EnoughOptions extends Pick<RequestOptions, 'timeoutMs' | 'wallClock' | 'metadata'> {
  concurrency: number
  /** Told how many agents wait to be asked, whenever that changes. */
  note: NoteWaiting | undefined
}

/**
 * Returns the outcomes so far when `count` agents have answered, in the order of `agents`; the other requests are
 * cancelled. It ends early with fewer answers as soon as too many agents have failed to reach `count`.
 */
export async function askEnough(
  orchestrator: OrchestratorContext,
  agents: readonly string[],
  count: number,
  content: string,
  { concurrency, note, ...options }: EnoughOptions,
): Promise<Outcome[]> {
  if (agents.length < count) return []
  const outcomes = new Map<string, Outcome>()
  const waiting = [...agents]
  const lanes = Math.min(concurrency, agents.length)
  const rest = new AbortController()

  await new Promise<void>((resolve) => {
    const done = (reason: string) => {
      note?.(0)
      rest.abort(new CancelledError(reason))
      resolve() // at once: the run does not wait for the cancelled requests
    }
    const askNext = async (): Promise<void> => {
      const agent = waiting.shift()
      if (agent === undefined || rest.signal.aborted) return
      if (agents.length - waiting.length >= lanes) note?.(waiting.length)
      const outcome = await outcomeOf(agent, () =>
        orchestrator.request(agent, content, { ...options, signal: rest.signal }),
      )
      if (rest.signal.aborted) return
      outcomes.set(agent, outcome)
      const answered = [...outcomes.values()].filter(({ ok }) => ok).length
      if (answered === count) return done('Enough agents have answered.')
      if (outcomes.size - answered > agents.length - count) return done('Too many agents have failed.')
      await askNext()
    }
    for (let lane = 0; lane < lanes; lane++) void askNext()
  })

  return agents.flatMap((agent) => outcomes.get(agent) ?? [])
}

/** Returns the error of a run with too few answers. `asked` is the number of agents. */
export function tooFewAnswers(outcomes: readonly Outcome[], needed: number, asked: number): DramatisError {
  const failures = outcomes.filter((outcome) => !outcome.ok)
  const answered = outcomes.length - failures.length
  const message = `${needed} of ${asked} agents had to answer, ${answered} did.`
  return allFailed(message, failures, { asked, needed, answered })
}

/** Returns the failure itself if there is one alone, otherwise an error that lists all of them behind `text`. */
export function allFailed(
  text: string,
  failures: readonly { agent: string; error: DramatisError }[],
  details: object = {},
): DramatisError {
  const [first] = failures
  if (first && failures.length === 1) return first.error
  const list = failures.map(({ agent, error }) => ` "${agent}": ${error.code}: ${error.message}`)
  const all = failures.map(({ agent, error }) => ({ agent, ...error.toJSON() }))
  return new AgentFailedError(`${text}${list.join(';')}`, { ...details, failures: all }, first?.error)
}

/** Returns the failure of an agent. Throws the error if it is no such failure, or the run has ended. */
export function failureOf({ signal }: Pick<OrchestratorContext, 'signal'>, error: unknown): DramatisError {
  signal.throwIfAborted() // the end of the run is not a failure of the agent
  if (error instanceof DramatisError) return error
  throw error
}

export const isModel = (agents: OrchestratorContext['agents'], agent: string): boolean =>
  agents.some(({ name, playedByModel }) => name === agent && playedByModel)

export async function outcomeOf(agent: string, ask: () => Promise<AgentMessage>): Promise<Outcome> {
  try {
    return { agent, ok: true, message: await ask() }
  } catch (error) {
    return { agent, ok: false, error: errorOf(agent, error) }
  }
}

export const errorOf = (agent: string, error: unknown): DramatisError =>
  error instanceof DramatisError
    ? error
    : new AgentFailedError(`"${agent}" failed: ${describe(error)}`, { agent }, error)

/** Value that the schema returns for an answer, and the message with the answer. */
export interface AskedFor<T> {
  value: T
  message: AgentMessage
}

/** Context of who asks: that of a protocol script, or of an agent. */
export type Asking = Pick<AgentContext, 'request'> & Partial<Pick<OrchestratorContext, 'agents'>>

/**
 * Request options. `asFunction`: a model answers by a call of that function; the schema, which must be an object's,
 * gives its parameters. `contentField`: field of the answer that becomes its content.
 */
export type AskingFor = RequestOptions & { asFunction?: AnswerFunction; contentField?: string }

/**
 * Asks an agent for data. Returns its answer as the schema returns it: its structured data, or the JSON in its content.
 * A model gets the schema with the question. An agent whose answer does not match the schema is told why, and asked
 * once more. A model that gives no JSON at all to a script was told so during its turn, and is not asked again.
 *
 * @throws {ReplyInvalidError} when the answer does not match the schema again; `details` has the agent, the issues and
 *   the content.
 *
 * @example
 * const { value } = await askFor(orchestrator, 'judge', 'Who is right?', z.object({ side: z.enum(['a', 'b']) }))
 */
export async function askFor<T>(
  asker: Asking,
  agent: string,
  content: string,
  schema: ModelSchema<unknown, T>,
  { asFunction, contentField, ...options }: AskingFor = {},
): Promise<AskedFor<T>> {
  checkSchema(schema, 'schema')
  const metadata = {
    ...options.metadata,
    ...withAnswerSchema(writtenSchema(schema, 'schema'), { asFunction, contentField }),
  }
  let words = content
  for (let isLast = false; ; isLast = true) {
    const message = await asker.request(agent, words, { ...options, metadata })
    try {
      return { value: await valueIn(message, schema, agent), message }
    } catch (error) {
      const wasTold = isModel(asker.agents ?? [], agent) && dataOf(message) === undefined
      if (isLast || wasTold || !(error instanceof ReplyInvalidError)) throw error
      words = `${content}\n\nYour last answer cannot be used: ${error.details.issues}. Answer again.`
    }
  }
}

const dataOf = ({ content, structuredData }: AgentMessage): unknown => structuredData ?? jsonIn(content)?.value

async function valueIn<T>(message: AgentMessage, schema: ModelSchema<unknown, T>, agent: string): Promise<T> {
  const missed = (issues: string) =>
    new ReplyInvalidError(`The answer of "${agent}" cannot be used: ${issues}.`, {
      agent,
      issues,
      content: message.content,
    })
  const value = dataOf(message)
  if (value === undefined) throw missed('it has no structured data, and no JSON in its words')
  return checkBySchema(schema, value, missed)
}

export type LastWords = Pick<OrchestratorContext, 'agents' | 'emit' | 'request' | 'requestStream'>

/**
 * Asks one agent for the run's answer, and streams it. A model's output is passed on piece by piece to the reader of
 * the run. Output that code emits may be anything, so its answer comes as a whole. Use `request` if several agents are
 * asked, if only a part of the answer is used, or if another agent is asked after a failure.
 */
export async function lastWord(
  orchestrator: LastWords,
  agent: string,
  content: string,
  options: RequestOptions = {},
): Promise<AgentMessage> {
  const asked = { ...options, metadata: { ...options.metadata, ...LAST_SPEAKER } }
  if (!isModel(orchestrator.agents, agent)) return orchestrator.request(agent, content, asked)
  const stream = orchestrator.requestStream(agent, content, asked)
  for await (const piece of stream) orchestrator.emit(piece)
  return stream.response
}

/** Failures that are decisions of who runs the team: another answer in their place would get around them. */
const DECIDED: ReadonlySet<unknown> = new Set<ErrorCode>(['CONFIGURATION', 'GUARDRAIL'])

/** Returns the failure of an agent that others can make up for. Throws the error if it is none. */
export function madeUpFor(orchestrator: Pick<OrchestratorContext, 'signal'>, thrown: unknown): DramatisError {
  const error = failureOf(orchestrator, thrown)
  if (DECIDED.has(error.code)) throw error
  return error
}

/** Returns metadata that gives a model these verbs as tools for its turn. Code has all verbs, so it gets none. */
export function withVerbs(
  team: OrchestratorContext['agents'],
  agent: string,
  ...verbs: readonly string[]
): { verbs: readonly string[] } | undefined {
  return verbs.length > 0 && isModel(team, agent) ? { verbs } : undefined
}
