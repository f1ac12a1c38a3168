/** Form that gives the team a task. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Task } from '../../../http/schemas.ts'
import { ask } from '../state/service.ts'
import { mayRun, team } from '../state/session.ts'
import { refresh } from '../state/tasks.ts'

interface Props {
  label: string
  /** Conversation that the task is part of. */
  thread?: string | undefined
  /** Takes the task that was begun. */
  begun(task: Task): void
  isBusy?: boolean
}

/** Tasks stream: whoever opens one reads the answer as it is written. */
export function AskForm({ label, thread, begun, isBusy = false }: Props): JSX.Element | null {
  const [text, setText] = useState('')
  const [failure, setFailure] = useState('')
  const [isSent, setSent] = useState(false)
  if (!mayRun.value) return null
  const send = async () => {
    const query = text.trim()
    if (query === '' || isSent) return
    setSent(true)
    setFailure('')
    try {
      const task = await ask<Task>('api/tasks', {
        method: 'POST',
        headers: { prefer: 'respond-async' },
        body: { query, team: team.value, stream: true, ...(thread && { threadId: thread }) },
      })
      setText('')
      refresh()
      begun(task)
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error))
    }
    setSent(false)
  }
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <textarea
        aria-label={label}
        placeholder={label}
        rows={Math.min(10, Math.max(2, text.split('\n').length))}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          void send()
        }}
      />
      <button
        type="submit"
        class="good"
        disabled={isSent || text.trim() === ''}
        title="Enter sends, Shift+Enter is a new line"
      >
        {isBusy ? 'Send next' : 'Send'}
      </button>
      {failure !== '' && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  )
}
