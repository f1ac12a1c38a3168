/** Plays an old run again, with the team of today and the answers that the world outside gave then. */

import type { Content } from '../../actors/definition/content.ts'
import type { AgentDefinition } from '../../actors/definition/definition.ts'
import { type TypedMessage, USER } from '../../mailbox/message.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import { type DramatisError, describe, errorData, RunAbortedError } from '../../shared/errors.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import { type HostRecord, SEQ_STEP, type Unrecorded } from '../log/records.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { Run, RunOptions } from '../runs/run.ts'
import { historyOf } from '../runs/trace.ts'
import type { Block, LogState, LogStore, OpenedLog, Position, StoredBlock } from '../store/log-files.ts'
import type { TeamKit } from '../team/provision.ts'
import type { RecordedRun } from '../views/recorded-runs.ts'
import { mismatchesOf, Prompter, type RunMismatch, type RunOutcome } from './mismatches.ts'
import type { OldTurns } from './old-turns.ts'
import { OldWorld, type UnknownAsked } from './old-world.ts'
import { close, type PlayedTeam } from './play.ts'
import type { Stage } from './stage.ts'
import { settling } from './virtual-clock.ts'

class GivenLog implements LogStore {
  state: LogState = 'new'
  readonly #block: StoredBlock
  #position = 0

  constructor(facts: readonly Unrecorded[], at: number) {
    const entries = facts.map((fact, i) => ({ ...fact, seq: i * SEQ_STEP, at, run: 0 }) as HostRecord)
    const lastSeq = facts.length * SEQ_STEP
    const content = { carried: false, runs: [0], entries: new EntryEncoder().encode(entries) }
    this.#block = { firstSeq: 0, lastSeq, position: 0, incarnation: 0, ...content }
  }

  get bytes(): number {
    return this.#block.entries.byteLength
  }

