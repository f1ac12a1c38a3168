/** Dead letters: messages that no agent will handle, with all that can be done about them. */
import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { z } from 'zod'
import { grouped } from '../../../figures.ts'
import type { deadLetter } from '../../../http/schemas.ts'
import { nameOf } from '../../pictures/run-words.ts'
import { clock } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { gently } from '../state/gently.ts'
import { begun, live, now, version } from '../state/live.ts'
import { linkTo } from '../state/place.ts'
import { ask } from '../state/service.ts'
import { mayOperate, team } from '../state/session.ts'

export type Letter = z.infer<typeof deadLetter>

const letters = signal<readonly Letter[]>([])
const MOST_SHOWN = 100

const refreshLetters = gently(async () => {
  const of = team.peek()
  const query = { team: of, order: 'newest', limit: String(MOST_SHOWN) }
  const page = await ask<{ letters: Letter[] }>('api/dead-letters', { query })
  if (of === team.peek()) letters.value = page.letters
})

/** Asks for the newest letters as long as they are shown, whenever there is another one. */
export function useLetters(): readonly Letter[] {
  version.value
  const key = `${team.value} ${begun.value} ${live().deadLetters}`
  useEffect(refreshLetters, [key])
  return letters.value
}

export function Letters({ newest }: { newest: readonly Letter[] }): JSX.Element {
  const all = Math.max(newest.length, live().deadLetters)
  const [said, setSaid] = useState('')
  return (
    <section aria-label="Dead letters">
      <h2>
        Dead letters <span class="dim">{grouped(all)}</span>
      </h2>
      {said !== '' && (
        <p role="status" class="said-so">
          <Words text={said} />
        </p>
      )}
      {all === 0 && <p class="empty">Every message has found its agent.</p>}
      {newest.map((letter) => (
        <LetterCard key={letter.id} letter={letter} say={setSaid} />
      ))}
      {all > newest.length && <p class="dim">and {grouped(all - newest.length)} older ones</p>}
    </section>
  )
}

function LetterCard({ letter, say }: { letter: Letter; say(text: string): void }): JSX.Element {
  const { id, reason, message, errors } = letter
  const at = Date.parse(letter.at)
  const [isSent, setSent] = useState(false)
  const path = `api/dead-letters/${encodeURIComponent(id)}`
  const recipient = [message.recipient].flat().map((name) => nameOf(name ?? ''))
  const act = async (method: 'POST' | 'DELETE', of: string, done: string) => {
    setSent(true)
    try {
      await ask(of, { method, query: { team: team.value } })
      say(done)
      letters.value = letters.value.filter((each) => each.id !== id)
      refreshLetters()
    } catch (error) {
      say(error instanceof Error ? error.message : String(error))
    }
    setSent(false)
  }
  return (
    <article class="trouble" aria-label="Dead letter">
      <header class="row">
        <span class="mark failed">
          <span aria-hidden="true">✉</span> {reason.replace('_', ' ')}
        </span>
        <strong>
          <Words text={`${nameOf(message.sender)} → ${recipient.join(', ')}`} />
        </strong>
        <span class="dim">
          {message.type}, {clock(at, now.value)}
        </span>
        <span class="grow" />
        {mayOperate.value && (
          <>
            <button
              type="button"
              class="good"
              disabled={isSent}
              onClick={() =>
                void act('POST', `${path}/replay`, `Sent again: ${recipient.join(', ')} has accepted the message.`)
              }
            >
              Replay
            </button>
            <button type="button" class="bad" disabled={isSent} onClick={() => void act('DELETE', path, 'Discarded.')}>
              Discard
            </button>
          </>
        )}
        {message.runId !== '' && (
          <a class="button" href={linkTo({ view: 'run', task: message.runId, at })}>
            Its run
          </a>
        )}
      </header>
      {errors.map(({ code, detail }, place) => (
        <p key={place}>
          <code>{code}</code> <Words text={detail} most={600} />
        </p>
      ))}
      <details>
        <summary>What it says</summary>
        <pre tabIndex={0}>
          <Words text={message.content === '' ? '(no text)' : message.content} />
        </pre>
      </details>
    </article>
  )
}
