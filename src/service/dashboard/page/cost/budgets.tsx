/** Limits on tokens and their use: those of the team, and of tasks under way. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { grouped, span } from '../../../figures.ts'
import type { BudgetUse } from '../../../http/schemas.ts'
import { Words } from '../parts/words.tsx'
import { linkTo } from '../state/place.ts'
import { ask } from '../state/service.ts'
import { mayWatch, team } from '../state/session.ts'

/** Time between two looks, while a view shows them. */
const LOOK_MS = 2_000
const NEARLY = 0.8

/** Returns what is used of the limits, the most used first. */
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

export function Budgets(): JSX.Element {
  const budgets = useBudgets()
  return (
    <section aria-label="Budgets">
      <h3>Budgets</h3>
      {budgets.length === 0 ? (
        <p class="dim">No limit on tokens is set for the team, or for a task under way.</p>
      ) : (
        <table class="list">
          <thead>
            <tr>
              <th>limit</th>
              <th>of</th>
              <th class="number">used</th>
              <th class="number spare">held</th>
              <th class="number">limit</th>
              <th>share</th>
            </tr>
          </thead>
          <tbody>
            {budgets.slice(0, MOST_SHOWN).map((budget) => (
              <Budget key={`${budget.option} ${budget.taskId} ${budget.agent}`} budget={budget} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

function Budget({ budget }: { budget: BudgetUse }): JSX.Element {
  const { option, taskId, agent, used, held, limit, windowMs } = budget
  const part = partOf(budget)
  return (
    <tr>
      <td>
        <code>{option}</code>
        {windowMs !== null && <span class="dim"> within {span(windowMs)}</span>}
      </td>
      <td>
        {agent !== null && <Words text={agent} most={60} />}{' '}
        {taskId === null ? agent === null && 'the team' : <a href={linkTo({ view: 'run', task: taskId })}>a task</a>}
      </td>
      <td class="number">{grouped(used)}</td>
      <td class="number spare">{held > 0 ? grouped(held) : ''}</td>
      <td class="number">{grouped(limit)}</td>
      <td class={part >= NEARLY ? 'some' : ''}>
        <meter
          min={0}
          max={1}
          low={NEARLY}
          high={1}
          optimum={0}
          value={Math.min(1, part)}
          aria-label={`used of ${option}`}
        />{' '}
        {Math.round(part * 100)} %
      </td>
    </tr>
  )
}
