/** View of what tasks have cost: tokens by agent, model, task and time; money only by the prices that were given. */
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import type { BudgetUse, Contributions } from '../http/schemas.ts'
import { type Spending, type Spent, spendingOf } from '../pictures/spending.ts'
import { type Cost, keep, knownFold, money, moneyOf, useCosts } from './folds.ts'
import { TaskChoice } from './forms.tsx'
import { now, version } from './live.ts'
import { Button, List, Tile } from './parts.tsx'
import { goTo, linkTo, mayWatch, place, session, team } from './place.ts'
import { ask, Refused, taskPath } from './service.ts'
import { hasEnded, tasks, useAsked } from './tasks.ts'
import { clock, shortSpan, Words } from './words.tsx'

const LOOK_MS = 2_000
const NEARLY = 0.8

export function useBudgets(): readonly BudgetUse[] {
  const [budgets, setBudgets] = useState<readonly BudgetUse[]>([])
  useEffect(() => {
    if (!mayWatch.value) return
    const look = async () => {
      const found = await ask<{ budgets: BudgetUse[] }>('api/budgets', { query: { team: team.peek() } })
      setBudgets(found.budgets.sort((one, other) => partOf(other) - partOf(one)))
    }
    const quietly = () => void look().catch(() => {}) // the banner says that nobody answers
    quietly()
    const timer = setInterval(quietly, LOOK_MS)
    return () => clearInterval(timer)
  }, [team.value, mayWatch.value])
  return budgets
}

/** Part of a limit that is used, or held by calls under way: from 0 to 1, and beyond. */
export const partOf = ({ used, held, limit }: BudgetUse): number => (used + held) / limit

const MOST_SHOWN = 50

function Budgets(): JSX.Element {
  const budgets = useBudgets()
  return (
    <section aria-label="Budgets">
      <h3>Budgets</h3>
      {budgets.length === 0 ? (
        <p class="dim">No limit is set for the team, its tenants, or a task under way.</p>
      ) : (
        <List
          columns={[['limit'], ['of'], ['used', 'number'], ['held', 'number spare'], ['limit', 'number'], ['share']]}
          rows={budgets.slice(0, MOST_SHOWN)}
          keyOf={({ option, taskId, agent, tenant }) => `${option} ${taskId} ${agent} ${tenant}`}
          cells={budgetCells}
        />
      )}
    </section>
  )
}

function budgetCells(budget: BudgetUse): ComponentChildren[] {
  const { option, taskId, agent, tenant, unit, used, held, limit, windowMs, freeAt } = budget
  const shown = unit === 'tokens' ? grouped : (amount: number) => `${money(amount)} ${unit}`
  const part = partOf(budget)
  const range = { min: 0, max: 1, low: NEARLY, high: 1, optimum: 0 }
  return [
    <>
      <code>{option}</code>
      {windowMs !== null && <span class="dim"> within {span(windowMs)}</span>}
    </>,
    <>
      {agent !== null && <Words text={agent} most={60} />} {tenant !== null && <Words text={tenant} most={60} />}{' '}
      {taskId === null ? (
        agent === null && tenant === null && 'the team'
      ) : (
        <a href={linkTo({ view: 'run', task: taskId })}>a task</a>
      )}
    </>,
    shown(used),
    held > 0 ? shown(held) : '',
    shown(limit),
    <span key="share" class={part >= NEARLY ? 'some' : ''}>
      <meter {...range} value={Math.min(1, part)} aria-label={`used of ${option}`} /> {Math.round(part * 100)} %
      {freeAt !== null && <span class="dim"> free again at {clock(Date.parse(freeAt), now.value)}</span>}
    </span>,
  ]
}

function SaidAgain({ task }: { task: string }): JSX.Element | null {
  const isOver = hasEnded(tasks.value.find(({ id }) => id === task)?.status ?? '')
  const found = useAsked<Contributions>(isOver ? taskPath(task, 'contributions') : undefined, '')
  if (!found || found instanceof Refused || found.sentences.length === 0) return null
  const { agents, sentences } = found
  const again = sentences.filter(({ saidBy }) => saidBy.length > 1).length
  const speakers = Object.entries(agents).filter(([, said]) => said.sentences.length + said.repeated.length > 0)
  return (
    <section aria-label="Sentences of the answer">
      <h3>
        Sentences of the answer{' '}
        <span class="dim">
          {grouped(sentences.length)}, of which {percent(again, sentences.length)} were said by more than one
        </span>
      </h3>
      {speakers.length === 0 ? (
        <p class="dim">None of them was said word for word by an agent.</p>
      ) : (
        <List
          columns={[['agent'], ...numbers('said first', 'repeated', 'share repeated', 'tokens')]}
          rows={speakers}
          keyOf={([name]) => name}
          cells={([name, { sentences: first, repeated, tokens }]) => [
            <Words key="name" text={name} most={60} />,
            grouped(first.length),
            grouped(repeated.length),
            percent(repeated.length, first.length + repeated.length),
            grouped(tokens.totalTokens),
          ]}
        />
      )}
    </section>
  )
}

const numbers = (...titles: string[]) => titles.map((title) => [title, 'number'] as const)

const percent = (part: number, all: number): string => `${Math.round((part / Math.max(1, all)) * 100)} %`

