/** View of what died, why, and what was done about it. */

import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { own } from '../../../../own.ts'
import type { DigestFact } from '../../../../runtime/digest/digest-line.ts'
import { grouped, span } from '../../../figures.ts'
import { type CrashStory, storyOfCrash } from '../../pictures/crash-story.ts'
import { undecided } from '../../pictures/deadlocks.ts'
import { wordsOfFact } from '../../pictures/run-words.ts'
import { partOf, useBudgets } from '../cost/budgets.tsx'
import { SlowCards, slowWaits } from '../parts/at-work.tsx'
import { clock, shortSpan } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { live, now } from '../state/live.ts'
import { linkTo, place } from '../state/place.ts'
import { team } from '../state/session.ts'
import { tasks } from '../state/tasks.ts'
import { useTroubles } from '../state/troubles.ts'
import { BusyLoops, useBusyLoops } from './busy.tsx'
import { type Letter, Letters, useLetters } from './letters.tsx'

const MOST_SHOWN = 100
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
  const slow = slowWaits()
  const letters = useLetters()
  const [tightest] = useBudgets()
  const tiles: Tile[] = [
    ...COUNTED.map(
      ([type, title]): Tile => ({ title, filter: type, count: facts.filter((fact) => fact.type === type).length }),
    ),
    { title: 'dead letters', filter: 'letters', count: live().deadLetters },
    { title: 'slow now', filter: 'slow', count: slow.length },
    { title: 'slow event loops now', filter: 'loops', count: busy.length },
  ]
  const failed = useFailedTasks()
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
          {tiles.map(({ title, filter: what, count }) => (
            <li key={title} class={count > 0 ? 'some' : ''}>
              <a href={linkTo({ filter: what })} aria-current={filter === what ? 'true' : undefined}>
                <strong>{grouped(count)}</strong> {title}
              </a>
            </li>
          ))}
          <li class={failed > 0 ? 'some' : ''}>
            <a href={linkTo({ view: 'tasks', task: undefined, filter: 'failed' })}>
              <strong>{grouped(failed)}</strong> failed tasks
            </a>
          </li>
          {tightest && (
            <li>
              <a href={linkTo({ view: 'cost', task: undefined })}>
                <strong>{Math.round(partOf(tightest) * 100)} %</strong> of a budget
              </a>
            </li>
          )}
        </ul>
        <section aria-label="What happened">
          <div class="row head">
            <h2>What happened</h2>
            {filter !== '' && (
              <a class="button" href={linkTo({ filter: undefined })}>
                Show all
              </a>
            )}
          </div>
          {isShown('slow') && <SlowCards />}
          {isShown('loops') && <BusyLoops loops={busy} />}
          {shownCount === 0 && (
            <p class="empty">
              {filter === '' ? 'Nothing has gone wrong in the newest tasks.' : 'There is nothing of that kind here.'}
            </p>
          )}
          {told.slice(0, MOST_SHOWN).map((fact) => (
            <TroubleCard
              key={`${fact.seq} ${fact.type}`}
              fact={fact}
              story={
                fact.type === 'agent.crashed'
                  ? storyOfCrash(fact, folds, letters.map(deadMessage), shortSpan)
                  : undefined
              }
            />
          ))}
        </section>
      </div>
      <div class="pane side" id="letters">
        <Letters newest={letters} />
      </div>
    </div>
  )
}

interface Tile {
  readonly title: string
  readonly filter: string
  readonly count: number
}

/** Kinds of facts that have a tile. */
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

function TroubleCard({ fact, story }: { fact: DigestFact; story: CrashStory | undefined }): JSX.Element {
  const runId = fact.runId || story?.runId
  const { who, what } = wordsOfFact(fact)
  const [sign = '·', title = fact.type] = own(TITLES, fact.type) ?? []
  const isMild = fact.type === 'budget' || fact.type === 'limit.reached'
  return (
    <article class="trouble" aria-label={title}>
      <header class="row">
        <span class={`mark ${isMild ? 'waiting' : 'failed'}`}>
          <span aria-hidden="true">{sign}</span> {title}
        </span>
        <strong>
          <Words text={who} most={200} />
        </strong>
        <span class="dim">{clock(fact.at, now.value)}</span>
        <span class="grow" />
        {fact.type === 'deadlock' && (
          <a class="button" href={linkTo({ view: 'team', task: fact.runId })}>
            See the ring
          </a>
        )}
        {runId && (
          <a class="button" href={linkTo({ view: 'run', task: runId, at: fact.at })}>
            See it in its run
          </a>
        )}
      </header>
      <p>
        <Words text={what} most={600} />
      </p>
      {fact.type === 'limit.reached' && <Queue fact={fact} />}
      {story && <Recovery story={story} isRestarted={fact.restartInMs !== null} />}
      {fact.type === 'deadlock' && (
        <p>
          {typeof fact.victim === 'string' ? (
            <>
              Victim: <Words text={fact.victim} />. Its wait was given up, so that the others go on.
            </>
          ) : (
            undecided(fact.at, now.value)
          )}
        </p>
      )}
    </article>
  )
}

/** Says whether the limit is waited for now, and what those do that have its places. */
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
