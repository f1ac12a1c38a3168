/** View of what died, why, and what was done about it. */

import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { z } from 'zod'
import type { DigestFact } from '../../runtime/views/digest-line.ts'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import type { deadLetter } from '../http/schemas.ts'
import { busyLoops, type Loop, loopSeconds, undecided } from '../pictures/deadlocks.ts'
import { type CrashStory, storyOfCrash } from '../pictures/run-story.ts'
import { nameOf, wordsOfFact } from '../pictures/run-words.ts'
import { SlowCards, slowNow } from './at-work.tsx'
import { partOf, useBudgets } from './cost-view.tsx'
import { factKey, useTroubles } from './folds.ts'
import { begun, live, now, version } from './live.ts'
import { Button, PlaceLink, Tile, TroubleCard, useSending, Verbatim, Victim } from './parts.tsx'
import { mayOperate, place, team } from './place.ts'
import { ask, askText, gently, messageOf } from './service.ts'
import { tasks } from './tasks.ts'
import { clock, shortSpan, Words } from './words.tsx'

const LOOK_MS = 3_000

function useBusyLoops(): readonly Loop[] {
  const [loops, setLoops] = useState<readonly Loop[]>([])
  useEffect(() => {
    let before: ReturnType<typeof loopSeconds> | undefined
    const look = async () => {
      const after = loopSeconds(await askText('metrics'), team.peek())
      setLoops(before ? busyLoops(before, after) : [])
      before = after
    }
    const quietly = () => void look().catch(() => setLoops([])) // the banner says that nobody answers
    quietly()
    const timer = setInterval(quietly, LOOK_MS)
    return () => clearInterval(timer)
  }, [team.value])
  return loops
}

const MOST_BUSY = 20

function BusyLoops({ loops }: { loops: readonly Loop[] }): JSX.Element {
  return (
    <>
      {loops.slice(0, MOST_BUSY).map(({ agent, busy }) => (
        <TroubleCard
          key={agent ?? ''}
          kind="waiting"
          sign="◷"
          word="slow event loop"
          who={agent === null ? 'host' : <Words text={agent} most={200} />}
          aside={`${Math.round(busy * 100)} % busy, now`}
        >
          <p>
            {agent === null
              ? 'All agents wait for the host. Look for what computes in tools that run in it, or in your service.'
              : 'Its messages wait while its code computes. Move that into a tool of a thread, or let it pause.'}
          </p>
        </TroubleCard>
      ))}
    </>
  )
}

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
function useLetters(): readonly Letter[] {
  version.value
  const key = `${team.value} ${begun.value} ${live().deadLetters}`
  useEffect(refreshLetters, [key])
  return letters.value
}

function Letters({ newest }: { newest: readonly Letter[] }): JSX.Element {
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
  const { isSent, send } = useSending(false)
  const path = `api/dead-letters/${encodeURIComponent(id)}`
  const recipient = [message.recipient].flat().map((name) => nameOf(name ?? ''))
  const act = async (method: 'POST' | 'DELETE', of: string, done: string) => {
    await ask(of, { method, query: { team: team.value } })
    say(done)
    letters.value = letters.value.filter((each) => each.id !== id)
    refreshLetters()
  }
  const accepted = `Sent again: ${recipient.join(', ')} has accepted the message.`
  const told = (error: unknown) => say(messageOf(error))
  const replay = () => void send(() => act('POST', `${path}/replay`, accepted).catch(told))
  const discard = () => void send(() => act('DELETE', path, 'Discarded.').catch(told))
  return (
    <TroubleCard
      label="Dead letter"
      kind="failed"
      sign="✉"
      word={reason.replace('_', ' ')}
      who={<Words text={`${nameOf(message.sender)} → ${recipient.join(', ')}`} />}
      aside={`${message.type}, ${clock(at, now.value)}`}
      buttons={
        <>
          {mayOperate.value && <Button text="Replay" class="good" disabled={isSent} onClick={replay} />}
          {mayOperate.value && <Button text="Discard" class="bad" disabled={isSent} onClick={discard} />}
          {message.runId !== '' && <PlaceLink text="Its run" to={{ view: 'run', task: message.runId, at }} />}
        </>
      }
    >
      {errors.map(({ code, detail }, place) => (
        <p key={place}>
          <code>{code}</code> <Words text={detail} most={600} />
        </p>
      ))}
      <details>
        <summary>What it says</summary>
        <Verbatim text={message.content || '(no text)'} />
      </details>
    </TroubleCard>
  )
}

const TITLES: Readonly<Record<string, readonly [string, string]>> = {
  'agent.crashed': ['✕', 'crash'],
  deadlock: ['⟳', 'deadlock'],
  livelock: ['∞', 'livelock'],
  stall: ['‖', 'stall'],
  'step.mismatch': ['≠', 'step mismatch'],
  budget: ['◔', 'budget'],
  'limit.reached': ['▤', 'limit'],
}

