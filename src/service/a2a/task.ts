/** A run as a task of A2A, and as the events of its stream. Both are folds of the log: nothing is kept here. */

import { systemClock } from '../../shared/clock.ts'
import { digestOf } from '../../shared/random.ts'
import { storyOf } from '../chat/story.ts'
import { isoTime, type TaskQuestion } from '../http/schemas.ts'
import { type FoundTask, HELD, isOver, knownEndOf, openIn } from '../http/task-view.ts'

export const STATES = {
  queued: 'TASK_STATE_SUBMITTED',
  running: 'TASK_STATE_WORKING',
  waiting: 'TASK_STATE_INPUT_REQUIRED',
  finished: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  aborted: 'TASK_STATE_CANCELED',
  interrupted: 'TASK_STATE_WORKING',
} as const

type State = (typeof STATES)[keyof typeof STATES]

interface Status {
  readonly state: State
  readonly timestamp: string
  readonly message?: object
}

interface TaskView {
  readonly id: string
  readonly contextId: string
  readonly status: Status
  readonly artifacts?: object[]
  readonly metadata?: object
}

/** Field of the metadata of a run: its thread, where a client has named it. */
export const CONTEXT = 'a2aContext'

/** Thread of a task. One whose client has named none has that of its own id. */
export const contextOf = ({ run }: FoundTask): string => run.metadata[CONTEXT] ?? run.id

/** Returns a task as it is now. What its reader may not answer is not shown, only that others have to. */
export async function taskOf(found: FoundTask, { withArtifacts = true } = {}): Promise<TaskView> {
  const status = await statusOf(found)
  const artifacts = withArtifacts ? await artifactsOf(found) : []
  const { id } = found.run
  const metadata = isOver(found.run) ? { 'dramatis/usage': found.run.usage } : undefined
  return {
    ...{ id, contextId: contextOf(found), status },
    ...(artifacts.length > 0 && { artifacts }),
    ...(metadata && { metadata }),
  }
}

/** Returns the state of a task, and what it says to its reader. */
async function statusOf(found: FoundTask): Promise<Status> {
  const { run } = found
  const { offered, isHeld } = await openIn(found)
  if (isOver(run)) {
    const end = (await knownEndOf(run))! // looked at last: it may have ended meanwhile
    const endedAt = run.startedAt + ('executionTimeMs' in end ? end.executionTimeMs : 0)
    const message = end.error && said(found, 'end', [textPart(`${end.error.code}: ${end.error.message}`)])
    return { state: STATES[run.status], timestamp: isoTime(endedAt), ...(message && { message }) }
  }
  const now = isoTime(systemClock.now())
  const [first] = offered
  if (first) {
    const { questionId, digest } = first
    const parts = offered.flatMap((question) => [textPart(wordsOf(question)), dataPart(shownOf(question))])
    const metadata = { questionId, ...(digest !== undefined && { digest }) }
    return { state: STATES.waiting, timestamp: now, message: { ...said(found, questionId, parts), metadata } }
  }
  const state = run.status === 'waiting' ? STATES.running : STATES[run.status]
  const message = isHeld && said(found, 'held', [textPart(HELD)])
  return { state, timestamp: now, ...(message && { message }) }
}

async function artifactsOf({ run }: FoundTask): Promise<object[]> {
  const end = isOver(run) ? await knownEndOf(run) : undefined
  if (!end || end.error || !('finalOutput' in end)) return []
  const { finalOutput, data } = end
  const parts = [textPart(finalOutput), ...(data === undefined || data === null ? [] : [dataPart(data)])]
  return [{ artifactId: ANSWER, name: ANSWER, parts }]
}

/** The one artifact of a task. */
const ANSWER = 'answer'

const textPart = (text: string) => ({ text, mediaType: 'text/plain' })
const dataPart = (data: unknown) => ({ data, mediaType: 'application/json' })

const said = (found: FoundTask, what: string, parts: object[]) => ({
  messageId: `${found.run.id}:${what}`,
  contextId: contextOf(found),
  taskId: found.run.id,
  role: 'ROLE_AGENT',
  parts,
})

