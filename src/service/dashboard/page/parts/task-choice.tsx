/** Choice of the task that a view shows. */
import type { JSX } from 'preact'
import { goTo } from '../state/place.ts'
import { tasks } from '../state/tasks.ts'
import { shown } from './words.tsx'

export function TaskChoice({ id }: { id: string }): JSX.Element {
  const isListed = tasks.value.some((task) => task.id === id)
  return (
    <select
      aria-label="Task"
      value={id}
      onChange={(event) => goTo({ task: event.currentTarget.value, at: undefined, key: undefined })}
    >
      {!isListed && <option value={id}>{id.slice(0, 8)}</option>}
      {tasks.value.map((task) => (
        <option key={task.id} value={task.id}>
          {shown(task.query.slice(0, 60))}
        </option>
      ))}
    </select>
  )
}
