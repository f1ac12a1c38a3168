/** View of what died, why, and what was done about it. */

import type { JSX } from 'preact'
import { own } from '../../../../own.ts'
import { grouped } from '../../../figures.ts'
import { undecided } from '../../pictures/deadlocks.ts'
import { wordsOfFact } from '../../pictures/run-words.ts'
import { partOf, useBudgets } from '../cost/budgets.tsx'
import { SlowCards, slowWaits } from '../parts/at-work.tsx'
import { clock, shortSpan } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { live, now } from '../state/live.ts'
import { linkTo } from '../state/place.ts'
import { tasks } from '../state/tasks.ts'
import { type CrashStory, storyOfCrash, type Trouble, useTroubles } from '../state/troubles.ts'
import { BusyLoops, useBusyLoops } from './busy.tsx'
import { Letters } from './letters.tsx'

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
  const troubles = useTroubles()
  const busy = useBusyLoops()
  const slow = slowWaits()
  const [tightest] = useBudgets()
  const count = (type: string) => troubles.filter(({ fact }) => fact.type === type).length
  const failed = tasks.value.filter(({ status }) => status === 'failed').length
  const counts: [string, number][] = [
    ['crashes', count('agent.crashed')],
    ['dead letters', live().deadLetters],
    ['deadlocks', count('deadlock')],
    ['livelocks', count('livelock')],
    ['stalls', count('stall')],
    ['slow', slow.length],
    ['slow event loops', busy.length],
    ['failed tasks', failed],
  ]
  const told = troubles.filter(({ fact }) => fact.type !== 'message.dead')
  return (
    <div class="two-panes">
      <div class="pane">
        <ul class="counts" aria-label="What went wrong">
          {counts.map(([title, number]) => (
            <li key={title} class={number > 0 ? 'some' : ''}>
              <strong>{grouped(number)}</strong> {title}
            </li>
          ))}
          {tightest && (
            <li>
              <strong>{Math.round(partOf(tightest) * 100)} %</strong>{' '}
              <a href={linkTo({ view: 'cost', task: undefined })}>of a budget</a>
            </li>
          )}
        </ul>
        <section aria-label="What happened">
          <h2>What happened</h2>
          <SlowCards />
          <BusyLoops loops={busy} />
          {told.length + busy.length + slow.length === 0 && (
            <p class="empty">Nothing has gone wrong in the newest tasks.</p>
          )}
          {told.slice(0, MOST_SHOWN).map((trouble) => (
            <TroubleCard key={`${trouble.fact.seq} ${trouble.fact.type}`} trouble={trouble} />
          ))}
        </section>
      </div>
      <div class="pane side">
        <Letters />
      </div>
    </div>
  )
}

function TroubleCard({ trouble }: { trouble: Trouble }): JSX.Element {
  const { fact, fold } = trouble
  const story = fact.type === 'agent.crashed' ? storyOfCrash(fact, fold) : undefined
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

function Recovery({ story, isRestarted }: { story: CrashStory; isRestarted: boolean }): JSX.Element {
  const { backAfterMs, again, hadMessage } = story
  const steps = [
    backAfterMs === undefined
      ? isRestarted
        ? 'A new thread is being started.'
        : 'It was not restarted.'
      : `Back after ${shortSpan(backAfterMs)}.`,
    again
      ? `Its message came again: attempt ${again.attempt} ${again.failed ? 'failed' : 'ended well'} after ${shortSpan(again.tookMs)}.`
      : hadMessage
        ? 'Its message comes again.'
        : 'No message was lost: it had none.',
  ]
  return (
    <ol class="recovery" aria-label="What was done">
      {steps.map((step) => (
        <li key={step}>{step}</li>
      ))}
    </ol>
  )
}
