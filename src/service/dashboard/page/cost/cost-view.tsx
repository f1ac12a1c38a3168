/** View of what tasks have cost: tokens by agent, model, task and time; money only by the prices that were given. */
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { grouped } from '../../../figures.ts'
import { type Spending, type Spent, spendingOf } from '../../pictures/spending.ts'
import { TaskChoice } from '../parts/task-choice.tsx'
import { clock, shortSpan } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { type Cost, money, useCosts } from '../state/costs.ts'
import { now, version } from '../state/live.ts'
import { goTo, linkTo, place } from '../state/place.ts'
import { keep, knownFold } from '../state/run-folds.ts'
import { session } from '../state/session.ts'
import { hasEnded, tasks } from '../state/tasks.ts'
import { Budgets } from './budgets.tsx'
import { SaidAgain } from './said-again.tsx'

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
  const costs = useCosts(
    [
      ...tasks.value.filter(
        ({ id, status }) => hasEnded(status) && (counted.includes(id) || listed.some((each) => each.id === id)),
      ),
    ].map(({ id }) => id),
  )
  const [newest] = tasks.value
  return (
    <div class="pane cost">
      <div class="row head">
        <h2>Cost</h2>
        <span class="dim grow">
          {task === undefined
            ? counted.length === 1
              ? 'of one task'
              : `of the newest ${counted.length} tasks`
            : 'of one task'}
        </span>
        {task !== undefined && (
          <button type="button" onClick={() => goTo({ task: undefined })}>
            Newest tasks
          </button>
        )}
        {newest && <TaskChoice id={task ?? newest.id} />}
      </div>
      <ul class="counts" aria-label="Sums">
        <Count title="tokens" value={grouped(total.input + total.output)} />
        <Count title="in" value={grouped(total.input)} />
        <Count title="out" value={grouped(total.output)} />
        <Count title="calls" value={grouped(total.calls)} />
        <Count title="failed calls" value={grouped(total.failed)} isBad={total.failed > 0} />
        <Count title="a call" value={total.calls === 0 ? '–' : shortSpan(total.ms / total.calls)} />
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
          <table class="list">
            <thead>
              <tr>
                <th>task</th>
                <th class="number">calls</th>
                <th class="number">tokens</th>
                {session.value?.hasPrices && <th class="number">money</th>}
              </tr>
            </thead>
            <tbody>
              {listed.map(({ id, query, usage }) => (
                <tr key={id} class={id === task ? 'selected' : ''}>
                  <td class="wide">
                    <a data-row href={linkTo({ view: 'cost', task: id })}>
                      <Words text={query} most={80} />
                    </a>
                  </td>
                  <td class="number">{grouped(usage.calls)}</td>
                  <td class="number">{grouped(usage.totalTokens)}</td>
                  {session.value?.hasPrices && <td class="number">{moneyOf(costs.get(id))}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </div>
      {session.value && !session.value.hasPrices && (
        <p class="dim">
          Tokens alone: the service was given no prices (dramatis serve --price prices.json). There is no built-in list
          of them.
        </p>
      )}
    </div>
  )
}

const Count = ({ title, value, isBad = false }: { title: string; value: string; isBad?: boolean }): JSX.Element => (
  <li class={isBad ? 'some' : ''}>
    <strong>{value}</strong> {title}
  </li>
)

/** Sum of what the tasks have cost, as far as their models have prices. */
function Money({ costs }: { costs: readonly Cost[] }): JSX.Element | null {
  if (costs.length === 0) return null
  const unpriced = [...new Set(costs.flatMap((cost) => cost.unpriced))]
  return (
    <>
      <Count
        title="estimate by the prices given"
        value={money(costs.reduce((sum, { estimate }) => sum + estimate, 0))}
      />
      {unpriced.length > 0 && (
        <Count title={`without a price: ${unpriced.join(', ').slice(0, 80)}`} value={String(unpriced.length)} />
      )}
    </>
  )
}

const moneyOf = (cost: Cost | undefined): string => (cost ? money(cost.estimate) : '')

function Spendings({ title, of, total }: { title: string; of: readonly Spent[]; total: Spent }): JSX.Element {
  return (
    <section>
      <h3>{title}</h3>
      <table class="list">
        <thead>
          <tr>
            <th>name</th>
            <th class="number">calls</th>
            <th class="number">failed</th>
            <th class="number">in</th>
            <th class="number">out</th>
            <th class="number">share</th>
          </tr>
        </thead>
        <tbody>
          {of.map(({ name, calls, failed, input, output }) => (
            <tr key={name}>
              <td>
                <Words text={name} most={60} />
              </td>
              <td class="number">{grouped(calls)}</td>
              <td class="number">{failed > 0 ? grouped(failed) : ''}</td>
              <td class="number">{grouped(input)}</td>
              <td class="number">{grouped(output)}</td>
              <td class="number">{Math.round(((input + output) / Math.max(1, total.input + total.output)) * 100)} %</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

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