  async open(): Promise<OpenedLog> {
    this.state = 'open'
    return { incarnation: 1, lastSeq: this.#block.lastSeq, cut: undefined }
  }

  async append(_block: Block): Promise<Position> {
    this.#position += 1
    return this.#position
  }

  async sync(): Promise<void> {}

  async *read(): AsyncGenerator<StoredBlock> {
    yield this.#block
  }

  async dropBefore(): Promise<void> {}

  async close(): Promise<void> {
    this.state = 'closed'
  }
}

export interface OldRunPart {
  readonly run: RecordedRun
  readonly old: OldTurns
  readonly modules?: Readonly<Record<string, AgentDefinition>> | undefined
  readonly output?: RunOptions<unknown>['output'] | undefined
  answer?: ((asked: UnknownAsked) => unknown) | undefined
}

/** A team that can be asked what a play has to know. */
export interface OldRunTeam extends PlayedTeam {
  /** Launches a run of the agent of that name; the script has the name `$orchestrator`. */
  launchFor(agent: string, query: Content, options: RunOptions<unknown>): Run<unknown>
  messageOf(agent: string, id: string): TypedMessage | undefined
  agentNames(): string[]
  redacted<T>(data: T): T
}

export interface PlayedOldRun {
  /** How the old run ended. */
  readonly before: Omit<RunOutcome, 'responses'> & { readonly finalOutput: string | null }
  readonly result: MultiAgentResult<unknown>
  readonly mismatches: RunMismatch[]
}

const INTERRUPT = 'interrupt' as const
const REACHED_END = 'the log has no more of the run'

/** Rejects with `ConfigurationError` for a team that cannot work at all, or cannot take the options of the run. */
export async function playOldRun(
  stage: Stage,
  makeTeam: (kit: TeamKit) => OldRunTeam,
  { run, old, modules = {}, output, answer }: OldRunPart,
): Promise<PlayedOldRun> {
  const { clock } = stage
  const { launched } = run
  const prompter = new Prompter(old)
  let handle: Run<unknown> | undefined
  const world = new OldWorld({
    clock,
    prompter,
    ...(answer && { answer }),
    messageOf: (agent, id) => team.messageOf(agent, id),
    answerPerson: async (questionId, text) => handle?.answer(questionId, text),
  })
  const team = makeTeam({
    definitions: new Map(Object.entries(modules)),
    models: stage.models,
    realTools: false,
    load: (code, thread) => stage.load(code, thread),
    recorded: (agent, handlers) => world.around(agent, handlers),
    serve: (verb, real, record) => world.serve(verb, real, record),
    ...(run.facts.length > 0 && { newStore: () => new GivenLog(run.facts, old.startedAt) }),
  })
  const before = outcomeOfOld(run)
  try {
    const { id: runId, threadId, tenant, metadata, models, budget, timeoutMs } = launched
    const schema = output ?? run.output
    const options = { runId, metadata, models, timeoutMs, ...(budget && { budget }), ...(schema && { output: schema }) }
    const target = run.directory.name(launched.target)
    const of = { ...(threadId !== undefined && { threadId }), ...(tenant !== undefined && { tenant }) }
    handle = team.launchFor(target, queryOf(run), { ...options, ...of })
    for (const { atMs, message } of old.outside)
      clock.timer(atMs, () => void team.sendMessage({ ...inputOf(message), runId }).catch(() => {})) // it is compared
    for (const { atMs, content, to, by, interrupts, id } of old.words) {
      const how = {
        id,
        ...(to !== null && { to }),
        ...(by !== null && { by: { id: by } }),
        ...(interrupts && { when: INTERRUPT }),
      }
      clock.timer(atMs, () => void handle!.steer(content, how).catch(() => {})) // it came too late
    }
    if (before.status === 'unfinished') clock.timer(old.lengthMs + 1, () => void handle!.cancel(REACHED_END))
    if (old.aborted) clock.timer(old.aborted.atMs, () => void handle!.cancel(old.aborted!.reason))
    const isSettled = settling(handle.result)
    const ending = await clock.runUntil(() => isSettled() || stage.broken !== undefined)
    const cut = stage.broken ? BROKEN + describe(stage.broken) : ending === 'endless' ? ENDLESS : undefined
    if (!isSettled()) await handle.cancel(cut ?? IDLE)
    const result = await handle.result
    const now = { ...endOf(result, before.status), responses: responsesIn(result.messageHistory) }
    const agents = new Set([...team.agentNames(), ...prompter.played.map(({ agent }) => agent)])
    const mismatches = mismatchesOf({ prompter, before, now, agents, refused: stage.refused })
    if (cut) mismatches.push({ kind: 'result', how: 'new', agent: '', name: '', sentence: cut })
    if (ending !== 'endless') await close(team, stage)
    const { responses: _, ...told } = before
    return { before: team.redacted(told), result, mismatches: team.redacted(mismatches) }
  } finally {
    stage.close()
  }
}

function queryOf({ directory, launched, log }: RecordedRun): Content {
  const target = directory.name(launched.target)
  const first = historyOf(log, directory).find(({ sender, recipient }) => sender === USER && recipient === target)
  return first?.parts ? withBytes(first.parts) : launched.query
}

const withBytes = (parts: readonly MessagePart[]): MessagePart[] => parts.map((part) => ({ ...part }))

const BROKEN = 'something was thrown outside of any turn, and nobody caught it: '
const ENDLESS = 'the agents are busy without end while no time passes'
const IDLE = 'nothing was left in the rehearsal that could go on'

function outcomeOfOld(run: RecordedRun): RunOutcome & { finalOutput: string | null } {
  const responses = responsesIn(historyOf(run.log, run.directory))
  const { finished, status } = run
  const target = run.directory.name(run.launched.target)
  const answer = responses.find(({ sender, recipient }) => sender === target && recipient === USER)
  return {
    status,
    error: finished?.error ? errorData(finished.error) : null,
    finalOutput: status === 'finished' ? (finished?.output ?? answer?.content ?? '') : null,
    responses,
  }
}

function endOf(
  { error }: MultiAgentResult<unknown>,
  before: RunOutcome['status'],
): Pick<RunOutcome, 'status' | 'error'> {
  if (!error) return { status: 'finished', error: null }
  const isAborted = error instanceof RunAbortedError && before === 'aborted'
  return { status: isAborted ? 'aborted' : 'failed', error: errorData(error as DramatisError) }
}

const responsesIn = (history: readonly TypedMessage[]): TypedMessage[] =>
  history.filter(({ type }) => type === 'response')

function inputOf(message: TypedMessage) {
  const { type, recipient, content, structuredData, parts, priority, requiresResponse, metadata, threadId } = message
  return {
    type,
    requiresResponse,
    recipient,
    content,
    priority,
    metadata,
    ...(structuredData !== null && { structuredData }),
    ...(threadId !== null && { threadId }),
    ...(parts && { parts: withBytes(parts) }),
  }
}
