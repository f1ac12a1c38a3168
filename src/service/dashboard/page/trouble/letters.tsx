/** Dead letters: messages that no agent will handle, with all that can be done about them. */
import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { z } from 'zod'
import type { deadLetter } from '../../../http/schemas.ts'
import { nameOf } from '../../pictures/run-words.ts'
import { clock } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { begun, live, now, version } from '../state/live.ts'
import { linkTo } from '../state/place.ts'
import { ask } from '../state/service.ts'
import { mayOperate, team } from '../state/session.ts'

type Letter = z.infer<typeof deadLetter>

const letters = signal<readonly Letter[]>([])
/** Dead letters that the digest had counted when the list was asked for; it counts up alone. */
const listed = signal({ team: '', died: 0, isWhole: false })
const PAGE = '1000'
const MOST_SHOWN = 100

async function refreshLetters(): Promise<void> {
  const of = team.peek()
  const died = live().deadLetters
  const page = await ask<{ letters: Letter[]; next: string | null }>('api/dead-letters', {
    query: { team: of, limit: PAGE },
  })
  if (of !== team.peek()) return
  letters.value = page.letters.reverse()
  listed.value = { team: of, died, isWhole: page.next === null }
}

/** Returns how many dead letters there are: those that were sent again or discarded here are none. */
export function openLetters(): number {
  const { team: of, died, isWhole } = listed.value
  const all = live().deadLetters
  return of === team.value && isWhole && all >= died ? letters.value.length + all - died : all
}

/** Asks for the letters as long as they are shown, whenever there is another one. */
export function useLetters(): readonly Letter[] {
  version.value
  const key = `${team.value} ${begun.value} ${live().deadLetters}`
  useEffect(() => {
    refreshLetters().catch(() => {}) // the banner says that nobody answers
  }, [key])
  return letters.value
}

export function Letters(): JSX.Element {
  const all = useLetters()
  const [said, setSaid] = useState('')
  return (
    <section aria-label="Dead letters">
      <h2>
        Dead letters <span class="dim">{all.length}</span>
      </h2>
      {said !== '' && (
        <p role="status" class="said-so">
          <Words text={said} />
        </p>
      )}
      {all.length === 0 && <p class="empty">Every message has found its agent.</p>}
      {all.slice(0, MOST_SHOWN).map((letter) => (
        <LetterCard key={letter.id} letter={letter} say={setSaid} />
      ))}
      {all.length > MOST_SHOWN && <p class="dim">and {all.length - MOST_SHOWN} older ones</p>}
    </section>
  )
}

function LetterCard({ letter, say }: { letter: Letter; say(text: string): void }): JSX.Element {
  const { id, at, reason, message, errors } = letter
  const [isSent, setSent] = useState(false)
  const path = `api/dead-letters/${encodeURIComponent(id)}`
  const recipient = [message.recipient].flat().map((name) => nameOf(name ?? ''))
  const act = async (method: 'POST' | 'DELETE', of: string, done: string) => {
    setSent(true)
    try {
      await ask(of, { method, query: { team: team.value } })
      say(done)
      await refreshLetters()
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
