/** Gives the command that rehearses a task: copied, and to be seen. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { rehearsalCommand } from '../../pictures/rehearsal-command.ts'
import { shape } from '../state/session.ts'
import { Words } from './words.tsx'

export function Rehearse({ id, query }: { id: string; query: string }): JSX.Element {
  const [state, setState] = useState<'closed' | 'copied' | 'by hand'>('closed')
  const command = rehearsalCommand({ id, query, file: shape.value?.file ?? null, log: shape.value?.log ?? null })
  const copy = () =>
    Promise.resolve()
      .then(() => navigator.clipboard.writeText(command)) // there is none on a page that came without TLS
      .then(
        () => setState('copied'),
        () => setState('by hand'),
      )
  return (
    <>
      <button type="button" title="Copy the command that plays this task again" onClick={() => void copy()}>
        Copy as rehearsal
      </button>
      {state !== 'closed' && (
        <div class="command" role="status">
          <div class="row">
            <span class="grow">
              {state === 'copied' ? 'Copied. ' : 'Copy it by hand. '}
              {shape.value?.log
                ? 'It plays this task with the answers that it got, and the code of today.'
                : 'It plays the query through many schedules: without a durable log, answers are not kept.'}
            </span>
            <button type="button" onClick={() => setState('closed')}>
              Close
            </button>
          </div>
          <pre tabIndex={0}>
            <Words text={command} />
          </pre>
        </div>
      )}
    </>
  )
}
