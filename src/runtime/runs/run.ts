/** A run as its caller sees it, and the options that it takes. The handle itself is in run-handle.ts. */

import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import type { ModelMessage, TokenUsage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import type { BlackboardView } from '../../blackboard/views.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { finite, integer, oneOf, shape, text } from '../../shared/checks.ts'
import { type ErrorCode, shown, UnknownRunError } from '../../shared/errors.ts'
import type { Redactor } from '../logging/redactor.ts'
import { type Money, MoneySum } from '../settings/money.ts'
import type { TokenLimit } from '../settings/options.ts'
import type { AnswerOptions } from '../verbs/approvals.ts'
import type { OpenQuestionInfo } from '../verbs/questions.ts'
import type { SteerOptions } from '../verbs/steering.ts'
import type { RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'
import type { StreamPart } from './stream-parts.ts'
import type { OrchestrationTrace } from './trace.ts'

/**
 * State of a run. 'interrupted': it has no end, and this process does not go on with it; `team.resume`, or a later
 * process, does.
 */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'finished' | 'failed' | 'aborted' | 'interrupted'

/** Entry of `team.listRuns`: a run. Times are epoch ms. */
export interface RunSummary {
  id: string
  /** First 512 characters of the query: `team.getRun` has all of it. */
  query: string
  status: RunStatus
  startedAt: number
  /** End of the run; null as long as it has none. */
  endedAt: number | null
  /** Code of the error with which the run has failed, was aborted or is interrupted; null otherwise. */
  errorCode: ErrorCode | null
  /** Tokens that models have used so far. */
  usage: TokenUsage
  /** Money that models have cost so far, by the prices of the team; null if it has none. */
  money: Money | null
  /** Thread of the run; null if it has none. */
  threadId: string | null
  /** Caller that began the run; null if none is known. */
  caller: string | null
  /** Tenant that the run is for; null if none was named. */
  tenant: string | null
}

/** Thread of a team, as `team.thread` returns it. */
export interface ThreadView {
  readonly threadId: string
  /** Agent that gets the next message; null if no run of the strategy `handoff` has ended in it with an answer. */
  readonly speaker: string | null
  /** Ids of its runs, those that started last first. */
  readonly runIds: readonly string[]
}

/** Selects runs of `team.listRuns`. */
export interface RunFilter {
  /** Status of the runs. Default: any. */
  status?: RunStatus
  /** Thread of the runs. Default: any, and none. */
  threadId?: string
  /** Caller that began the runs. Default: any, and none. */
  caller?: string
  /** Tenant that the runs are for. Default: any, and none. */
  tenant?: string
  /** Largest number of runs. Default: all. */
  limit?: number
  /** Id of a run, after which the list begins: for the next page, that of the last run of this one. */
  before?: string
  /** Epoch ms; runs that started later, or then, are left out. Default: none. */
  startedBefore?: number
}

const STATUSES: readonly RunStatus[] = ['queued', 'running', 'waiting', 'finished', 'failed', 'aborted', 'interrupted']

/** @throws ConfigurationError that names the option, what came and what is accepted. */
export const checkRunFilter = (filter: unknown): void => filterShape(filter, '')

const filterShape = shape<RunFilter>({
  status: oneOf(...STATUSES),
  threadId: text,
  caller: text,
  tenant: text,
  limit: integer(1),
  before: text,
  startedBefore: finite,
})

/** Run of the list, with its number: the later one of two that started in the same millisecond has the higher. */
export interface ListedRun extends Readonly<Omit<RunSummary, 'money'>> {
  readonly index: number
  /** Cost by model; undefined if there is none. */
  readonly paid?: Readonly<Record<string, number>> | undefined
  /** True if the query is only its begin. */
  readonly isCut: boolean
}

/**
 * Returns one page of runs. `known`: runs that are in memory, in any order. `past`: other runs, the one that started
 * last is first; no more of them are looked at than it takes.
 *
 * @throws UnknownRunError if the run that the page comes after is not among those of the caller.
 */
export function pageOf(known: readonly ListedRun[], past: Iterable<ListedRun>, filter: RunFilter): ListedRun[] {
  const {
    status,
    threadId,
    limit = Number.POSITIVE_INFINITY,
    before,
    startedBefore = Number.POSITIVE_INFINITY,
  } = filter
  const page: ListedRun[] = []
  let isBehind = before === undefined
  for (const run of merged(known, past)) {
    if (!isOf(filter, run.caller, run.tenant)) continue
    if (!isBehind) isBehind = run.id === before
    else if (status !== undefined && run.status !== status) continue
    else if (run.startedAt >= startedBefore) continue
    else if (threadId !== undefined && run.threadId !== threadId) continue
    else if (page.push(run) === limit) break
  }
  if (isBehind) return page
  throw new UnknownRunError(`before: no run ${shown(before)} is known; begin the list again without it.`, {
    path: 'before',
    runId: before,
  })
}

function* merged(known: readonly ListedRun[], past: Iterable<ListedRun>): Iterable<ListedRun> {
  const sorted = [...known].sort((one, other) => (isNewer(one, other) ? -1 : 1))
  let next = 0
  for (const run of past) {
    while (next < sorted.length && isNewer(sorted[next]!, run)) yield sorted[next++]!
    yield run
  }
  yield* sorted.slice(next)
}

type Started = Pick<ListedRun, 'index' | 'startedAt'>

/** Checks whether a run started after another one. */
export const isNewer = (one: Started, other: Started): boolean =>
  one.startedAt === other.startedAt ? one.index > other.index : one.startedAt > other.startedAt

const CUT = '…'
/** Characters of a query that the list has, with the mark that it was cut. */
const LISTED_QUERY = 512

export const isLong = (query: string): boolean => query.length > LISTED_QUERY

/** Cuts a query to what the list has of it. The result is a text of its own: a slice would keep all of the query. */
export function listedQuery(query: string): string {
  if (!isLong(query)) return query
  const begin = query.slice(0, LISTED_QUERY - CUT.length).replace(/[\uD800-\uDBFF]$/, '')
  return Buffer.from(begin).toString()
}

/** Returns the summary of a run as anybody may read it. */
export function toldSummary(run: ListedRun, redactor: Redactor, currency: string | undefined): RunSummary {
  const { id, status, startedAt, endedAt, errorCode, threadId, caller, tenant } = run
  const query = run.isCut ? `${redactor.begin(run.query)}${CUT}` : run.query
  const usage = { ...run.usage }
  const money = new MoneySum(run.paid).in(currency)
  return redactor.data({ id, query, status, startedAt, endedAt, errorCode, usage, money, threadId, caller, tenant })
}

/** Person and group that a run is for. */
export interface RunOwner {
  /**
   * Id of the person or program that asks, of at most 256 characters: who began a run does not approve the calls of its
   * tools. Also readable as `metadata.caller`.
   */
  caller?: string | undefined
  /** Group of callers, of at most 256 characters: callers of others neither see nor answer its questions over HTTP. */
  tenant?: string | undefined
}

/** Checks whether a run is of that caller and of that tenant, as far as these are named. */
export const isOf = (whose: RunOwner, caller: string | null, tenant: string | null | undefined): boolean =>
  (whose.caller === undefined || whose.caller === caller) && (whose.tenant === undefined || whose.tenant === tenant)

/** Options of one run that differ from the team's defaults; undefined is as good as left out. Durations in ms. */
export interface RunOptions<T = undefined> extends RunOwner {
  /** Signal that aborts the run. */
  signal?: AbortSignal | undefined
  /** Time limit of the run. Default: the team's `globalTimeoutMs`. */
  timeoutMs?: number | undefined
  /** Priority in the queue of runs; higher first. */
  priority?: number | undefined
  /** Id of the run. Same id and query: joins that run; other query: ConfigurationError. */
  runId?: string | undefined
  /**
   * Thread of the run. Runs of one thread continue the conversations of model agents. A run begins with the
   * conversation that an agent had when it first heard of the run. Two concurrent runs do not see each other. The next
   * run sees both, in the order in which their turns ended. Conversations are kept in memory: up to 1,000 conversations
   * and 64 Mi characters per team; beyond that the least recently used ones are dropped. The conversations of an agent
   * are dropped when it is removed.
   */
  threadId?: string | undefined
  /**
   * Agent that speaks first, under the strategy `handoff`. Default: who has spoken last in the thread; in a new one,
   * `start` of the strategy.
   */
  speaker?: string | undefined
  /**
   * Metadata for the agents to read: `context.run.metadata`. In a team with `telemetry` the run continues the trace
   * that `traceparent` (and `tracestate`, in the format of W3C Trace Context) names. Agents then read the run's own
   * place in that trace.
   */
  metadata?: Record<string, string> | undefined
  /**
   * Replacement models for this run. A key is a model name that roles use (`default` for roles that name none). Its
   * value is the name of another entry of the team's `models`, or of another model of the same provider.
   */
  models?: Record<string, string> | undefined
  /** Budget in tokens and in money. A limit given here replaces the same limit in the team's `budget.perRun`. */
  budget?: TokenLimit | undefined
  /**
   * Schema for the answer's structured data, or its text, or the JSON in that text; `result.data` is what the schema
   * returns. A model agent that speaks last is asked for its answer in this schema, and once more if the answer does
   * not fit. The built-in strategies know the last speaker. A script of your own marks the request whose answer is the
   * run's with `metadata: { lastSpeaker: true }`.
   *
   * The durable log has its JSON schema: a later process asks models in it, checks the answer by it, and has
   * `result.data` as JSON has it. With the schema given again for the `runId`, its code counts again; another schema is
   * a `ConfigurationError`.
   */
  output?: ModelSchema<unknown, T> | undefined
  /**
   * true: models answer in pieces, as `run.text()` and `run.stream()` show them, whether or not anyone reads. false
   * saves the work of it. Default: true for `launch` and `stream`, false for `execute`.
   */
  stream?: boolean | undefined
  /**
   * Conversation so far, which is kept by you: messages of role 'user', 'assistant' and 'tool'. All model agents of the
   * team begin the run with it, those without tools without the calls of tools. `result.messages` has it with the
   * query and the answer, for the next run. With a `threadId` the thread begins with it; one that has a conversation
   * keeps its own. At most 2,000 messages and 4 Mi characters.
   */
  messages?: readonly ModelMessage[] | undefined
}

/** Options of `team.resume`: what a run does not keep in its log. */
export interface ResumeOptions<T = undefined> extends Pick<RunOptions<T>, 'output' | 'signal' | 'timeoutMs'> {
  /** Fate of the run if its code has changed. Default: the team's `stateManagement.onMismatch`. */
  onMismatch?: 'refuse' | 'continue' | undefined
}

export interface EventOptions {
  /** Event that was seen last: its `seq`, or its id (`<logName>.<seq>`). Default: none, so all events come. */
  after?: number | string | undefined
  /** Types of the events that are wanted. Default: all. */
  types?: readonly RuntimeEvent['type'][] | undefined
  /** false: ends when all events until now were read. Default: true, it ends with the run. */
  follow?: boolean | undefined
  /** Ends the reading when it is aborted. */
  signal?: AbortSignal | undefined
}

/** Options of `run.text`. `only`: the answer alone, in place of all words of who speaks. */
export interface TextOptions {
  only?: 'answer' | undefined
}

/** Words that people have said to a run (`run.steer`). */
export interface SteerInfo {
  id: string
  /** Epoch ms. */
  at: number
  text: string
  /** Agent that they are for; null: all of the run. */
  to: string | null
  /** Person who has said them; null: nobody is known. */
  by: string | null
  /** Agents that have them: models in a prompt, code in `observe`. */
  readBy: readonly string[]
  /** 'unread': the run has ended without them. null: it goes on. */
  settled: 'read' | 'unread' | null
}

/** Receipt of `run.steer`, for words that stand in the log. */
export interface SteerReceipt extends Omit<SteerInfo, 'settled'> {
  /** Agents that have read them so far: models in a prompt, code in `observe`. */
  readonly readBy: readonly string[]
  /**
   * Resolves when the run has ended: 'unread' if the agent that they were for has not read them, or without `to` the
   * one that has given the answer; in a run that fails, or that no model speaks for, if nobody has. Rejects for a run
   * that is interrupted: the words stay with it, and are read when it goes on.
   */
  readonly settled: Promise<'read' | 'unread'>
}

/**
 * Handle of a run for its caller.
 *
 * @example
 * const run = team.launch('Should we migrate?')
 * for await (const chunk of run.text()) process.stdout.write(chunk)
 * const result = await run.result
 */
export interface Run<T = undefined> {
  readonly id: string
  /** Query of the run. The team's keys are removed from it. */
  readonly query: string
  /** Time of the launch, in epoch ms. */
  readonly startedAt: number
  /** Metadata that the caller has given. The team's keys are removed from it. */
  readonly metadata: Readonly<Record<string, string>>
  /** Tenant that the run is for; null if none was named. */
  readonly tenant: string | null
  /** Money that models have cost so far, by the prices of the team; null if it has none. */
  readonly money: Money | null
  readonly status: RunStatus
  /** Result of the run. It never becomes an unhandled rejection. Rejects only for a configuration that cannot work. */
  readonly result: Promise<MultiAgentResult<T>>
  /**
   * Yields past and future events, until the run has finished. It changes nothing in the run, however slowly they are
   * read. `after` is the `seq` of the last event that was seen, or its id: the team's `logName`, a dot and that `seq`.
   * An id of another log yields `reset` and then all events. Events that the log has given up are told as `gap`.
   * Throws `ConfigurationError` for another `after`, and for `types` that there are not.
   */
  events(options?: EventOptions): AsyncIterable<RuntimeEvent<T>>
  /**
   * Yields the words of the last speaker as they come: of a run that succeeds, the joined pieces end with
   * `finalOutput`. Words before a call of a tool come too, and an answer that is made again. A piece '\n\n' stands
   * between rounds, between speakers and before a second try; if the last words are not `finalOutput`, it follows
   * behind one. The answer of a code agent comes as a whole, and so does one that is made or chosen of several. A
   * script of your own decides by what it emits: if that is not the beginning of its answer, it replaces the answer
   * here. For a run that fails there is the output until then. With `only: 'answer'` the joined pieces are
   * `finalOutput`: the answer comes as a whole when it is sure, and a run that fails has none.
   */
  text(options?: TextOptions): AsyncIterable<string>
  /**
   * Yields the run as a chat shows it, past and future: text, reasoning and tool inputs of all models as they come,
   * what of it was superseded, the answer as a growing object if the run has an `output`, tools, questions, and
   * `run.finished` at the end. Unlike `text()`, it says which words are not the answer: a part `superseded` follows.
   * `after` is the `seq` of the last part that was seen. A run without
   * `stream` has only what is known at the end.
   */
  stream(options?: { after?: number }): AsyncIterable<StreamPart<T>>
  /** Aborts the run. Resolves when the run has ended. */
  cancel(reason?: string): Promise<void>
  /**
   * Answers a question of an agent, by the id of its `question` event. An approval is answered with 'yes' or 'no', or
   * with an `ApprovalAnswer`, which can replace the input of the tool or say why not.
   *
   * Rejects with `ConfigurationError` if no such question is open, and says whether it was answered, withdrawn or late
   * (`details.how`). Also if the answer is none of its choices, or its input misses the schema of the tool: then the
   * question stays open. It does so too after an `AnswerRefusedError`, for an approval that `by` may not give.
   */
  answer(questionId: string, answer: string | ApprovalAnswer, options?: AnswerOptions): Promise<void>
  /**
   * Says something to the run while it works: each model agent of the run gets it once, last in its next prompt.
   * Agents with code get a broadcast of `$user` in `observe`. Resolves when the words are in the log. An answer of the
   * run that was made without them does not count: its agent is asked again, up to 20 times. Words are never the
   * answer of a question.
   *
   * Rejects with `RunEndedError` if the run has ended: begin another of its thread. With `GuardrailError` if a
   * guardrail of the team, or of an agent that they are for, refuses the words.
   *
   * @example
   * const said = await run.steer('Only those in Europe.')
   * console.log(await said.settled, said.readBy) // 'read' ['writer']
   */
  steer(words: string | Content, options?: SteerOptions): Promise<SteerReceipt>
  /** Words that were said to the run by now, in order. */
  readonly steers: readonly SteerInfo[]
  /** Questions of this run that nobody has answered yet, in the order in which they were asked. */
  readonly questions: readonly OpenQuestionInfo[]
  /** Tasks that the script has given so far, with their status. */
  readonly tasks: readonly AgentTask[]
  /** Trace of the run until now, of what the log still has. */
  readonly trace: OrchestrationTrace
  /** All messages of the run that the log still has, in order. */
  readonly messageHistory: readonly TypedMessage[]
  /**
   * Blackboard of the run; undefined if the team has none. Who reads this property may write: from then on no wait for
   * an entry counts as a stall. A write resolves when the durable log has it, if the team has one. `board()` only
   * looks.
   */
  readonly blackboard: Blackboard | undefined
  /**
   * Returns the blackboard as it is now, or as it was when the run ended, to look at; undefined if the team has none.
   * It changes nothing in the run.
   */
  board(): BlackboardView | undefined
  /** Agent that speaks for the run now, or has spoken for it last; null: a script, or several. */
  readonly speaker: string | null
  /** Tokens that models have used so far. */
  readonly usage: TokenUsage
  /** The same for each agent whose models were called, by name. */
  readonly usageByAgent: Readonly<Record<string, TokenUsage>>
}
