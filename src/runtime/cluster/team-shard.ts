/** A team that holds one shard: its tasks are runs, under the ids of the tasks. */
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import { systemClock } from '../../shared/clock.ts'
import {
  DramatisError,
  OutcomeUnknownError,
  PastLostError,
  RunAbortedError,
  UnknownAgentError,
  UnknownRunError,
} from '../../shared/errors.ts'
import { readBack } from '../host/run.ts'
import type { RunOptions } from '../runs/run.ts'
import { untilAsked } from '../runs/run-handle.ts'
import type { KeyedRequest, KeyedRequests } from '../team/keyed-requests.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { AnswerOptions } from '../verbs/approvals.ts'
import type { SteerOptions } from '../verbs/steering.ts'
import type { ShardLog, TakenTask, TaskOutcome } from './cluster-store.ts'
import type { Shard } from './process.ts'

/** Options of a run that go with it to the owner of its shard. */
export type SentOptions = Pick<
  RunOptions<unknown>,
  | 'threadId'
  | 'speaker'
  | 'priority'
  | 'timeoutMs'
  | 'metadata'
  | 'caller'
  | 'tenant'
  | 'models'
  | 'budget'
  | 'messages'
  | 'stream'
>

/** Body of a task, as JSON: processes of several versions read it. */
export interface SentRun {
  readonly query: Parameters<TeamRuntime['launch']>[0]
  readonly options: SentOptions
  /** JSON schema of the answer's data. */
  readonly output?: object
  /** Agent that gets the query alone. */
  readonly agent?: string
}

/** Something that the owner of a shard is to do or to say, as JSON: durable, as a run is. */
export type SentAsk =
  | { readonly ask: 'status' | 'questions' | 'tasks' | 'usage'; readonly runId: string }
  | { readonly ask: 'cancel'; readonly runId: string; readonly reason?: string }
  | {
      readonly ask: 'answer'
      readonly runId: string
      readonly questionId: string
      readonly answer: string | ApprovalAnswer
      readonly options?: AnswerOptions
    }
  | {
      readonly ask: 'steer'
      readonly runId: string
      readonly words: string | Content
      /** With the id of the words: the next owner may take them again. */
      readonly options: SteerOptions
    }
  /** A request that a service keeps for the owner's. */
  | { readonly ask: 'request'; readonly runId: string; readonly kept: unknown }

/** Body of a request with a key. */
export interface SentRequest {
  readonly request: KeyedRequest
}

/** Body of a task that withdraws such a request, by its id. */
export interface SentWithdrawal {
  readonly withdraws: string
}

type Called =
  | 'start'
  | 'resumePending'
  | 'listRuns'
  | 'getRun'
  | 'getAgent'
  | 'isForgotten'
  | 'launch'
  | 'flush'
  | 'close'
type ShardTeam = Pick<TeamRuntime, Called>

const FULL_PAUSE_MS = 200
/** Why runs are aborted that were under way when the engine lost the end of their log. */
const CUT = 'the engine of the cluster has lost the last moments of its log'

export class TeamShard implements Shard {
  readonly #team: ShardTeam
  readonly #keyed: Pick<KeyedRequests, 'begin' | 'endOf' | 'withdraw'>
  /** True if the log has lost its end, and that is to be told. */
  readonly #isCut: () => boolean
  readonly #goesOn: boolean
  readonly #serves: (kept: unknown) => Promise<unknown> | undefined
  /** Launches that are under way, by the ids of their runs. */
  readonly #launching = new Map<string, Promise<unknown>>()

  /**
   * `serves`: answers a request that a service has kept; with nothing where there is no service. `goesOn`: runs go on
   * also where the log has lost its end.
   */
  constructor(
    team: ShardTeam,
    keyed: Pick<KeyedRequests, 'begin' | 'endOf' | 'withdraw'>,
    log: ShardLog,
    serves: (kept: unknown) => Promise<unknown> | undefined,
    goesOn: boolean,
  ) {
    this.#keyed = keyed
    this.#team = team
    this.#isCut = () => log.lost !== undefined && !goesOn
    this.#goesOn = goesOn
    this.#serves = serves
  }

