/** `dramatis run <team file> "<query>"`: one query, one answer. */

import { createInterface, type Interface } from 'node:readline'
import { setImmediate as turn } from 'node:timers/promises'
import { type ApprovalAnswer, NO, YES } from '../../actors/definition/approval.ts'
import {
  createTeam,
  DramatisError,
  type MultiAgentPatternOptions,
  type MultiAgentResult,
  type OpenQuestionInfo,
  type Team,
} from '../../index.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import {
  answerInLog,
  logFolder,
  openQuestionsIn,
  type RecordedQuestion,
  type RecordedRun,
  recordedRuns,
} from '../../runtime/views/recorded-runs.ts'
import { systemClock } from '../../shared/clock.ts'
import { environment } from '../../shared/environment.ts'
import { ConfigurationError, describe, LogHeldError, shown } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { visible } from '../../shared/text.ts'
import { approvalWords } from '../pictures/run-words.ts'
import { type LogAt, logsAt } from '../shared/cluster-url.ts'
import type { CodeWatch } from '../shared/code-watch.ts'
import { EXIT, exitCodeOf, failureWords, oneLine, untilInterrupt } from '../shared/failure.ts'
import { jsonText, resultText, traceFile } from '../shared/json-text.ts'
import { environmentRedactor, loadEnv, loadTeamFile } from '../shared/load-team-file.ts'
import { progressOn, withoutEvents } from '../shared/progress.ts'
import type { Answer, Print, Progress, Screen } from '../shared/screen.ts'
import { whoAmI } from '../shared/who-am-i.ts'

/*
 * Questions of agents, put to whoever sits at the terminal: one after the other, each answered by a line of the input.
 */

/** Question as events and `team.questions` have it. */
export type Question = Pick<OpenQuestionInfo, 'runId' | 'questionId' | 'agent' | 'text' | 'choices' | 'digest'>

export type Asking = Pick<Team, 'events' | 'getRun'>

interface AskPerson {
  /** Puts a question that was asked before. */
  ask(question: Question): void
  stop(): void
}

/**
 * Answers what is asked from now on until `stop()`. Nothing is read before somebody asks. `unanswerable` is called with
 * a question that comes when the input has ended. Default: its run is cancelled.
 */
function askPerson(
  team: Asking,
  input: NodeJS.ReadableStream,
  print: Print,
  unanswerable = async ({ agent, runId }: Question): Promise<void> =>
    team.getRun(runId)?.cancel(`${agent} asked a question, and the input has ended: nobody can answer`),
): AskPerson {
  const waiting: Question[] = []
  let reader: Interface | undefined
  let lines: AsyncIterator<string> | undefined
  let busy = false

  async function answerAll(): Promise<void> {
    if (busy) return
    busy = true
    reader ??= createInterface({ input, terminal: false }) // Ctrl-C stays the process's own
    lines ??= reader[Symbol.asyncIterator]()
    for (let question = waiting.shift(); question; question = waiting.shift()) await answer(question, lines)
    busy = false
  }

  async function answer(question: Question, from: AsyncIterator<string>): Promise<void> {
    const run = team.getRun(question.runId)
    for (;;) {
      print(questionText(question))
      const { value: line, done } = await from.next()
      if (done) return unanswerable(question)
      try {
        const { questionId, digest } = question
        const who = digest === undefined ? undefined : { by: { id: whoAmI() }, digest }
        return await run?.answer(questionId, choiceOf(question, line.trim()), who)
      } catch (error) {
        if (!(error instanceof DramatisError)) throw error
        print(`${error.message}\n`)
        if (error.details.path !== 'answer') return
      }
    }
  }

  const ask = (question: Question) => {
    waiting.push(question)
    void answerAll()
  }
  const subscription = team.events.subscribe((event) => {
    if (event.type === 'question') ask(event)
  })
  return {
    ask,
    stop() {
      subscription.unsubscribe()
      waiting.length = 0
      reader?.close()
    },
  }
}

