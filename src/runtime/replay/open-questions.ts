/** Questions to a person that a log has open, for a program that only answers them. */
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import { ConfigurationError, shown } from '../../errors.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import { type HostRecord, type LogEntry, SEQ_STEP } from '../log/records.ts'
import { lastSeq as lastSeqOf } from '../log/run-log.ts'
import { OpenWork } from '../state/open-work.ts'
import type { LogStore } from '../store/log-store.ts'
import { answerFields, callIn, checkBySchemaOf, givenAnswer } from '../verbs/open-question.ts'
import { type RecordedRun, recordedRuns } from './recorded-runs.ts'

/** Question that nobody has answered yet. */
export interface RecordedQuestion {
  readonly run: RecordedRun
  readonly asked: Extract<HostRecord, { kind: 'question' }>
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
    if (entry.kind === 'question') open.set(entry.questionId, { run, asked: entry })
    else if (entry.kind === 'answer' || entry.kind === 'question.closed') open.delete(entry.questionId)
  }
  const waiting = new Set(Array.from(work.calls, ({ memory, at }) => idOf(memory, at)))
  return [...open.values()].filter(({ asked }) => waiting.has(asked.questionId))
}

/**
 * Writes the answer of a question into a log that no process has. `by`: id of who answers. The next process that goes
 * on with its run takes it.
 *
 * Rejects with `ConfigurationError` if no such question is open, or for an answer that it does not take; with
 * `LogHeldError` if a process has the log.
 */
export async function answerInLog(
  store: LogStore,
  questionId: string,
  answer: string | ApprovalAnswer,
  by: string,
): Promise<RecordedQuestion> {
  const { incarnation, lastSeq } = await store.open()
  const { runs } = await recordedRuns(() => store.read())
  const question = questionIn(runs, questionId)
  const { agent, choices } = question.asked
  const call = callIn(question.asked)
  const given = givenAnswer({ agent, choices, call }, answer)
  if (typeof given === 'object' && 'input' in given) await checkBySchemaOf(call, given.input)
  const seq = lastSeq + 1
  const at = Date.now()
  const { run } = question.run.launched
  const entries: LogEntry[] = [
    { kind: 'log.opened', incarnation, seq, at, run: 0 },
    { kind: 'answer', agent, questionId, ...answerFields(given, by), seq: seq + SEQ_STEP, at, run },
  ]
  await store.append({
    firstSeq: seq,
    lastSeq: lastSeqOf(entries.at(-1)!),
    carried: false,
    runs: [0, run],
    entries: new EntryEncoder().encode(entries),
  })
  await store.sync()
  return question
}

function questionIn(runs: readonly RecordedRun[], questionId: string): RecordedQuestion {
  const open = openQuestionsIn(runs)
  const found = open.find(({ asked }) => asked.questionId === questionId)
  if (found) return found
  const ids = open.map(({ asked }) => asked.questionId).join(', ') || 'none'
  const text = `No question ${shown(questionId)} is open in this log: it was answered, was withdrawn, or never was. Open: ${ids}.`
  throw new ConfigurationError(text, { path: 'questionId', got: questionId, accepted: ids })
}
