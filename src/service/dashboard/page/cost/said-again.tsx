/** Sentences of an answer by agent: those that it said first, and those that it repeated after another one. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { grouped } from '../../../figures.ts'
import type { Contributions } from '../../../http/schemas.ts'
import { Words } from '../parts/words.tsx'
import { ask } from '../state/service.ts'
import { hasEnded, tasks } from '../state/tasks.ts'

export function SaidAgain({ task }: { task: string }): JSX.Element | null {
  const found = useContributions(task)
  if (!found || found.sentences.length === 0) return null
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
        <table class="list">
          <thead>
            <tr>
              <th>agent</th>
              <th class="number">said first</th>
              <th class="number">repeated</th>
              <th class="number">share repeated</th>
              <th class="number">tokens</th>
            </tr>
          </thead>
          <tbody>
            {speakers.map(([name, { sentences: first, repeated, tokens }]) => (
              <tr key={name}>
                <td>
                  <Words text={name} most={60} />
                </td>
                <td class="number">{grouped(first.length)}</td>
                <td class="number">{grouped(repeated.length)}</td>
                <td class="number">{percent(repeated.length, first.length + repeated.length)}</td>
                <td class="number">{grouped(tokens.totalTokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

const percent = (part: number, all: number): string => `${Math.round((part / Math.max(1, all)) * 100)} %`

/** Returns what agents have contributed to the answer of a task that is over. */
function useContributions(id: string): Contributions | undefined {
  const [found, setFound] = useState<{ id: string; contributions: Contributions } | undefined>(undefined)
  const isOver = hasEnded(tasks.value.find((task) => task.id === id)?.status ?? '')
  useEffect(() => {
    if (!isOver) return
    let isLeft = false
    ask<Contributions>(`api/tasks/${encodeURIComponent(id)}/contributions`).then(
      (contributions) => !isLeft && setFound({ id, contributions }),
      () => {}, // the task is gone: what else is shown says so
    )
    return () => {
      isLeft = true
    }
  }, [id, isOver])
  return found?.id === id ? found.contributions : undefined
}
