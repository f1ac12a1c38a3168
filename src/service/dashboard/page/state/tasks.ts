/** Tasks of the team, and the questions in them that wait for a person. */
import { effect, signal } from '@preact/signals'
import type { Task, TaskQuestion, TaskSummary } from '../../../http/schemas.ts'
import { useAsked } from './asked.ts'
import { gently } from './gently.ts'
import { begun, connection, live, version } from './live.ts'
import { ask, Refused } from './service.ts'
import { lookUp, mayWatch, session, team } from './session.ts'

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
    const page: TaskPage = await ask('api/tasks', { query: { team: of, limit, before: before ?? undefined } })
    found.push(...page.tasks)
    before = page.next
  } while (before !== null && found.length < wanted.count)
  if (of !== team.peek()) return
  tasks.value = found
  next.value = before
})

interface TaskPage {
  tasks: TaskSummary[]
  next: string | null
}

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

/** Asks for more tasks, from now on: those before the last of the list. */
export function askMore(): void {
  wanted = { team: team.value, count: tasks.value.length + PAGE }
  askTasks()
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
    if (connection.value === 'refused' || (session.value && !mayWatch.value)) void lookAgain()
  }, LOOK_MS)
}

/** Asks for what a digest would tell: who we are, whether anybody answers, and the lists. */
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
  const key = `${begun.value} ${run?.status} ${run?.endedAt} ${summary?.status} ${asked}`
  return useAsked<Task>(id === undefined ? undefined : `api/tasks/${encodeURIComponent(id)}`, key)
}
