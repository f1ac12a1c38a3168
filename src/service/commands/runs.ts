/** `dramatis runs --log <folder or url>`: the runs of a log, with their status. */
import type { MailboxView, RunMoment, RunView } from '../../index.ts'
import type { RunStatus } from '../../runtime/runs/run.ts'
import { sequenceDiagram, traceOf } from '../../runtime/runs/trace.ts'
import { openQuestionsIn, type RecordedRun, recordedRun, recordedRuns } from '../../runtime/views/recorded-runs.ts'
import { LoggedReplay } from '../../runtime/views/run-replay.ts'
import { logsAt } from '../shared/cluster-url.ts'
import { EXIT, oneLine } from '../shared/failure.ts'
import { jsonText } from '../shared/json-text.ts'
import { environmentRedactor } from '../shared/load-team-file.ts'
import type { LogFlags, Surroundings } from './run.ts'

export interface ReplayFlags extends LogFlags {
  /** Number of the moment whose state is printed; Infinity is the last one. */
  at?: number
}

/** Prints the moments, or the state at one, and resolves to the exit code. Rejects if there is no such log or run. */
export async function replay(
  runId: string,
  { at, json = false, ...place }: ReplayFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const { where, logs } = await logsAt(place, folder)
  const past = new LoggedReplay(await recordedRun(where, runId, false, logs), redactor)
  const { moments } = past
  if (at === undefined) {
    if (json) await answer.write(jsonText(moments))
    else if (moments.length === 0) stderr.write('The log has nothing of the run but its launch.\n')
    else await answer.write(moments.map(momentLine).join(''))
    return EXIT.done
  }
  const next = moments.findIndex(({ seq }) => seq > at)
  const count = next < 0 ? moments.length : next
  const stand = { moment: moments[count - 1], previous: moments[count - 2]?.seq, next: moments[count]?.seq }
  const view = past.at(at)
  await answer.write(json ? jsonText(data(stand, view)) : text(stand, view))
  return EXIT.done
}

/** Place among the moments. `moment`: undefined before the first one. */
interface Stand {
  moment: RunMoment | undefined
  previous: number | undefined
  next: number | undefined
}

const data = ({ moment = undefined, previous, next }: Stand, view: RunView): object => ({
  moment: moment ?? null,
  previous: previous ?? null,
  next: next ?? null,
  ...view,
})

const momentLine = ({ seq, at, sentence }: RunMoment): string =>
  `${String(seq).padStart(SEQ_WIDTH)}  ${new Date(at).toISOString()}  ${oneLine(sentence)}\n`

const SEQ_WIDTH = 6

function text({ moment, previous, next }: Stand, { agents, mailboxes, waits, board, tasks }: RunView): string {
  const forWhom = (names: readonly string[]) => (names.length > 0 ? ` for ${names.join(', ')}` : '')
  const lists: Record<string, string[]> = {
    agents: agents.map(({ agent, status }) => `${agent}: ${status}`),
    mailboxes: mailboxes.flatMap(messagesIn),
    waits: waits.map(({ agent, for: whom, kind }) => `${agent} waits${forWhom(whom)} (${kind})`),
    board: Object.entries(board).map(([key, value]) => `${key}: ${JSON.stringify(value)}`),
    tasks: tasks.map(({ status, assignedTo, description }) => `${status}, ${assignedTo ?? 'nobody'}: ${description}`),
  }
  const parts = [...Object.entries(lists).map(([title, lines]) => list(title, lines)), steps(previous, next)]
  return `${moment ? momentLine(moment) : 'before the first moment\n'}\n${parts.join('\n')}`
}

function list(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? `${title}: none\n` : `${title}\n${lines.map((line) => `  ${oneLine(line)}\n`).join('')}`
}

function messagesIn({ agent, messages }: MailboxView): string[] {
  return messages.map(({ type, from, content, attempt, inTurn }) => {
    const state = [inTurn && 'in a turn', attempt > 1 && `attempt ${attempt}`].filter((part) => part !== false)
    return `${agent} has a ${type} of ${from}${state.length > 0 ? ` (${state.join(', ')})` : ''}: ${content}`
  })
}

function steps(previous: number | undefined, next: number | undefined): string {
  const places = [previous !== undefined && `previous: ${previous}`, next !== undefined && `next: ${next}`]
  return `${places.filter((place) => place !== false).join('  ') || 'no other moment'}\n`
}

export interface RunsFlags extends LogFlags {
  status?: RunStatus
}

/** Prints the runs, oldest first, and resolves to the exit code. Rejects if there is no such log. */
export async function runs(
  { status, json = false, ...place }: RunsFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const { logs } = await logsAt(place, folder)
  const all: ReturnType<typeof runInfo>[] = []
  for (const log of logs) {
    const isHeld = await log.isHeld()
    const recorded = await recordedRuns(log.read, ({ own }) => !own)
    const asking = new Set(openQuestionsIn(recorded.runs).map(({ run }) => run))
    for (const run of recorded.runs) all.push(runInfo(run, statusOf(run, isHeld, asking.has(run))))
  }
  if (logs.length > 1) all.sort((one, other) => one.startedAt - other.startedAt)
  const wanted = redactor.data(all.filter((run) => status === undefined || run.status === status))
  if (json) await answer.write(jsonText(wanted))
  else if (wanted.length === 0) stderr.write(status ? `No run is ${status}.\n` : 'The log has no run.\n')
  else await answer.write(wanted.map(runLine).join(''))
  return EXIT.done
}

/** A run without an end goes on in the process that has the log, or is interrupted if none has. */
function statusOf(run: RecordedRun, isHeld: boolean, asks: boolean): RunStatus {
  const { status } = run
  if (status !== 'unfinished') return status
  if (!isHeld) return 'interrupted'
  if (asks) return 'waiting'
  return run.entries.some(({ kind }) => kind === 'run.started') ? 'running' : 'queued'
}

function runInfo({ launched: { id, query, startedAt }, finished }: RecordedRun, status: RunStatus) {
  const error = finished?.error
  return { id, status, startedAt, ...(finished && { endedAt: finished.at }), query, ...(error && { error }) }
}

function runLine({ id, status, startedAt, query }: ReturnType<typeof runInfo>): string {
  return `${oneLine(id)}  ${status.padEnd('interrupted'.length)}  ${new Date(startedAt).toISOString()}  ${oneLine(query)}\n`
}

/** Prints the trace and resolves to the exit code. Rejects if there is no such log, or no such run in it. */
export async function trace(
  runId: string,
  { json = false, ...place }: LogFlags,
  { answer, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const { where, logs } = await logsAt(place, folder)
  const run = await recordedRun(where, runId, false, logs)
  const found = redactor.data(traceOf(run.log, run.directory))
  await answer.write(json ? jsonText(found) : sequenceDiagram(found))
  return EXIT.done
}