function questionText({ agent, text, choices = [] }: Question): string {
  const lines = visible(text, '\n') // the words are a model's, and could steer the terminal
  return [`${agent} asks: ${lines}`, ...choices.map((choice, i) => `  ${i + 1}. ${visible(choice)}`), ''].join('\n')
}

/** By its words, or by its number. */
function choiceOf({ choices = [] }: Question, line: string): string {
  return choices.includes(line) ? line : (choices[Number(line) - 1] ?? line)
}

export interface AnswerFlags {
  log: string
  /** JSON that replaces the input of a tool. */
  input?: string
  /** Why a tool may not be called. */
  reason?: string
  /** Groups of who answers. */
  group?: string[]
  /** Digest of the approval that was shown. */
  digest?: string
}

/**
 * Writes the answer into the log and resolves to the exit code. Rejects if there is no such log or question, if the
 * question does not take the answer, and if a process has the log.
 */
export async function answer(
  questionId: string,
  text: string,
  { log, input, reason, group: groups = [], digest }: AnswerFlags,
  { stderr, folder }: Surroundings,
): Promise<number> {
  const given = answerOf(text, input, reason)
  const store = new FileStore(logFolder(log, folder), { clock: systemClock, waitsForRoom: false })
  try {
    const who = { by: { id: whoAmI(), groups }, ...(digest !== undefined && { digest }) }
    const { run, asked, missing } = await answerInLog(store, questionId, given, who)
    stderr.write(
      missing > 0
        ? `Noted; ${missing} more ${missing === 1 ? 'has' : 'have'} to agree.\n`
        : `${oneLine(asked.agent)} gets the answer when run ${oneLine(run.id)} goes on.\n`,
    )
    return EXIT.done
  } catch (error) {
    throw error instanceof LogHeldError ? heldElsewhere(error) : error
  } finally {
    await store.close()
  }
}

/** Returns the answer: the text, or an approval with more than yes or no. */
function answerOf(text: string, input: string | undefined, reason: string | undefined): string | ApprovalAnswer {
  if (input !== undefined) {
    assertSays('--input', text, YES)
    return { approved: true, input: jsonOf(input) }
  }
  if (reason === undefined) return text
  assertSays('--reason', text, NO)
  return { approved: false, reason }
}

function assertSays(option: string, text: string, accepted: string): void {
  if (text === accepted) return
  const error = `${option}: it goes with the answer ${shown(accepted)} alone; the answer is ${shown(text)}.`
  throw new ConfigurationError(error, { path: option, got: text, accepted })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const message = `--input: ${shown(text)} is no JSON: ${describe(error)}`
    throw new ConfigurationError(message, { path: '--input', got: text, accepted: 'JSON' }, error)
  }
}

function heldElsewhere({ details }: LogHeldError): LogHeldError {
  const who = details.pid === undefined ? 'another process' : `process ${details.pid} on ${details.host}`
  const text = `The log is held by ${who}, which goes on with its runs. Answer there (run.answer, or its terminal), or end it first.`
  return new LogHeldError(text, details)
}

export interface LogFlags extends LogAt {
  json?: boolean
}

/** Prints the open questions and resolves to the exit code. Rejects if there is no such log. */
export async function questions(
  { json = false, ...place }: LogFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const runs: RecordedRun[] = []
  for (const { read } of (await logsAt(place, folder)).logs) runs.push(...(await recordedRuns(read)).runs)
  const open = redactor.data(openQuestionsIn(runs).map(questionInfo))
  if (json) await answer.write(jsonText(open))
  else if (open.length === 0) stderr.write('No question is open.\n')
  else await answer.write(open.map(questionLines).join('\n'))
  return EXIT.done
}

