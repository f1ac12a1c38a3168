/** Details of a row of a run: what a message said, where it came from, and what it led to. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { TaskMessage } from '../../../http/schemas.ts'
import { CALL, type RunStory } from '../../pictures/run-story.ts'
import { nameOf, sizeOf, wordsOfRow } from '../../pictures/run-words.ts'
import { exactClock, shortSpan } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { live } from '../state/live.ts'
import { EVENTS } from '../state/message-texts.ts'
import { ask } from '../state/service.ts'

interface Props {
  id: string
  story: RunStory
  /** Row of the story. */
  row: number
  look(time: number): void
}

/** Time for which a row is looked at before its content is asked for: a hand that scrubs passes many. */
const PAUSE_MS = 150

export function MessageDetail({ id, story, row, look }: Props): JSX.Element | null {
  if (row < 0 || row >= story.rows.length) return null
  const place = story.rows[row]!
  const { at, kind, who, what, isTrouble } = wordsOfRow(story, row)
  return (
    <section aria-label="What it was" class="message">
      <h3>
        {kind} <Words text={who} most={120} /> <span class="dim">{exactClock(at)}</span>
      </h3>
      {place < 0 || place >= CALL ? (
        <p class={isTrouble ? 'failure' : ''}>
          <Words text={what} />
        </p>
      ) : (
        <MessageText id={id} story={story} row={place} look={look} />
      )}
    </section>
  )
}

function MessageText({ id, story, row, look }: Props): JSX.Element {
  const { columns } = story.fold.messages
  const n = columns.n.at(row)
  const [found, setFound] = useState<{ n: number; message?: TaskMessage; failure?: string } | undefined>(undefined)
  useEffect(() => {
    let isLeft = false
    const timer = setTimeout(async () => {
      try {
        const { log } = live()
        const query = { after: log === null ? undefined : `${log}.${n * EVENTS + 1}`, limit: '1' }
        const { messages } = await ask<{ messages: TaskMessage[] }>(`api/tasks/${encodeURIComponent(id)}/messages`, {
          query,
        })
        const [message] = messages
        if (!isLeft) setFound(message ? { n, message } : { n, failure: 'The log has given this message up.' })
      } catch (error) {
        if (!isLeft) setFound({ n, failure: error instanceof Error ? error.message : String(error) })
      }
    }, PAUSE_MS)
    return () => {
      isLeft = true
      clearTimeout(timer)
    }
  }, [id, n])
  const [start, end] = [columns.start.at(row), columns.end.at(row)]
  const message = found?.n === n ? found.message : undefined
  return (
    <>
      <p class="dim small">
        {sizeOf(columns.bytes.at(row))}
        {columns.turn.at(row) > 0 &&
          ` · sent in turn ${columns.turn.at(row)} of ${nameOf(story.fold.names[columns.from.at(row)])}`}
        {end >= start && (
          <>
            {' '}
            ·{' '}
            <button type="button" class="link" onClick={() => look(end)}>
              handled in {shortSpan(end - start)}
            </button>
          </>
        )}
      </p>
      {found?.n === n && found.failure !== undefined && <p class="failure">{found.failure}</p>}
      {message && (
        <pre tabIndex={0}>
          <Words text={message.content === '' ? '(no text)' : message.content} />
        </pre>
      )}
      {message?.structuredData !== undefined && message.structuredData !== null && (
        <details>
          <summary>Data</summary>
          <pre tabIndex={0}>
            <Words text={JSON.stringify(message.structuredData, null, 2)} />
          </pre>
        </details>
      )}
    </>
  )
}
