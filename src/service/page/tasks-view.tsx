/** View of what is going on: questions that wait, the tasks, and a form for the next one. */
import type { ComponentChildren, JSX } from 'preact'
import { span } from '../../runtime/views/slow.ts'
import { PartialJson } from '../../shared/partial-json.ts'
import { grouped } from '../../shared/text.ts'
import type { Task, TaskSummary } from '../http/schemas.ts'
import { AtWork } from './at-work.tsx'
import { money, moneyOf, useCosts } from './folds.ts'
import { AskForm, Questions } from './forms.tsx'
import { live, messagesOf, now, version } from './live.ts'
import { Button, Data, Failure, Find, List, PlaceLink, useSending } from './parts.tsx'
import { goTo, linkTo, place, session } from './place.ts'
import { ask, Refused, taskPath } from './service.ts'
import { answerOf, askMore, GAP, hasEnded, hasMore, questions, refresh, tasks, useAnswer, useTask } from './tasks.ts'
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
        <PlaceLink text="What happened" to={{ view: 'run', task: id, at: undefined }} />
        <PlaceLink text="Board" to={{ view: 'board', task: id }} />
        {!hasEnded(task.status) && <Stop id={id} />}
      </header>
      <div class="query">
        <Words text={task.query} />
      </div>
      <Questions of={questions.value.filter(({ taskId }) => taskId === id)} />
      {!hasEnded(task.status) && <AtWork task={id} />}
      <Answer task={task} />
      <TaskError task={task} />
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

/** Shows the answer as it is written, then as it is: by its fields if it has some. */
export function Answer({ task }: { task: Task }): JSX.Element | null {
  const written = useAnswer(hasEnded(task.status) ? undefined : task.id)
  const text = task.answer ?? written ?? answerOf(task.id)
  if (text === undefined || text === '') return null
  return (
    <section class="answer" aria-label="Answer" aria-live="polite">
      {isFields(task.data) ? <Data value={task.data} /> : <Written text={text} isOver={hasEnded(task.status)} />}
    </section>
  )
}

const isFields = (data: unknown): boolean => typeof data === 'object' && data !== null

export const TaskError = ({ task: { error } }: { task: Task }): JSX.Element | null =>
  error && (
    <p class="failure">
      <strong>{error.code}</strong> <Words text={error.detail} />
    </p>
  )

export function Stop({ id }: { id: string }): JSX.Element {
  const { isSent, failure, send } = useSending(true)
  const query = { reason: 'stopped in the dashboard' }
  const stop = () => send(() => ask(taskPath(id), { method: 'DELETE', query })).then(refresh)
  return (
    <>
      <Button text="Stop" class="bad" disabled={isSent} onClick={() => void stop()} />
      <Failure text={failure} />
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
        {subTasks.map(({ id, description, assignedTo, status, reason }) => (
          <li key={id}>
            <span class={`chip ${status}`}>{status.replace('_', ' ')}</span>{' '}
            {reason === undefined && <Words text={assignedTo ?? 'nobody'} />}{' '}
            <span class="dim">
              <Words text={reason === undefined ? description : `${description}: ${reason}`} most={200} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Usage({ task: { usageByAgent, usage, cost, money: spent } }: { task: Task }): JSX.Element | null {
  const agents = Object.entries(usageByAgent).filter(([, { calls }]) => calls > 0)
  if (agents.length === 0) return null
  return (
    <section>
      <h3>
        Tokens{' '}
        <span class="dim">
          {grouped(usage.totalTokens)} in {usage.calls === 1 ? '1 call' : `${grouped(usage.calls)} calls`}
          {spent && `, ${money(spent.amount)} ${spent.currency}`}
          {!spent && cost && `, about ${money(cost.estimate)} by the prices given`}
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

/** Shows what is written so far: JSON of an answer that has fields by those that are there. */
function Written({ text, isOver }: { text: string; isOver: boolean }): JSX.Element {
  const begin = isOver ? -1 : text.startsWith('{') ? 0 : text.lastIndexOf(`${GAP}{`)
  const fields = begin < 0 ? undefined : new PartialJson().push(text.slice(begin))?.value
  if (!isFields(fields)) return <Markdown text={text} />
  return (
    <>
      <Markdown text={text.slice(0, begin)} />
      <Data value={fields} />
    </>
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
          <Find what="Find in tasks" />
        </div>
        {listed.length === 0 ? (
          <p class="empty">{filter === '' ? 'Nobody has given the team a task yet.' : 'No task has that text.'}</p>
        ) : (
          <TaskTable listed={listed} selected={task} />
        )}
        {hasMore.value !== null && <Button text="Older tasks" onClick={askMore} />}
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

interface TableProps {
  listed: readonly TaskSummary[]
  selected: string | undefined
}

function TaskTable({ listed, selected }: TableProps): JSX.Element {
  version.value
  const costs = useCosts(listed.slice(0, MOST_PRICED).flatMap(({ id, status }) => (hasEnded(status) ? id : [])))
  return (
    <List
      columns={session.value?.hasPrices ? [...COLUMNS, ['money', 'number']] : COLUMNS}
      rows={listed}
      keyOf={({ id }) => id}
      isSelected={({ id }) => id === selected}
      cells={(task) => [...cellsOf(task, task.id === selected), moneyOf(costs.get(task.id))]}
    />
  )
}

const COLUMNS = [
  ['status'],
  ['task', 'wide'],
  ['begun', 'dim nowrap spare'],
  ['time', 'number'],
  ['messages', 'number spare'],
  ['tokens', 'number'],
] as const

function cellsOf(task: TaskSummary, isSelected: boolean): ComponentChildren[] {
  const { id, query, status, threadId, createdAt, endedAt, usage, errorCode } = task
  const run = live().runs.get(id)
  const messages = messagesOf(id)
  const asks = questions.value.some(({ taskId }) => taskId === id)
  const begun = Date.parse(createdAt)
  const end = endedAt === null ? (hasEnded(status) ? begun : now.value) : Date.parse(endedAt)
  return [
    <>
      <Mark status={asks ? 'waiting' : status} />
      {asks && <span class="badge">asks you</span>}
    </>,
    <>
      <a data-row href={linkTo({ task: id })} aria-current={isSelected ? 'true' : undefined}>
        <Words text={query} most={140} />
      </a>
      {errorCode !== null && <code class="error-code">{errorCode}</code>}
      {threadId !== null && (
        <a class="chip" href={linkTo({ view: 'chat', thread: threadId })} title={`conversation ${shown(threadId)}`}>
          chat
        </a>
      )}
    </>,
    clock(begun, now.value),
    span(end - begun),
    messages === undefined ? '' : grouped(messages),
    grouped(Math.max(usage.totalTokens, run?.tokens ?? 0)),
  ]
}