function questionInfo({ run: { id: runId }, asked, approval }: RecordedQuestion) {
  const { at, agent, questionId, ask: kind, choices, answerBy } = asked
  const { text, call, digest, agreed } = approval ?? { text: asked.text }
  const shown = { ...(choices && { choices }), ...call, ...(digest !== undefined && { digest, agreed }) }
  return { questionId, runId, agent, kind, text, ...shown, askedAt: at, ...(answerBy !== undefined && { answerBy }) }
}

type Told = ReturnType<typeof questionInfo>

/** The words are a model's, and could steer the terminal. */
function questionLines({ questionId, runId, agent, text, choices = [], ...more }: Told): string {
  const lines = visible(text, '\n').split('\n')
  const { by, groups = [], quorum = 1, agreed = [], answerBy } = more
  const policy = { by: by ?? '', groups, quorum, agreed: agreed.map(({ id }) => id) }
  const leftMs = answerBy === undefined ? undefined : answerBy - systemClock.now()
  const takes = by === undefined ? [] : [visible(approvalWords(policy, leftMs))]
  const rest = [...lines, ...takes, ...choices.map((choice) => `- ${visible(choice)}`)].map((line) => `  ${line}\n`)
  return `${questionId}  ${oneLine(agent)} in run ${oneLine(runId)}\n${rest.join('')}`
}

export interface ResumeFlags {
  json?: boolean
  timeout?: number
  onMismatch?: 'refuse' | 'continue'
}

/**
 * Prints the results and resolves to the exit code: that of the first run that failed. Ctrl-C leaves the runs
 * interrupted. Rejects for everything that keeps the team from starting, and for an unknown run.
 */
export async function resume(
  file: string,
  runId: string | undefined,
  { json = false, timeout, onMismatch }: ResumeFlags,
  surroundings: Surroundings,
): Promise<number> {
  const { answer, stderr } = surroundings
  const unanswered = new AbortController()
  const giveUp = async (question: Question) =>
    unanswered.abort(new ConfigurationError(nobodyAnswers(question), { questionId: question.questionId }))
  const prepare = (loaded: MultiAgentPatternOptions) => byHand(loaded, file)
  const work = async ({ team, signal, progress, asking }: TeamAtWork) => {
    await unlessAborted(signal, team.start())
    const ids = runId === undefined ? await interrupted(team) : [runId]
    if (ids.length === 0) stderr.write('No run is interrupted.\n')
    const options = { ...(timeout !== undefined && { timeoutMs: timeout }), ...(onMismatch && { onMismatch }) }
    const results = Promise.all(ids.map((id) => team.resume(id, options)))
    await Promise.race([results, turn()]) // from then on they go on, with the questions that they had
    for (const question of team.questions()) asking.ask(question)
    const ended = await unlessAborted(signal, unlessAborted(unanswered.signal, results))
    progress.end()
    return tellAll(ids, ended)
  }
  return withTeam(file, prepare, surroundings, work, giveUp)

  async function tellAll(ids: readonly string[], results: readonly MultiAgentResult[]): Promise<number> {
    let code: number = EXIT.done
    for (const [at, result] of results.entries()) {
      const id = oneLine(ids[at]!)
      if (json) await answer.write(resultText(result))
      else if (result.success) {
        if (ids.length > 1) stderr.write(`run ${id}:\n`)
        await answer.write(result.finalOutput.replace(/\n?$/, '\n'))
      }
      if (result.success) continue
      stderr.write(`error: run ${id}: ${failureWords(result.error)}\n`)
      code = code === EXIT.done ? exitCodeOf(result.error) : code
    }
    return code
  }
}

const nobodyAnswers = ({ agent, questionId, runId }: Question) =>
  `${agent} asks a question in run "${runId}", and the input has ended. The run stays interrupted: answer with dramatis answer ${questionId} "..." --log <folder>, then resume it.`

const interrupted = async (team: Team): Promise<string[]> =>
  (await team.listRuns({ status: 'interrupted' })).map(({ id }) => id)

