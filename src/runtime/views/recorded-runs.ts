/** Runs as a durable log has them, for those who look into it afterwards. */

import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { idOf } from '../../mailbox/frame.ts'
import { ConfigurationError, describe, shown, UnknownRunError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import { OpenWork } from '../durability/open-work.ts'
import { RunIndex } from '../durability/run-index.ts'
import { callerIn, schemaOfLog } from '../host/run.ts'
import { EntryEncoder, partBytes, partsIn } from '../log/entry-codec.ts'
import { entriesOf, type ReadBlocks, whileMoved } from '../log/read-entries.ts'
import { concernsRuns, isKept, type LogEntry, type RecordOf, SEQ_STEP, type Unrecorded } from '../log/records.ts'
import { lastSeq as lastSeqOf, RunLog } from '../log/run-log.ts'
import type { LogStore } from '../store/log-files.ts'
import { readLog } from '../store/log-reader.ts'
import { TOLD } from '../store/told.ts'
import {
  type Answerer,
  type AnswerOptions,
  agreedFields,
  answerFields,
  assertMayAnswer,
  assertShowable,
  callIn,
  checkBySchemaOf,
  isNo,
  isYesTo,
  OpenApproval,
} from '../verbs/approvals.ts'
import { assertFits, givenAnswer } from '../verbs/questions.ts'
import { TeamBefore } from './team-fold.ts'

/** Selects runs by what they were launched with. */
export type Wanted = (launched: RecordOf<'run.launched'>) => boolean

/** A run of a log: its entries, with those of the team that concern it, and the names that they mean. */
export class RecordedRun {
  readonly launched: RecordOf<'run.launched'>
  /** State of the team when the run was launched: its board, and what its agents' threads did last. */
  readonly before: readonly LogEntry[]
  /** Facts that the team brought to the run. Empty unless they were asked for. */
  readonly facts: readonly Unrecorded[]
  /** Entries of the run, and what happened to the team meanwhile, in the order of their numbers. */
  entries: LogEntry[] = []
  /** Undefined as long as the run goes on, or waits for a process that does. */
  finished: RecordOf<'run.finished'> | undefined
  readonly #team: Names
  readonly #own: Names = new Map()
  readonly #parts: Parts

  constructor(
    launched: RecordOf<'run.launched'>,
    team: Names,
    {
      before,
      facts = [],
      parts,
    }: { before: readonly LogEntry[]; facts?: readonly Unrecorded[] | undefined; parts: Parts },
  ) {
    this.#parts = parts
    this.launched = launched
    this.#team = team
    this.before = before
    this.facts = facts
  }

  get id(): string {
    return this.launched.id
  }

  get status(): RecordedStatus {
    if (!this.finished) return 'unfinished'
    if (!this.finished.error) return 'finished'
    return this.entries.some(({ kind }) => kind === 'run.aborted') ? 'aborted' : 'failed'
  }

  /** Schema that its answer had to fit, as the log has it. */
  get output(): ModelSchema | undefined {
    const { output } = this.launched
    return output && schemaOfLog(output, (hash) => this.#parts.get(hash))
  }

  /** Names of the agents of the run, and of the team, and the bytes of large parts. */
  get directory(): Directory {
    return {
      bytesOf: (_run, hash) => (this.#parts.has(hash) ? () => this.#parts.get(hash) : undefined),
      name: (index) => this.#own.get(index) ?? this.#team.get(index) ?? `#${index}`,
      runId: (index) => (index === this.launched.run ? this.id : ''),
    }
  }

  get log(): RunLog {
    const log = new RunLog()
    for (const entry of this.entries) {
      const isOfRun = entry.run !== 0 || (entry.kind !== 'frames' && concernsRuns(entry))
      if (isOfRun && !isKept(entry)) log.adopt(entry)
    }
    return log
  }

  see(entry: LogEntry): void {
    if (entry.kind === 'name') this.#own.set(entry.index, entry.name)
    else if (entry.kind === 'run.finished') this.finished = entry
    this.entries.push(entry)
  }

  readonly indexOf = (name: string): number | undefined => {
    for (const names of [this.#own, this.#team]) for (const [index, known] of names) if (known === name) return index
    return undefined
  }
}

type Names = Map<number, string>
type Parts = Map<string, Uint8Array>

/** State of a run in a log. 'unfinished': it goes on, or waits for a process that does. */
export type RecordedStatus = 'finished' | 'failed' | 'aborted' | 'unfinished'

/** Wanted runs of a log, and all its runs in the order of their launch. */
export interface Recorded {
  readonly runs: readonly RecordedRun[]
  /** Ids of all runs, also of the work of messages from outside. */
  readonly ids: readonly string[]
  /** States of all runs that have a result or will have one, by id. */
  readonly statuses: ReadonlyMap<string, RecordedStatus>
}

/** Details that are read of each run on demand: what the team brought to it, and the bytes of its large parts. */
export interface Details {
  readonly facts?: boolean
  readonly parts?: boolean
}

/** Reads a log. Throws `LogCorruptError` where it is damaged. */
export async function recordedRuns(
  read: ReadBlocks,
  wanted: Wanted = () => true,
  { facts = false, parts = false }: Details = {},
): Promise<Recorded> {
  return whileMoved(async () => {
    const reader = new RecordReader(wanted, facts ? new TeamBefore() : undefined)
    for await (const entry of entriesOf(read)) reader.see(entry)
    if (parts) await reader.readParts(read)
    return reader.end()
  })
}

class RecordReader {
  readonly #wanted: Wanted
  readonly #team: TeamBefore | undefined
  readonly #names: Names = new Map()
  readonly #parts: Parts = new Map()
  /** Runs whose messages have a part, by its hash. */
  readonly #users = new Map<string, Set<number>>()
  readonly #runs = new Map<number, RecordedRun>()
  readonly #index = new RunIndex()
  /** Entries of the blackboard that the runs of the team have together, by key and version. */
  readonly #board = new Map<string, LogEntry>()
  readonly #lives = new Map<string, LogEntry>()

  constructor(wanted: Wanted, team: TeamBefore | undefined) {
    this.#wanted = wanted
    this.#team = team
  }

  see(entry: LogEntry): void {
    if (entry.kind !== 'frames') this.#index.see(entry)
    if (entry.kind === 'part.used') this.#uses(entry.run, entry.hash)
    if (entry.kind === 'run.launched' && entry.output?.part) this.#uses(entry.run, entry.output.part)
    if (entry.kind === 'run.launched') this.#launched(entry)
    else if (entry.kind === 'runs.gone') for (const run of entry.runs) this.#runs.delete(run)
    else if (entry.run === 0) this.#ofTeam(entry)
    else this.#runs.get(entry.run)?.see(entry)
    if (entry.kind === 'log.closed') this.#sessionEnded(entry)
    this.#team?.see(entry)
  }

  #sessionEnded({ ends }: RecordOf<'log.closed'>): void {
    if (!ends || [...this.#index.values()].some(({ endedAt }) => endedAt === 0)) return
    this.#team?.endSession(ends)
    if (ends.includes('board')) this.#board.clear()
  }

  /** Notes a part of a run. Those of its query come before its launch. */
  #uses(run: number, hash: string): void {
    const users = this.#users.get(hash) ?? new Set()
    this.#users.set(hash, users.add(run))
  }

  #launched(launched: RecordOf<'run.launched'>): void {
    if (this.#runs.has(launched.run) || !this.#wanted(launched)) return
    const before = [...this.#lives.values(), ...this.#board.values()]
    this.#runs.set(
      launched.run,
      new RecordedRun(launched, this.#names, { before, facts: this.#team?.facts(), parts: this.#parts }),
    )
  }

  /** Gives what happens to agents, and on the board of the team, to each run that was under way then. */
  #ofTeam(entry: LogEntry): void {
    if (entry.kind === 'name') this.#names.set(entry.index, entry.name)
    if (entry.kind === 'blackboard') {
      const key = JSON.stringify([entry.entry.key, entry.entry.version])
      if (this.#board.has(key)) return // a fact that was carried on
      this.#board.set(key, entry)
    } else if (entry.kind === 'agent.status' || entry.kind === 'agent.ready')
      this.#lives.set(`${entry.index} ${entry.instance ?? 0}`, entry)
    else if (entry.kind !== 'turns' && entry.kind !== 'log.opened' && !entry.kind.startsWith('agent.')) return
    for (const run of this.#runs.values()) if (!run.finished) run.see(entry)
  }

  async readParts(read: ReadBlocks): Promise<void> {
    const missing = new Set<string>()
    for (const [hash, users] of this.#users) if ([...users].some((run) => this.#runs.has(run))) missing.add(hash)
    if (missing.size === 0) return
    for await (const { entries } of read())
      for (const { hash } of partsIn(entries))
        if (missing.delete(hash)) this.#parts.set(hash, partBytes(entries, hash)!)
  }

  end(): Recorded {
    const runs = [...this.#runs.values()]
    for (const run of runs) run.entries = inOrder(run.entries)
    const all = [...this.#index.values()]
    const statuses = all
      .filter(({ own }) => !own)
      .map(({ id, endedAt, status }) => [id, endedAt === 0 ? 'unfinished' : status] as const)
    return { runs, ids: all.map(({ id }) => id), statuses: new Map(statuses) }
  }
}

/** Sorts entries by their numbers: those that were carried on stand behind later ones, or a second time. */
function inOrder(entries: LogEntry[]): LogEntry[] {
  if (entries.every(({ seq }, i) => i === 0 || seq > entries[i - 1]!.seq)) return entries
  const sorted = entries.toSorted((one, other) => one.seq - other.seq)
  return sorted.filter(({ seq }, i) => i === 0 || seq !== sorted[i - 1]!.seq)
}

const MOST_NAMED = 5
const OF_PROCESSES = 'What a cluster has is changed by its processes: answer, or cancel, at any of them.'

/**
 * Returns the path of a log. `given`: as the user wrote it, in that option.
 *
 * @throws ConfigurationError if no log is there.
 */
export function logFolder(given: string, folder: string, option = '--log'): string {
  if (/^\w+:\/\//.test(given))
    throw new ConfigurationError(`${option}: a URL, where only a folder can be taken. ${OF_PROCESSES}`, { path: 'log' })
  const path = resolve(folder, given)
  const what = `${option}: "${given}"`
  try {
    if (readdirSync(path).some((name) => name.endsWith('.log') || name === TOLD)) return path
  } catch (error) {
    throw new ConfigurationError(`${what} cannot be read: ${describe(error)}`, { path: 'log', folder: path }, error)
  }
  const text = `${what} is no log. It takes the folder that the team has as stateManagement.path.`
  throw new ConfigurationError(text, { path: 'log', folder: path })
}

/**
 * Reads one run of a log. `withFacts`: also what the team brought to it. `logs`: those of the shards of a team.
 *
 * @throws UnknownRunError, with the ids that are near.
 */
export async function recordedRun(
  path: string,
  runId: string,
  withFacts = false,
  logs: readonly { readonly read: ReadBlocks }[] = [{ read: () => readLog(path) }],
): Promise<RecordedRun> {
  const known: string[] = []
  for (const { read } of logs) {
    const { runs, ids } = await recordedRuns(read, ({ id }) => id === runId, { facts: withFacts, parts: true })
    const run = runs.at(-1)
    if (run) return run
    known.push(...ids)
  }
  throw new UnknownRunError(unknownRun(runId, path, known), { runId, path })
}

function unknownRun(runId: string, path: string, ids: readonly string[]): string {
  const near = nearest(runId, ids)
  const begun = ids.filter((id) => id.startsWith(runId) || runId.startsWith(id))
  const named = [...new Set([...(near === undefined ? [] : [near]), ...begun])].slice(0, MOST_NAMED)
  const quoted = (all: readonly string[]) => all.map((id) => `"${id}"`).join(', ')
  const what = `The log in ${path} has no run "${runId}".`
  if (ids.length === 0) return `${what} It has no run at all.`
  if (named.length > 0) return `${what} Did you mean ${quoted(named)}?`
  return `${what} Its last runs are ${quoted(ids.slice(-MOST_NAMED))}.`
}

export interface RecordedQuestion {
  readonly run: RecordedRun
  readonly asked: RecordOf<'question'>
  /** Set for an approval: the words and the call that people are asked to agree to by now. */
  readonly approval: OpenApproval | undefined
}

/** Returns the open questions of runs, in the order in which they were asked. */
export function openQuestionsIn(runs: readonly RecordedRun[]): RecordedQuestion[] {
  return runs
    .flatMap((run) => (run.finished ? [] : questionsOf(run)))
    .sort((one, other) => one.asked.seq - other.asked.seq)
}

/** A question is open as long as its agent waits for it and it has no answer. */
function questionsOf(run: RecordedRun): RecordedQuestion[] {
  const work = new OpenWork((name) => run.indexOf(name))
  const open = new Map<string, RecordedQuestion>()
  for (const entry of run.entries) {
    work.see(entry)
    if (entry.kind === 'question') open.set(entry.questionId, { run, asked: entry, approval: approvalIn(run, entry) })
    else if (entry.kind === 'question.voted') open.get(entry.questionId)?.approval?.take(entry)
    else if (entry.kind === 'answer' || entry.kind === 'question.closed') open.delete(entry.questionId)
  }
  const waiting = new Set(Array.from(work.calls, ({ memory, at }) => idOf(memory, at)))
  return [...open.values()].filter(({ asked }) => waiting.has(asked.ofTool?.callId ?? asked.questionId))
}

function approvalIn({ id: runId }: RecordedRun, asked: RecordOf<'question'>): OpenApproval | undefined {
  const call = callIn(asked)
  return call && new OpenApproval({ ...asked, runId, call })
}

/**
 * Writes the answer of a question into a log that no process has: the next process that goes on with its run takes it.
 * `missing`: people who still have to agree.
 *
 * Rejects with `ConfigurationError` if no such question is open, or for an answer that it does not take; with
 * `AnswerRefusedError` for an approval that is not theirs; with `LogHeldError` if a process has the log.
 */
export async function answerInLog(
  store: LogStore,
  questionId: string,
  answer: string | ApprovalAnswer,
  who: AnswerOptions & { readonly by: Answerer },
): Promise<RecordedQuestion & { readonly missing: number }> {
  const { incarnation, lastSeq } = await store.open()
  const { runs } = await recordedRuns(() => store.read())
  const question = questionIn(runs, questionId)
  const { run, asked, approval } = question
  const { agent, choices, ask: kind } = asked
  const call = callIn(asked)
  const given = givenAnswer({ agent, choices, call }, answer)
  if (asked.form) await assertFits(asked.form, given)
  const of = { runId: run.id, questionId, caller: callerIn(run.launched.metadata) }
  const steeredBy = run.entries.flatMap((entry) => (entry.kind === 'steer' && entry.by) || [])
  const shown = { kind, ...approval?.call, digest: approval?.digest, agreed: approval?.agreed, steeredBy }
  assertMayAnswer(of, shown, who, isYesTo(given, { call: approval?.call }))
  if (typeof given === 'object' && 'input' in given) {
    assertShowable(given.input)
    await checkBySchemaOf(call, given.input)
  }
  const at = Date.now()
  const said: Unrecorded[] = []
  if (approval && call && !isNo(given)) {
    const vote = approval.voteOf(questionId, who.by.id, given)
    approval.take({ ...vote, at })
    said.push({ kind: 'question.voted', ...vote })
    if (approval.missing === 0) said.push({ kind: 'answer', agent, questionId, ...agreedFields(approval, call).fields })
  } else said.push({ kind: 'answer', agent, questionId, ...answerFields(given, who.by.id) })
  const seq = lastSeq + 1
  const { run: index } = run.launched
  const entries: LogEntry[] = [
    { kind: 'log.opened', incarnation, seq, at, run: 0 },
    ...said.map((each, n) => ({ ...each, seq: seq + (n + 1) * SEQ_STEP, at, run: index }) as LogEntry),
  ]
  await store.append({
    firstSeq: seq,
    lastSeq: lastSeqOf(entries.at(-1)!),
    carried: false,
    runs: [0, index],
    entries: new EntryEncoder().encode(entries),
  })
  await store.sync()
  return { ...question, missing: said.at(-1)?.kind === 'answer' ? 0 : (approval?.missing ?? 0) }
}

function questionIn(runs: readonly RecordedRun[], questionId: string): RecordedQuestion {
  const open = openQuestionsIn(runs)
  const found = open.find(({ asked }) => asked.questionId === questionId)
  if (found) return found
  const ids = open.map(({ asked }) => asked.questionId).join(', ') || 'none'
  const text = `No question ${shown(questionId)} is open in this log: it was answered, was withdrawn, or never was. Open: ${ids}.`
  throw new ConfigurationError(text, { path: 'questionId', got: questionId, accepted: ids })
}