export function TroubleView(): JSX.Element {
  const { facts, folds } = useTroubles()
  const { filter = '' } = place.value
  const busy = useBusyLoops()
  const slow = slowNow()
  const letters = useLetters()
  const [tightest] = useBudgets()
  const counts: [title: string, filter: string, count: number][] = [
    ...COUNTED.map(([type, title]): [string, string, number] => [
      title,
      type,
      facts.filter((fact) => fact.type === type).length,
    ]),
    ['dead letters', 'letters', live().deadLetters],
    ['slow now', 'slow', slow.length],
    ['slow event loops now', 'loops', busy.length],
  ]
  const share = tightest ? `${Math.round(partOf(tightest) * 100)} %` : ''
  const failed = useFailedTasks()
  const dead = letters.map(deadMessage)
  const storyIn = (fact: DigestFact) =>
    fact.type === 'agent.crashed' ? storyOfCrash(fact, folds, dead, shortSpan) : undefined
  const isShown = (what: string) => filter === '' || filter === what
  const told = facts.filter(({ type }) => type !== 'message.dead' && isShown(type))
  const shownCount = told.length + (isShown('loops') ? busy.length : 0) + (isShown('slow') ? slow.length : 0)
  useEffect(() => {
    if (filter === 'letters') document.getElementById('letters')?.scrollIntoView()
  }, [filter])
  return (
    <div class="two-panes">
      <div class="pane">
        <ul class="counts" aria-label="What went wrong">
          {counts.map(([title, what, count]) => (
            <Tile
              key={title}
              title={title}
              value={grouped(count)}
              isBad={count > 0}
              to={{ filter: what }}
              isCurrent={filter === what}
            />
          ))}
          <Tile
            title="failed tasks"
            value={grouped(failed)}
            isBad={failed > 0}
            to={{ view: 'tasks', task: undefined, filter: 'failed' }}
          />
          {share !== '' && <Tile title="of a budget" value={share} to={{ view: 'cost', task: undefined }} />}
        </ul>
        <section aria-label="What happened">
          <div class="row head">
            <h2>What happened</h2>
            {filter !== '' && <PlaceLink text="Show all" to={{ filter: undefined }} />}
          </div>
          {isShown('slow') && <SlowCards />}
          {isShown('loops') && <BusyLoops loops={busy} />}
          {shownCount === 0 && (
            <p class="empty">
              {filter === '' ? 'Nothing has gone wrong in the newest tasks.' : 'There is nothing of that kind here.'}
            </p>
          )}
          {told.slice(0, MOST_SHOWN).map((fact) => (
            <FactCard key={factKey(fact)} fact={fact} story={storyIn(fact)} />
          ))}
        </section>
      </div>
      <div class="pane side" id="letters">
        <Letters newest={letters} />
      </div>
    </div>
  )
}

const COUNTED = [
  ['agent.crashed', 'crashes'],
  ['deadlock', 'deadlocks'],
  ['livelock', 'livelocks'],
  ['stall', 'stalls'],
] as const

const deadMessage = ({ at, reason, message: { id, recipient } }: Letter) => ({
  at: Date.parse(at),
  reason,
  id,
  recipient: String(recipient),
})

/** Ids of tasks that were seen to have failed, and of which team. A task that leaves the list is still one. */
let failedTasks = { of: '', ids: new Set<string>() }

function useFailedTasks(): number {
  if (failedTasks.of !== team.value) failedTasks = { of: team.value, ids: new Set() }
  for (const { id, status } of tasks.value) if (status === 'failed') failedTasks.ids.add(id)
  return failedTasks.ids.size
}

function FactCard({ fact, story }: { fact: DigestFact; story: CrashStory | undefined }): JSX.Element {
  const runId = fact.runId || story?.runId
  const { who, what } = wordsOfFact(fact)
  const [sign = '·', title = fact.type] = own(TITLES, fact.type) ?? []
  const isMild = fact.type === 'budget' || fact.type === 'limit.reached'
  return (
    <TroubleCard
      kind={isMild ? 'waiting' : 'failed'}
      sign={sign}
      word={title}
      who={<Words text={who} most={200} />}
      aside={clock(fact.at, now.value)}
      buttons={
        <>
          {fact.type === 'deadlock' && <PlaceLink text="See the ring" to={{ view: 'team', task: fact.runId }} />}
          {runId && <PlaceLink text="See it in its run" to={{ view: 'run', task: runId, at: fact.at }} />}
        </>
      }
    >
      <p>
        <Words text={what} most={600} />
      </p>
      {fact.type === 'limit.reached' && <Queue fact={fact} />}
      {story && <Recovery story={story} isRestarted={fact.restartInMs !== null} />}
      {fact.type === 'deadlock' && (
        <Victim name={typeof fact.victim === 'string' ? fact.victim : null} otherwise={undecided(fact.at, now.value)} />
      )}
    </TroubleCard>
  )
}

function Queue({ fact: { option, runId } }: { fact: DigestFact }): JSX.Element {
  const waits = live().waits.filter(({ kind, for: [of] }) => kind === 'limit' && of === option)
  const [oldest] = waits.filter((wait) => wait.runId === runId)
  if (!oldest) return <p class="dim">It waits no longer{waits.length > 0 && `; ${waits.length} others do`}.</p>
  return (
    <p>
      {waits.length === 1 ? 'It waits' : `${waits.length} wait`} now, this one for {span(now.value - oldest.since)}
      {oldest.cause !== undefined && (
        <>
          : <Words text={oldest.cause} most={400} />
        </>
      )}
    </p>
  )
}

function Recovery({ story, isRestarted }: { story: CrashStory; isRestarted: boolean }): JSX.Element {
  const { backAfterMs, message } = story
  const restart =
    backAfterMs !== undefined
      ? `Back after ${shortSpan(backAfterMs)}.`
      : isRestarted
        ? 'A new thread is being started.'
        : 'It was not restarted.'
  const steps = message === undefined ? [restart] : [restart, message]
  return (
    <ol class="recovery" aria-label="What was done">
      {steps.map((step) => (
        <li key={step}>{step}</li>
      ))}
    </ol>
  )
}