/** Tasks whose calls are counted together. */
const MOST_TASKS = 12

export function CostView(): JSX.Element {
  version.value
  const { task } = place.value
  const counted = task === undefined ? tasks.value.slice(0, MOST_TASKS).map(({ id }) => id) : [task]
  useEffect(() => {
    for (const id of counted) keep(id)
  }, [counted.join()])
  const spending = spendingOf(counted.flatMap((id) => knownFold(id) ?? []))
  const { total } = spending
  const listed = tasks.value.slice(0, MOST_TASKS)
  const shown = new Set([...counted, ...listed.map(({ id }) => id)])
  const costs = useCosts(tasks.value.flatMap(({ id, status }) => (hasEnded(status) && shown.has(id) ? id : [])))
  const hasPrices = session.value?.hasPrices === true
  const [newest] = tasks.value
  return (
    <div class="pane cost">
      <div class="row head">
        <h2>Cost</h2>
        <span class="dim grow">{counted.length === 1 ? 'of one task' : `of the newest ${counted.length} tasks`}</span>
        {task !== undefined && <Button text="Newest tasks" onClick={() => goTo({ task: undefined })} />}
        {newest && <TaskChoice id={task ?? newest.id} />}
      </div>
      <ul class="counts" aria-label="Sums">
        <Tile title="tokens" value={grouped(total.input + total.output)} />
        <Tile title="in" value={grouped(total.input)} />
        <Tile title="out" value={grouped(total.output)} />
        <Tile title="calls" value={grouped(total.calls)} />
        <Tile title="failed calls" value={grouped(total.failed)} isBad={total.failed > 0} />
        <Tile title="a call" value={total.calls === 0 ? '–' : shortSpan(total.ms / total.calls)} />
        <Money costs={counted.flatMap((id) => costs.get(id) ?? [])} />
      </ul>
      {total.calls === 0 ? <p class="empty">No model was called.</p> : <Chart spending={spending} />}
      <Budgets />
      {task !== undefined && <SaidAgain key={task} task={task} />}
      <div class="cost-tables">
        <Spendings title="By agent" of={spending.byAgent} total={total} />
        <Spendings title="By model" of={spending.byModel} total={total} />
        <section>
          <h3>By task</h3>
          <List
            columns={[['task', 'wide'], ...numbers('calls', 'tokens', ...(hasPrices ? ['money'] : []))]}
            rows={listed}
            keyOf={({ id }) => id}
            isSelected={({ id }) => id === task}
            cells={({ id, query, usage }) => [
              <a data-row key="task" href={linkTo({ view: 'cost', task: id })}>
                <Words text={query} most={80} />
              </a>,
              grouped(usage.calls),
              grouped(usage.totalTokens),
              moneyOf(costs.get(id)),
            ]}
          />
        </section>
      </div>
      {!hasPrices && (
        <p class="dim">
          Tokens alone: the team has no prices, and the service was given none (dramatis serve --price prices.json).
          There is no built-in list of them.
        </p>
      )}
    </div>
  )
}

function Money({ costs }: { costs: readonly Cost[] }): JSX.Element | null {
  if (costs.length === 0) return null
  const unpriced = [...new Set(costs.flatMap((cost) => cost.unpriced))]
  return (
    <>
      <Tile
        title="estimate by the prices given"
        value={money(costs.reduce((sum, { estimate }) => sum + estimate, 0))}
      />
      {unpriced.length > 0 && (
        <Tile title={`without a price: ${unpriced.join(', ').slice(0, 80)}`} value={String(unpriced.length)} />
      )}
    </>
  )
}

const Spendings = ({ title, of, total }: { title: string; of: readonly Spent[]; total: Spent }): JSX.Element => (
  <section>
    <h3>{title}</h3>
    <List
      columns={[['name'], ...numbers('calls', 'failed', 'in', 'out', 'share')]}
      rows={of}
      keyOf={({ name }) => name}
      cells={({ name, calls, failed, input, output }) => [
        <Words key="name" text={name} most={60} />,
        grouped(calls),
        failed > 0 ? grouped(failed) : '',
        grouped(input),
        grouped(output),
        percent(input + output, total.input + total.output),
      ]}
    />
  </section>
)

const [WIDTH, HEIGHT] = [900, 120]

/** Bars of tokens by time. The tables below have the sums in words. */
function Chart({ spending: { bins, from, to } }: { spending: Spending }): JSX.Element {
  const most = Math.max(1, ...bins.map(({ input, output }) => input + output))
  const across = WIDTH / bins.length
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {bins.map(({ input, output }, at) => {
          const [inPx, outPx] = [(input / most) * HEIGHT, (output / most) * HEIGHT]
          return (
            <g key={at}>
              <rect class="in" x={at * across} y={HEIGHT - inPx} width={across - 1} height={inPx} />
              <rect class="out" x={at * across} y={HEIGHT - inPx - outPx} width={across - 1} height={outPx} />
            </g>
          )
        })}
      </svg>
      <figcaption class="row dim small">
        <span>{clock(from, now.value)}</span>
        <span class="grow middle">
          <span class="key in" /> in <span class="key out" /> out · {grouped(most)} tokens at most in a bar
        </span>
        <span>{clock(to, now.value)}</span>
      </figcaption>
    </figure>
  )
}
