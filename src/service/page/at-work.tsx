/** Agents that work in a task now, and what each of them waits for. */
import type { JSX } from 'preact'
import type { Wait } from '../../runtime/views/digest-line.ts'
import { isSlow, type Judged, span, stateOf, troublesIn } from '../../runtime/views/slow.ts'
import { own } from '../../shared/values.ts'
import { nameOf } from '../pictures/run-words.ts'
import { live, now, version } from './live.ts'
import { PlaceLink, TroubleCard } from './parts.tsx'
import { linkTo } from './place.ts'
import { Words } from './words.tsx'

/** `task`: only what is known to be of that task; none: of the whole team. */
export function AtWork({ task }: { task?: string }): JSX.Element | null {
  version.value
  const { members, waits } = live()
  const own = waits.filter(
    ({ runId, agent }) => !agent?.startsWith('$') && (task === undefined ? agent !== null : runId === task),
  )
  const waiting = new Set(waits.map(({ agent }) => agent)) // what they do is known, here or in another task
  const busy = members.filter(({ name, status }) => status === 'running' && !waiting.has(name))
  if (own.length + busy.length === 0) return null
  return (
    <ul class="at-work" aria-label="Who works now">
      {busy.slice(0, MOST).map(({ name, rounds }) => (
        <li key={name}>
          <span class="mark running" aria-hidden="true">
            ●
          </span>{' '}
          <AgentLink name={name} /> works{rounds > 0 && `, call ${rounds} of its model`}
        </li>
      ))}
      {own.slice(0, MOST).map((wait) => (
        <li key={`${wait.agent} ${wait.turn} ${wait.kind}`}>
          <span class={`mark ${isOwn(wait) ? 'running' : 'waiting'}`} aria-hidden="true">
            {isOwn(wait) ? '●' : '◐'}
          </span>{' '}
          {wait.agent === null ? 'the task' : <AgentLink name={wait.agent} />} {wordsOf(wait.kind)}{' '}
          <Words text={wait.for.join(', ')} most={80} /> <Age wait={wait} />
          {wait.cause !== undefined && (
            <>
              {': '}
              <Words text={wait.cause} most={200} />
            </>
          )}
        </li>
      ))}
    </ul>
  )
}

const AgentLink = ({ name }: { name: string }): JSX.Element => (
  <a href={linkTo({ view: 'team', agent: name })}>
    <Words text={name} />
  </a>
)

const MOST = 8

const KINDS: Readonly<Record<string, string>> = {
  ask: 'waits for a person',
  model: 'waits for the model',
  approve: 'waits for a person to allow',
  tool: 'waits for the tool',
  request: 'waits for',
  delegate: 'waits for',
  limit: 'waits for the limit',
  blackboard: 'waits for the entry',
  sync: 'waits at a sync point for',
  place: 'waits for another turn of',
  mailbox: 'waits for room in the mailbox of',
  dependency: 'waits for tasks of',
  reader: 'waits for its reader',
  step: 'is in the step',
  own: 'is in its own code',
  sleep: 'sleeps',
}

const wordsOf = (kind: string): string => own(KINDS, kind) ?? `waits for ${kind}`

/** Says what is waited for, or done, without the verb: `seller`, `a person to allow buy`, `the step fetch`. */
export const subjectOf = ({ kind, for: subjects }: Pick<Wait, 'kind' | 'for'>): string =>
  `${wordsOf(kind).replace(/^(waits( for\b)?|is in)/, '')} ${subjects.join(', ')}`.trim()

/** Checks for what a turn does by itself: it waits for nobody. */
export const isOwn = ({ kind }: Pick<Wait, 'kind'>): boolean => kind === 'step' || kind === 'own'

export function Age({ wait }: { wait: Wait }): JSX.Element {
  const age = span(now.value - wait.since)
  const state = stateOf(wait, now.value)
  return isSlow(wait, now.value) ? (
    <span class={`mark ${state}`}>
      {age}
      <span class="unseen"> {state}</span>
    </span>
  ) : (
    <time>{age}</time>
  )
}

/** All that is slow or stuck now, as cards: nothing ends it but its own end, its time limit or a person. */
export function SlowCards(): JSX.Element {
  const slow = slowNow()
  return (
    <>
      {slow.slice(0, MOST_SLOW).map(({ state, sentence, wait }) => (
        <TroubleCard
          key={`${wait.runId} ${wait.agent} ${wait.turn} ${wait.kind}`}
          kind={state === 'stuck' ? 'stuck' : 'slow'}
          sign="◷"
          word={state}
          who={<Words text={nameOf(wait.agent ?? (wait.runId === '' ? 'the team' : 'a task'))} most={200} />}
          aside={wait.turnSince !== undefined && `its turn began ${span(now.value - wait.turnSince)} ago`}
          buttons={wait.runId !== '' && <PlaceLink text="Its run" to={{ view: 'run', task: wait.runId }} />}
        >
          <p>
            <Words text={sentence} most={400} />
          </p>
        </TroubleCard>
      ))}
      {slow.length > MOST_SLOW && <p class="dim">and {slow.length - MOST_SLOW} more</p>}
    </>
  )
}

const MOST_SLOW = 20

export function slowNow(): readonly Judged[] {
  version.value
  return troublesIn(live().waits, now.value)
}