/**
 * Code of an approval as it is shown. A person who can only write a text agrees with it to what was shown, and to
 * nothing that has taken its place meanwhile.
 */
export const codeOf = ({ questionId, digest }: Pick<TaskQuestion, 'questionId' | 'digest'>): string =>
  digestOf([questionId, digest]).slice(0, 8)

function wordsOf(question: TaskQuestion): string {
  const { kind, text, choices } = question
  const code = codeOf(question)
  if (kind === 'approval') return `${text}\nAnswer "yes ${code}" or "no ${code}".`
  return choices ? `${text}\nAnswer one of: ${choices.join(', ')}.` : text
}

const shownOf = ({ questionId, kind, text, choices, form, digest, tool, input, answerBy }: TaskQuestion) => ({
  ...{ questionId, kind, text },
  ...(choices && { choices }),
  ...(form && { form }),
  ...(digest !== undefined && { digest }),
  ...(tool !== undefined && { tool, input }),
  ...(answerBy !== null && { answerBy }),
})

/** Event of a stream, and the `seq` of the event of the log up to which the task is told with it. */
export interface Told {
  readonly event: object
  readonly seq: number | undefined
}

/**
 * Yields a task as it is, then what happens in it, until it is over or its reader has to answer. The words of the
 * answer come as pieces of its artifact, and at the end as a whole.
 */
export async function* eventsOf(
  found: FoundTask,
  { after, signal }: { after: number | undefined; signal: AbortSignal },
): AsyncGenerator<Told> {
  const of = { taskId: found.run.id, contextId: contextOf(found) }
  const whole = isOver(found.run)
  yield { event: { task: await taskOf(found) }, seq: undefined }
  if (whole) return
  const texts = new Map<string, string>()
  let isNew = true
  let seq = after
  let isPaused = true
  while (isPaused) {
    isPaused = false
    for await (const told of storyOf(found, { after: seq, signal })) {
      seq = told.seq
      const event = (value: object): Told => ({ event: value, seq: told.seq })
      const status = (value: object) => event({ statusUpdate: { ...of, status: value } })
      const working = (message?: object, metadata?: object) =>
        event({
          statusUpdate: {
            ...of,
            status: { state: STATES.running, timestamp: isoTime(systemClock.now()), ...(message && { message }) },
            ...(metadata && { metadata }),
          },
        })
      switch (told.kind) {
        case 'agent':
          if (!told.isDone) yield working(undefined, { 'dramatis/agent': told.agent })
          break
        case 'progress':
          yield working(said(found, `note:${told.seq}`, [textPart(told.note)]))
          break
        case 'begin':
          if (told.part === 'text') texts.set(told.id, '')
          break
        case 'words': {
          if (told.part !== 'text') break
          texts.set(told.id, (texts.get(told.id) ?? '') + told.text)
          const text = isNew ? [...texts.values()].join('') : told.text
          const artifact = { artifactId: ANSWER, name: ANSWER, parts: [textPart(text)] }
          yield event({ artifactUpdate: { ...of, artifact, append: !isNew, lastChunk: false } })
          isNew = false
          break
        }
        case 'fell':
          texts.delete(told.id)
          isNew = true // what stands is sent again with the next words, in place of all before
          break
        case 'asked':
        case 'closed':
        case 'pause': {
          if (told.kind === 'asked' && told.refusal === undefined) break // a pause follows
          const now = await statusOf(found)
          yield status(now)
          if (now.state === STATES.waiting) return
          isPaused ||= told.kind === 'pause' // somebody else has answered
          break
        }
        case 'over':
          for (const artifact of await artifactsOf(found))
            yield event({ artifactUpdate: { ...of, artifact, append: false, lastChunk: true } })
          yield event({
            statusUpdate: { ...of, status: await statusOf(found), metadata: { 'dramatis/usage': found.run.usage } },
          })
      }
    }
    if (signal.aborted) return
  }
}
