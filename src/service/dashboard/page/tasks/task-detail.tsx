/** Details of a task: its answer, what it asks, who has worked for it, and what it took. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { grouped, span } from '../../../figures.ts'
import type { Task } from '../../../http/schemas.ts'
import { AtWork } from '../parts/at-work.tsx'
import { Markdown } from '../parts/markdown.tsx'
import { Mark } from '../parts/marks.tsx'
import { Questions } from '../parts/question-card.tsx'
import { clock } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { answerOf, useAnswer } from '../state/answers.ts'
import { money } from '../state/costs.ts'
import { now } from '../state/live.ts'
import { linkTo } from '../state/place.ts'
import { ask, Refused } from '../state/service.ts'
import { hasEnded, questions, refresh, useTask } from '../state/tasks.ts'

export function TaskDetail({ id }: { id: string }): JSX.Element {
  const task = useTask(id)
  if (task === undefined) return <p class="empty">Asking for the task …</p>
  if (task instanceof Refused) return <p class="failure">{task.message}</p>
  const begun = Date.parse(task.createdAt)
  return (
    <article class="task" aria-label="Task">
      <header class="row">
        <Mark status={task.status} />
        <span class="dim">
          {clock(begun, now.value)} · {span((task.endedAt === null ? now.value : Date.parse(task.endedAt)) - begun)}
        </span>
        <span class="grow" />
        <a class="button" href={linkTo({ view: 'run', task: id, at: undefined })}>
          What happened
        </a>
        <a class="button" href={linkTo({ view: 'board', task: id })}>
          Board
        </a>
        {!hasEnded(task.status) && <Stop id={id} />}
      </header>
      <div class="query">
        <Words text={task.query} />
      </div>
      <Questions of={questions.value.filter(({ taskId }) => taskId === id)} />
      {!hasEnded(task.status) && <AtWork task={id} />}
      <Answer task={task} />
      {task.error && (
        <p class="failure">
          <strong>{task.error.code}</strong> <Words text={task.error.detail} />
        </p>
      )}
      <Failures task={task} />
      <SubTasks task={task} />
      <Usage task={task} />
      <p class="dim small">
        <Words text={id} />
        {task.rehearsed && ' · a rehearsal model has made up answers in it'}
      </p>
    </article>
  )
}

/** Shows the answer as it is written, then as it is. */
export function Answer({ task }: { task: Task }): JSX.Element | null {
  const written = useAnswer(hasEnded(task.status) ? undefined : task.id)
  const text = task.answer ?? written ?? answerOf(task.id)
  if (text === undefined || text === '') return null
  return (
    <section class="answer" aria-label="Answer" aria-live="polite">
      <Markdown text={text} />
    </section>
  )
}

export function Stop({ id }: { id: string }): JSX.Element {
  const [isSent, setSent] = useState(false)
  const [failure, setFailure] = useState('')
  const stop = async () => {
    setSent(true)
    setFailure('')
    await ask(`api/tasks/${encodeURIComponent(id)}`, {
      method: 'DELETE',
      query: { reason: 'stopped in the dashboard' },
    }).catch((error: unknown) => {
      setSent(false)
      setFailure(error instanceof Error ? error.message : String(error))
    })
    refresh()
  }
  return (
    <>
      <button type="button" class="bad" disabled={isSent} onClick={() => void stop()}>
        Stop
      </button>
      {failure !== '' && (
        <span class="failure" role="alert">
          <Words text={failure} />
        </span>
      )}
    </>
  )
}

function Failures({ task: { failures } }: { task: Task }): JSX.Element | null {
  if (failures.length === 0) return null
  return (
    <section>
      <h3>Failures</h3>
      <ul class="plain">
        {failures.map(({ agent, error }, at) => (
          <li key={at}>
            <span class="mark failed" aria-hidden="true">
              ✕
            </span>{' '}
            <Words text={agent} /> <code>{error.code}</code> <Words text={error.detail} most={600} />
          </li>
        ))}
      </ul>
    </section>
  )
}

function SubTasks({ task: { subTasks } }: { task: Task }): JSX.Element | null {
  if (subTasks.length === 0) return null
  return (
    <section>
      <h3>Sub-tasks</h3>
      <ul class="plain">
        {subTasks.map(({ id, description, assignedTo, status }) => (
          <li key={id}>
            <span class={`chip ${status}`}>{status.replace('_', ' ')}</span> <Words text={assignedTo ?? 'nobody'} />{' '}
            <span class="dim">
              <Words text={description} most={200} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Usage({ task: { usageByAgent, usage, cost } }: { task: Task }): JSX.Element | null {
  const agents = Object.entries(usageByAgent).filter(([, { calls }]) => calls > 0)
  if (agents.length === 0) return null
  return (
    <section>
      <h3>
        Tokens{' '}
        <span class="dim">
          {grouped(usage.totalTokens)} in {usage.calls === 1 ? '1 call' : `${grouped(usage.calls)} calls`}
          {cost && `, about ${money(cost.estimate)} by the prices given`}
        </span>
      </h3>
      <ul class="bars">
        {agents
          .sort(([, one], [, other]) => other.totalTokens - one.totalTokens)
          .map(([agent, { totalTokens }]) => (
            <li key={agent}>
              <Words text={agent} />
              <meter min={0} max={usage.totalTokens || 1} value={totalTokens} aria-label={`tokens of ${agent}`} />
              <span class="number">{grouped(totalTokens)}</span>
            </li>
          ))}
      </ul>
    </section>
  )
}
