/** View of what is going on: questions that wait, the tasks, and a form for the next one. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import type { Task, TaskSummary } from '../http/schemas.ts'
import { AtWork } from './at-work.tsx'
import { type Cost, money, useCosts } from './folds.ts'
import { AskForm, Questions } from './forms.tsx'
import { live, messagesOf, now, version } from './live.ts'
import { goTo, linkTo, place, session } from './place.ts'
import { ask, Refused } from './service.ts'
import { answerOf, askMore, hasEnded, hasMore, questions, refresh, tasks, useAnswer, useTask } from './tasks.ts'
import { clock, Mark, Markdown, shown, Words } from './words.tsx'

function TaskDetail({ id }: { id: string }): JSX.Element {
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

export function TasksView(): JSX.Element {
  const { task, filter = '' } = place.value
  const listed = tasks.value.filter((each) => fits(each, filter))
  const elsewhere = questions.value.filter(({ taskId }) => taskId !== task)
  return (
    <div class="two-panes">
      <div class="pane">
        <AskForm label="Give the team a task" begun={({ id }) => goTo({ task: id })} />
        <Questions of={elsewhere} />
        <div class="row head">
          <h2>Tasks</h2>
          <input
            type="search"
            id="filter"
            placeholder="Find in tasks"
            aria-label="Find in tasks"
            value={filter}
            onInput={(event) => goTo({ filter: event.currentTarget.value || undefined }, true)}
          />
        </div>
        {listed.length === 0 ? (
          <p class="empty">{filter === '' ? 'Nobody has given the team a task yet.' : 'No task has that text.'}</p>
        ) : (
          <TaskTable listed={listed} selected={task} />
        )}
        {hasMore.value !== null && (
          <button type="button" onClick={askMore}>
            Older tasks
          </button>
        )}
      </div>
      <div class="pane side">
        {task === undefined ? <p class="empty">Choose a task to see its answer.</p> : <TaskDetail id={task} />}
      </div>
    </div>
  )
}

const fits = ({ query, threadId, status, id, errorCode }: TaskSummary, filter: string): boolean =>
  filter === '' || `${query}\n${threadId}\n${status}\n${id}\n${errorCode}`.toLowerCase().includes(filter.toLowerCase())

/** Tasks of the list whose costs are asked for: each is a request. */
const MOST_PRICED = 30

function TaskTable({
  listed,
  selected,
}: {
  listed: readonly TaskSummary[]
  selected: string | undefined
}): JSX.Element {
  const costs = useCosts(listed.slice(0, MOST_PRICED).flatMap(({ id, status }) => (hasEnded(status) ? id : [])))
  return (
    <table class="list">
      <thead>
        <tr>
          <th>status</th>
          <th>task</th>
          <th class="spare">begun</th>
          <th class="number">time</th>
          <th class="number spare">messages</th>
          <th class="number">tokens</th>
          {session.value?.hasPrices && <th class="number">money</th>}
        </tr>
      </thead>
      <tbody>
        {listed.map((each) => (
          <TaskRow key={each.id} task={each} cost={costs.get(each.id)} isSelected={each.id === selected} />
        ))}
      </tbody>
    </table>
  )
}

interface RowProps {
  task: TaskSummary
  cost: Cost | undefined
  isSelected: boolean
}

function TaskRow({ task, cost, isSelected }: RowProps): JSX.Element {
  version.value
  const { id, query, status, threadId, createdAt, endedAt, usage, errorCode } = task
  const run = live().runs.get(id)
  const messages = messagesOf(id)
  const asks = questions.value.some(({ taskId }) => taskId === id)
  const begun = Date.parse(createdAt)
  const end = endedAt === null ? (hasEnded(status) ? begun : now.value) : Date.parse(endedAt)
  return (
    <tr class={isSelected ? 'selected' : ''}>
      <td>
        <Mark status={asks ? 'waiting' : status} />
        {asks && <span class="badge">asks you</span>}
      </td>
      <td class="wide">
        <a data-row href={linkTo({ task: id })} aria-current={isSelected ? 'true' : undefined}>
          <Words text={query} most={140} />
        </a>
        {errorCode !== null && <code class="error-code">{errorCode}</code>}
        {threadId !== null && (
          <a class="chip" href={linkTo({ view: 'chat', thread: threadId })} title={`conversation ${shown(threadId)}`}>
            chat
          </a>
        )}
      </td>
      <td class="dim nowrap spare">{clock(begun, now.value)}</td>
      <td class="number">{span(end - begun)}</td>
      <td class="number spare">{messages === undefined ? '' : grouped(messages)}</td>
      <td class="number">{grouped(Math.max(usage.totalTokens, run?.tokens ?? 0))}</td>
      {session.value?.hasPrices && <td class="number">{cost && money(cost.estimate)}</td>}
    </tr>
  )
}