/** Returns the definition of a team that goes on with no run by itself. */
function byHand(definition: MultiAgentPatternOptions, file: string): MultiAgentPatternOptions {
  const { stateManagement } = definition
  if (stateManagement) return { ...definition, stateManagement: { ...stateManagement, resume: 'manual' } }
  const text = `Team file "${file}" has no stateManagement, so its runs are in no log. Write: stateManagement: { path: './log' }`
  throw new ConfigurationError(text, { file, path: 'stateManagement' })
}

export interface Surroundings {
  answer: Answer
  stderr: Screen
  /** Source of the answers to agents' questions. */
  stdin: NodeJS.ReadableStream
  /** The working directory. */
  folder: string
}

export interface RunFlags {
  json?: boolean
  trace?: string
  timeout?: number
  watch?: boolean
}

interface TeamAtWork {
  readonly team: Team
  readonly definition: MultiAgentPatternOptions
  readonly progress: Progress
  readonly asking: AskPerson
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
}

/**
 * Makes the team of a file for some work, shows what it does, and has its questions answered. Resolves to the exit code
 * of the work. Rejects for everything that keeps the team from starting.
 */
async function withTeam(
  file: string,
  prepare: (loaded: MultiAgentPatternOptions) => MultiAgentPatternOptions,
  { answer, stderr, stdin, folder }: Surroundings,
  work: (at: TeamAtWork) => Promise<number>,
  unanswerable?: (question: Question) => Promise<void>,
): Promise<number> {
  loadEnv(folder)
  const progress = await progressOn(stderr)
  answer.divertTo(progress.print)
  return untilInterrupt(progress.print, async (signal) => {
    const definition = prepare(await unlessAborted(signal, loadTeamFile(file, folder)))
    const team = createTeam({ ...definition, logger: definition.logger ?? withoutEvents(lineLogger(progress.print)) })
    const asking = askPerson(team, stdin, progress.print, unanswerable)
    try {
      progress.watch(team)
      return await work({ team, definition, progress, asking, signal })
    } finally {
      asking.stop()
      progress.end()
      await team.close()
    }
  })
}

/** Runs the query and resolves to the exit code. Rejects for everything that kept the run from beginning. */
export async function run(
  file: string,
  query: string,
  { json = false, trace, timeout, watch = false }: RunFlags,
  surroundings: Surroundings,
): Promise<number> {
  const { answer, stderr, folder } = surroundings
  const writeTrace = trace === undefined ? undefined : traceFile(trace, folder)
  const prepare = (loaded: MultiAgentPatternOptions) => inFlowMode(loaded, environment().FLOW_MODE)
  return withTeam(file, prepare, surroundings, async ({ team, definition, progress, signal }) => {
    let codeWatch: CodeWatch | undefined
    try {
      if (watch) {
        const { CodeWatch } = await import('../shared/code-watch.ts') // late: most runs watch nothing
        codeWatch = new CodeWatch(team, definition, (line) => progress.print(`${line}\n`))
        await codeWatch.ready
      }
      const result = await team.execute(query, { signal, timeoutMs: timeout })
      progress.end()
      const code = await tell(result, signal)
      await writeTrace?.(result.orchestrationTrace)
      return code
    } finally {
      codeWatch?.close()
    }
  })

  async function tell(result: MultiAgentResult, signal: AbortSignal): Promise<number> {
    if (json) await answer.write(resultText(result))
    else if (result.success) await answer.write(result.finalOutput.replace(/\n?$/, '\n'))
    if (signal.aborted && !result.success) return EXIT.interrupted
    if (!result.success) stderr.write(`error: ${failureWords(result.error)}\n`)
    const told = result.error?.message ?? '' // a text for people has no reasons
    for (const { agent, error } of result.failures)
      if (!told.includes(error.message)) stderr.write(`left out: ${agent}: ${failureWords(error)}\n`)
    return result.success ? EXIT.done : exitCodeOf(result.error)
  }
}
