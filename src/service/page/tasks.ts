/** Tasks of the team, and the questions in them that wait for a person. */
import { effect, type Signal, signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Slots } from '../../shared/on-abort.ts'
import type { Task, TaskQuestion, TaskSummary } from '../http/schemas.ts'
import { begun, connection, live, version } from './live.ts'
import { lookUp, mayApprove, mayWatch, session, team } from './place.ts'
import { ask, gently, lines, Refused, taskPath } from './service.ts'

const answers = new Map<string, Signal<string>>()
const PAUSE_MS = 1_000
const MOST_KEPT = 100
/** Answers that are read at a time: a browser has six connections to a service, for all its tabs. */
const places = new Slots(2)

export const answerOf = (task: string): string | undefined => answers.get(task)?.value

/** Reads along as long as the component is shown. undefined: nothing is to be read. */
export function useAnswer(task: string | undefined): string | undefined {
  useEffect(() => {
    if (task === undefined) return
    const over = new AbortController()
    const { signal } = over
    const nobodyLooks = () => {}
    void places.take(signal).then((leave) => readAlong(task, signal).finally(leave), nobodyLooks)
    return () => over.abort()
  }, [task])
  return task === undefined ? undefined : writtenOf(task).value
}

function writtenOf(task: string): Signal<string> {
  let written = answers.get(task)
  if (!written) {
    written = signal('')
    answers.set(task, written)
    for (const oldest of [...answers.keys()].slice(0, Math.max(0, answers.size - MOST_KEPT))) answers.delete(oldest)
  }
  return written
}

interface Told {
  id?: string
  type: string
  callId?: string
  answerOf?: string
  part?: string
  text?: string
  chunk?: string
  final?: boolean
}

/** After these a task is asked for again: who may not watch hears of them here alone. */
const NEWS = 'speaker,question,question.closed,steer,steer.read,steer.unread,run.finished,run.aborted'
const READ = `model.delta,output.delta,${NEWS}`
const news = signal(0)
/** Stands between the words of two calls of models. */
export const GAP = '\n\n'