  async start(): Promise<void> {
    await this.#team.start()
    if (this.#isCut()) await this.#endWhatWasCut()
    else await this.#team.resumePending()
  }

  /** So that no later owner goes on with a run of which steps may be done that the log does not know. */
  async #endWhatWasCut(): Promise<void> {
    for (const { id } of await this.#team.listRuns({ status: 'interrupted' })) await this.#team.getRun(id)?.cancel(CUT)
  }

  async settle(task: TakenTask): Promise<TaskOutcome | 'elsewhere' | undefined> {
    const sent = JSON.parse(Buffer.from(task.body).toString()) as SentRun | SentAsk | SentRequest | SentWithdrawal
    if ('ask' in sent) return this.#asked(sent)
    if ('withdraws' in sent) {
      this.#keyed.withdraw(sent.withdraws)
      return { status: 'finished', body: Buffer.from('{}') }
    }
    const { id } = task
    const known = this.#team.getRun(id)
    if (task.doubtful && !known && !this.#goesOn) return failed(pastLost(id))
    if (!known && this.#team.isForgotten(id)) return failed(forgotten(id))
    return 'request' in sent ? this.#settleRequest(id, sent.request) : this.#settleRun(id, sent, known)
  }

  async #settleRun(
    id: string,
    sent: SentRun,
    known: ReturnType<ShardTeam['getRun']>,
  ): Promise<TaskOutcome | 'elsewhere' | undefined> {
    const run = known ?? (await this.#launch(id, sent))
    if (run === undefined) return undefined
    if (run instanceof DramatisError) return failed(run)
    const result = await run.result
    if (run.status === 'interrupted') return isChanged(result.error) ? 'elsewhere' : undefined
    if (isCut(result.error)) return failed(pastLost(id))
    return { status: result.success ? 'finished' : 'failed', body: Buffer.from(JSON.stringify(result)) }
  }

  async #settleRequest(id: string, request: KeyedRequest): Promise<TaskOutcome | 'elsewhere' | undefined> {
    const run = await begun(() => this.#keyed.begin(id, request))
    if (run === undefined) return undefined
    if (run instanceof DramatisError) return failed(run)
    const result = await run.result
    if (isCut(result.error)) return failed(pastLost(id))
    const end = this.#keyed.endOf(run, result)
    if (!end && isChanged(result.error)) return 'elsewhere'
    return end && { status: end.success ? 'finished' : 'failed', body: Buffer.from(JSON.stringify(end)) }
  }

  close(stepsMs?: number): Promise<void> {
    return this.#team.close(stepsMs === undefined ? {} : { stepsMs })
  }

  /** Does it, or leaves it to the next owner. That one may do it again: twice has to be as good as once. */
  async #asked(sent: SentAsk): Promise<TaskOutcome | undefined> {
    try {
      await this.#launching.get(sent.runId)
      const value = sent.ask === 'request' ? await this.#serves(sent.kept) : await this.#done(sent)
      if (value === undefined) return undefined
      return { status: 'finished', body: Buffer.from(JSON.stringify({ value })) }
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      const isCutOff = this.#team.getRun(sent.runId)?.status === 'interrupted'
      const isLeft = isCutOff && (error.code === 'RUN_ENDED' || sent.ask === 'answer') // the next owner has it ask again
      return isLeft || GIVEN_UP.includes(error.code) ? undefined : failed(error)
    }
  }

  async #done(sent: Exclude<SentAsk, { ask: 'request' }>): Promise<unknown> {
    const run = this.#team.getRun(sent.runId)
    if (!run) throw new UnknownRunError(`no run has the id "${sent.runId}".`, { runId: sent.runId })
    if (['finished', 'failed', 'aborted'].includes(run.status)) await run.result // one of long ago is read from the log
    if (sent.ask === 'tasks' || sent.ask === 'usage') return run[sent.ask]
    if (sent.ask === 'questions') {
      const { questions } = run
      if (questions.length > 0) await this.#team.flush() // what a person has seen is still asked after a crash
      return questions
    }
    if (sent.ask === 'cancel') await run.cancel(sent.reason)
    if (sent.ask === 'steer') {
      const { id, at, text, to, by } = await run.steer(sent.words, sent.options)
      return { id, at, text, to, by }
    }
    if (sent.ask === 'answer') {
      await untilAsked(run, sent.questionId)
      await run.answer(sent.questionId, sent.answer, sent.options).catch(async (error: unknown) => {
        if (!(await hasAnswer(run, sent))) throw error
      })
    }
    if (sent.ask !== 'status') await this.#team.flush()
    return run.status
  }

  async #begin(id: string, { query, options, output, agent }: SentRun): Promise<ReturnType<ShardTeam['getRun']>> {
    const given = { ...options, runId: id, ...(output && { output: readBack(output) }) }
    if (agent === undefined) return this.#team.launch(query, given)
    const of = this.#team.getAgent(agent)
    if (!of) throw new UnknownAgentError(`the team has no agent "${agent}".`, { agent })
    const answer = of.run(query, given as RunOptions)
    answer.catch(() => {}) // the run itself says so
    return this.#team.getRun(id) ?? answer.then(() => this.#team.getRun(id))
  }

