/** View of what is going on: questions that wait, the tasks, and a form for the next one. */
import type { JSX } from 'preact'
import { grouped, span } from '../../../figures.ts'
import type { TaskSummary } from '../../../http/schemas.ts'
import { AskForm } from '../parts/ask-form.tsx'
import { Mark } from '../parts/marks.tsx'
import { Questions } from '../parts/question-card.tsx'
import { clock } from '../parts/times.ts'
import { shown, Words } from '../parts/words.tsx'
import { type Cost, money, useCosts } from '../state/costs.ts'
import { live, messagesOf, now, version } from '../state/live.ts'
import { goTo, linkTo, place } from '../state/place.ts'
import { session } from '../state/session.ts'
import { askMore, hasEnded, hasMore, questions, tasks } from '../state/tasks.ts'
import { TaskDetail } from './task-detail.tsx'

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