async function readAlong(task: string, signal: AbortSignal): Promise<void> {
  const written = writtenOf(task)
  written.value = ''
  let call = ''
  let after: string | undefined
  let isOver = false
  while (!signal.aborted) {
    try {
      const query = { deltas: '1', types: READ, after }
      for await (const line of lines(taskPath(task, 'events'), { query, signal })) {
        const { id, type, callId = '', answerOf, part, text = '', chunk = '', final } = line as Told
        after = id ?? after
        if (type === 'reset') written.value = call = ''
        if (type === 'run.finished') isOver = true
        if (NEWS.split(',').includes(type)) {
          news.value += 1
          refresh()
        }
        if (type === 'model.delta' && answerOf === 'run' && part === 'text') {
          written.value += (call === callId || written.value === '' ? '' : GAP) + text
          call = callId
        }
        if (type === 'output.delta' && final && call === '') written.value += chunk // no model says it
      }
      if (isOver) return // a service that ends lets go of its streams, too
    } catch (error) {
      if (error instanceof Refused && error.status !== 401 && error.status < 500) return
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

/**
 * Returns the answer to a GET, or its refusal; undefined as long as there is none, or no path. It is asked for again
 * when `key` has changed. What was found stays until then.
 */
export function useAsked<T>(
  path: string | undefined,
  key: string,
  query: Readonly<Record<string, string>> = {},
): T | Refused | undefined {
  const of = path === undefined ? '' : `${path} ${JSON.stringify(query)}`
  const [found, setFound] = useState<{ of: string; answer: T | Refused } | undefined>(undefined)
  const again = useRef(() => {})
  useEffect(() => {
    const over = new AbortController()
    again.current = gently(async () => {
      if (path === undefined || over.signal.aborted) return
      const answer = await ask<T>(path, { query, signal: over.signal }).catch((error: unknown) => {
        if (error instanceof Refused) return error
        throw error // nobody has answered
      })
      if (!over.signal.aborted) setFound({ of, answer })
    })
    return () => over.abort()
  }, [of])
  useEffect(() => again.current(), [of, key])
  return found?.of === of ? found.answer : undefined
}

/** The newest tasks of the team, the newest first. */
export const tasks = signal<readonly TaskSummary[]>([])
/** Open questions, the oldest first. */
export const questions = signal<readonly TaskQuestion[]>([])
/** Id of the last task of the list, if there are more. */
const next = signal<string | null>(null)
export const hasMore = next

const PAGE = 100
const MOST_OF_A_REQUEST = 1_000
/** Time between two looks of who may not watch. */
const LOOK_MS = 3_000

/** Number of tasks that are asked for, and of which team. */
let wanted = { team: '', count: PAGE }

const askTasks = gently(async () => {
  const of = team.peek()
  if (wanted.team !== of) wanted = { team: of, count: PAGE }
  const found: TaskSummary[] = []
  let before: string | null = null
  do {
    const limit = String(Math.min(MOST_OF_A_REQUEST, wanted.count - found.length))
    const page: { tasks: TaskSummary[]; next: string | null } = await ask('api/tasks', {
      query: { team: of, limit, before: before ?? undefined },
    })
    found.push(...page.tasks)
    before = page.next
  } while (before !== null && found.length < wanted.count)
  if (of !== team.peek()) return
  tasks.value = found
  next.value = before
})

const askQuestions = gently(async () => {
  const told = async () => (await ask<{ questions: TaskQuestion[] }>('api/questions')).questions
  const ofOthers = mayWatch.peek() || mayApprove.peek() ? await told() : []
  const ofOwn = mayWatch.peek() ? [] : await Promise.all(openTasks().map(({ id }) => ask<Task>(taskPath(id))))
  const open = new Map(
    [...ofOthers, ...ofOwn.flatMap((task) => task.questions)].map((question) => [question.questionId, question]),
  )
  questions.value = [...open.values()].filter((question) => question.team === team.peek())
})

const openTasks = (): TaskSummary[] => tasks.peek().filter(({ status }) => !hasEnded(status))

export const hasEnded = (status: string): boolean => ['finished', 'failed', 'aborted', 'interrupted'].includes(status)

/** Asks for more tasks, from now on: those before the last of the list. */
export function askMore(): void {
  wanted = { team: team.value, count: tasks.value.length + PAGE }
  askTasks()
}

export function refresh(): void {
  askTasks()
  askQuestions()
}

export function keepTasks(): void {
  let seen = ''
  effect(() => {
    version.value
    begun.value
    const { runs, questions: open } = live()
    let ended = 0
    for (const { endedAt } of runs.values()) if (endedAt !== null) ended += 1
    const key = `${team.value} ${begun.value} ${runs.size} ${ended} ${[...open.keys()].join()}`
    if (key === seen || !session.value) return
    seen = key
    refresh()
  })
  setInterval(() => {
    if (connection.value === 'refused' || (session.value && !mayWatch.value)) void lookAgain()
  }, LOOK_MS)
}

async function lookAgain(): Promise<void> {
  try {
    await lookUp()
  } catch (error) {
    if (!(error instanceof Refused)) connection.value = 'lost'
    return
  }
  if (connection.value === 'lost') {
    connection.value = 'refused'
    begun.value += 1
  }
  refresh()
}

/** Returns a task, asked for again when something in it has changed. */
export function useTask(id: string | undefined): Task | Refused | undefined {
  version.value
  const run = id === undefined ? undefined : live().runs.get(id)
  const summary = tasks.value.find((task) => task.id === id)
  const asked = [...live().questions.values()].filter(({ runId }) => runId === id).length
  const key = `${begun.value} ${news.value} ${run?.status} ${run?.endedAt} ${run?.steers} ${summary?.status} ${asked}`
  return useAsked<Task>(id && taskPath(id), key)
}
