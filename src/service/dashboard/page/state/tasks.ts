/** Tasks of the team, and the questions in them that wait for a person. */
import { effect, signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { Task, TaskQuestion, TaskSummary } from '../../../http/schemas.ts'
import { begun, connection, live, version } from './live.ts'
import { ask, Refused } from './service.ts'
import { mayWatch, session, team } from './session.ts'

/** The newest tasks of the team, the newest first. */
export const tasks = signal<readonly TaskSummary[]>([])
/** Open questions, the oldest first. */
export const questions = signal<readonly TaskQuestion[]>([])
/** Id of the last task of the list, if there are more. */
const next = signal<string | null>(null)
export const hasMore = next

const PAGE = '100'
const PAUSE_MS = 400
/** Time between two looks of who may not watch. */
const LOOK_MS = 3_000

/** Asks at most so often, and once more for what has come meanwhile. */
function gently(work: () => Promise<void>): () => void {
  let isBusy = false
  let isWanted = false
  const go = async () => {
    if (isBusy) {
      isWanted = true
      return
    }
    isBusy = true
    isWanted = false
    await work().catch(() => {}) // the banner says that nobody answers
    setTimeout(() => {
      isBusy = false
      if (isWanted) void go()
    }, PAUSE_MS)
  }
  return () => void go()
}

const askTasks = gently(async () => {
  const of = team.peek()
  const page = await ask<{ tasks: TaskSummary[]; next: string | null }>('api/tasks', {
    query: { team: of, limit: PAGE },
  })
  if (of !== team.peek()) return
  tasks.value = page.tasks
  next.value = page.next
})

const askQuestions = gently(async () => {
  const open = mayWatch.peek()
    ? (await ask<{ questions: TaskQuestion[] }>('api/questions')).questions
    : (await Promise.all(openTasks().map(({ id }) => ask<Task>(`api/tasks/${encodeURIComponent(id)}`)))).flatMap(
        (task) => task.questions,
      )
  questions.value = open.filter((question) => question.team === team.peek())
})

const openTasks = (): TaskSummary[] => tasks.peek().filter(({ status }) => !hasEnded(status))

export const hasEnded = (status: string): boolean => ['finished', 'failed', 'aborted', 'interrupted'].includes(status)

/** Asks for the tasks before those of the list. */
export async function askMore(): Promise<void> {
  if (next.value === null) return
  const page = await ask<{ tasks: TaskSummary[]; next: string | null }>('api/tasks', {
    query: { team: team.value, limit: PAGE, before: next.value },
  })
  tasks.value = [...tasks.value, ...page.tasks]
  next.value = page.next
}

/** Asks again for all lists: something was done. */
export function refresh(): void {
  askTasks()
  askQuestions()
}

/** Keeps the lists up to date with what the digest tells. */
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
    if (connection.value === 'refused' || (session.value && !mayWatch.value)) refresh()
  }, LOOK_MS)
}

/** Returns a task, asked for again when something in it has changed. */
export function useTask(id: string | undefined): Task | Refused | undefined {
  const [found, setFound] = useState<{ id: string; task: Task | Refused } | undefined>(undefined)
  version.value
  const run = id === undefined ? undefined : live().runs.get(id)
  const summary = tasks.value.find((task) => task.id === id)
  const asked = [...live().questions.values()].filter(({ runId }) => runId === id).length
  const key = `${begun.value} ${run?.status} ${run?.endedAt} ${summary?.status} ${asked}`
  useEffect(() => {
    if (id === undefined) return
    let isLeft = false
    const settle = (task: Task | Refused) => {
      if (!isLeft) setFound({ id, task })
    }
    ask<Task>(`api/tasks/${encodeURIComponent(id)}`).then(settle, (error: unknown) => {
      if (error instanceof Refused) settle(error)
    })
    return () => {
      isLeft = true
    }
  }, [id, key])
  return found && found.id === id ? found.task : undefined
}
