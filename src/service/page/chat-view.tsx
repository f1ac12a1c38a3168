/** A conversation with the team: tasks of one thread, answers as they are written, questions in line. */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { TaskSummary } from '../http/schemas.ts'
import { AtWork } from './at-work.tsx'
import { AskForm, Questions, sendUnread } from './forms.tsx'
import { now } from './live.ts'
import { Button } from './parts.tsx'
import { goTo, linkTo, place, team } from './place.ts'
import { ask, Refused } from './service.ts'
import { hasEnded, questions, tasks, useTask } from './tasks.ts'
import { Answer, Stop, TaskError } from './tasks-view.tsx'
import { clock, Mark, shown, Words } from './words.tsx'

export function ChatView(): JSX.Element {
  const { thread } = place.value
  useEffect(() => {
    if (thread === undefined) goTo({ thread: newest() ?? newThread() }, true)
  }, [thread])
  return (
    <div class="chat-panes">
      <Threads current={thread} />
      {thread !== undefined && <Conversation key={thread} thread={thread} />}
    </div>
  )
}

const newThread = (): string => `chat-${Math.floor(Math.random() * 2 ** 40).toString(36)}${Date.now().toString(36)}`

const newest = (): string | undefined => tasks.peek().find(({ threadId }) => threadId !== null)?.threadId ?? undefined

/** The conversations of the newest tasks, each by what it has begun with. */
function Threads({ current }: { current: string | undefined }): JSX.Element {
  const threads = new Map<string, { query: string; at: number; isOpen: boolean }>()
  for (const { threadId, query, createdAt, status } of tasks.value) {
    if (threadId === null) continue
    const known = threads.get(threadId)
    const isOpen = known?.isOpen || !hasEnded(status)
    threads.set(threadId, { query, at: known?.at ?? Date.parse(createdAt), isOpen })
  }
  return (
    <nav class="threads" aria-label="Conversations">
      <Button text="New conversation" onClick={() => goTo({ thread: newThread() })} />
      <ul class="plain">
        {[...threads].map(([id, { query, at, isOpen }]) => (
          <li key={id}>
            <a data-row href={linkTo({ thread: id })} aria-current={id === current ? 'true' : undefined}>
              <Words text={query} most={60} />
              <small class="dim">
                {isOpen && '● '}
                {clock(at, now.value)}
              </small>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

function Conversation({ thread }: { thread: string }): JSX.Element {
  const [older, setOlder] = useState<readonly TaskSummary[]>([])
  useEffect(() => {
    ask<{ tasks: TaskSummary[] }>('api/tasks', { query: { team: team.value, threadId: thread, limit: '100' } }).then(
      (page) => setOlder(page.tasks),
      () => {}, // the banner says that nobody answers
    )
  }, [thread])
  const all = new Map(
    [...older, ...tasks.value].filter(({ threadId }) => threadId === thread).map((task) => [task.id, task]),
  )
  const said = [...all.values()].sort((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt))
  const busy = said.findLast(({ status }) => !hasEnded(status))
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' })
  }, [said.length, questions.value.length])
  return (
    <section class="conversation" aria-label="Conversation">
      <div class="said">
        {said.length === 0 && (
          <p class="empty">Ask the team something. It remembers what was said in this conversation.</p>
        )}
        {said.map(({ id }) => (
          <Exchange key={id} id={id} thread={thread} />
        ))}
        <div ref={end} />
      </div>
      <AskForm label="Write to the team" thread={thread} busy={busy?.id} begun={() => {}} />
    </section>
  )
}

/** Mark behind words: whether they are read, and by whom. */
function Read({ by }: { by: readonly string[] }): JSX.Element {
  const words = by.length === 0 ? 'not read yet' : `read by ${shown(by.join(', '))}`
  return (
    <small class="dim" role="img" aria-label={words} title={words}>
      {by.length === 0 ? '·' : '✓'}
    </small>
  )
}

function Exchange({ id, thread }: { id: string; thread: string }): JSX.Element | null {
  const task = useTask(id)
  useEffect(() => {
    if (task && !(task instanceof Refused)) sendUnread(task, thread)
  }, [task])
  if (task === undefined) return null
  if (task instanceof Refused) return <p class="failure">{task.message}</p>
  const isOpen = !hasEnded(task.status)
  return (
    <>
      <div class="mine">
        <Words text={task.query} />
      </div>
      {task.steers.map(({ id: said, text, readBy }) => (
        <div class="mine" key={said}>
          <Words text={text} /> <Read by={readBy} />
        </div>
      ))}
      <div class="theirs">
        <Answer task={task} />
        {isOpen && <AtWork task={id} />}
        <Questions of={questions.value.filter(({ taskId }) => taskId === id)} />
        <TaskError task={task} />
        <footer class="row dim small">
          <Mark status={task.status} />
          {task.speaker !== null && (isOpen || task.status === 'finished') && (
            <span>
              <Words text={task.speaker} /> {isOpen ? 'speaks now' : 'has spoken'}
            </span>
          )}
          <a href={linkTo({ view: 'run', task: id, at: undefined })}>what happened</a>
          {isOpen && <Stop id={id} />}
        </footer>
      </div>
    </>
  )
}