  #launch(id: string, sent: SentRun): Promise<ReturnType<ShardTeam['getRun']> | DramatisError> {
    const launching = begun(() => this.#begin(id, sent)).finally(() => this.#launching.delete(id))
    this.#launching.set(id, launching)
    return launching
  }
}

/** Checks whether a question has that very answer: an earlier owner may have given it, and not have come to say so. */
async function hasAnswer(
  run: NonNullable<ReturnType<ShardTeam['getRun']>>,
  sent: Extract<SentAsk, { ask: 'answer' }>,
): Promise<boolean> {
  const { questionId, answer, options: { by } = {} } = sent
  const said = typeof answer === 'string' ? answer : answer.approved ? 'yes' : 'no'
  for await (const event of run.events({ types: ['question.closed'], follow: false })) {
    if (event.type !== 'question.closed' || event.questionId !== questionId) continue
    const people = (event.by ?? []).map(({ id }) => id)
    return event.answer === said && (by ? people.includes(by.id) : people.length === 0)
  }
  return false
}

/**
 * Begins a task. It is durable, so it waits where the team has no room for it. Resolves to what refuses it; to nothing
 * where the next owner begins it.
 */
async function begun<T>(begin: () => T | Promise<T>): Promise<T | DramatisError | undefined> {
  for (;;) {
    try {
      return await begin()
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      if (error.code === 'TEAM_CLOSED') return undefined
      if (error.code !== 'TEAM_OVERLOADED') return error
      await systemClock.sleep(FULL_PAUSE_MS)
    }
  }
}

const GIVEN_UP = ['TEAM_CLOSED', 'LOG_LOST']

const isCut = (error: DramatisError | null): boolean => error instanceof RunAbortedError && error.details.reason === CUT

const isChanged = (error: DramatisError | null): boolean => error?.code === 'STEP_MISMATCH'

function failed(error: DramatisError): TaskOutcome {
  return {
    status: 'failed',
    body: Buffer.from(JSON.stringify({ success: false, finalOutput: null, data: null, error })),
  }
}

function pastLost(runId: string): PastLostError {
  const text = `run ${runId}: the database has lost its last moments, and the run with them. It may have been done in part: submit it under another id to do it again.`
  return new PastLostError(text, { runId })
}

function forgotten(runId: string): OutcomeUnknownError {
  const text = `run ${runId} has ended, and the log has given it up before its outcome could be kept: nobody knows it any more.`
  return new OutcomeUnknownError(text, { runId })
}
