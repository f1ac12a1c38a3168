/** Agents that work in a task now, and what each of them waits for. */

import type { JSX } from 'preact'
import { own } from '../../../../own.ts'
import type { Wait } from '../../../../runtime/digest/wait.ts'
import { span } from '../../../figures.ts'
import { live, now, version } from '../state/live.ts'
import { linkTo } from '../state/place.ts'
import { Words } from './words.tsx'

/** `task`: only what is known to be of that task; none: of the whole team. */
export function AtWork({ task }: { task?: string }): JSX.Element | null {
  version.value
  const { agents, waits } = live()
  const own = waits.filter(
    ({ runId, agent }) => agent !== null && !agent.startsWith('$') && (task === undefined || runId === task),
  )
  const waiting = new Set(own.map(({ agent }) => agent))
  const busy = [...agents.values()].filter(
    ({ name, status }) => status === 'running' && !name.startsWith('$') && !waiting.has(name),
  )
  if (own.length + busy.length === 0) return null
  return (
    <ul class="at-work" aria-label="Who works now">
      {busy.slice(0, MOST).map(({ name, rounds }) => (
        <li key={name}>
          <span class="mark running" aria-hidden="true">
            ●
          </span>{' '}
          <a href={linkTo({ view: 'team', agent: name })}>
            <Words text={name} />
          </a>{' '}
          works{rounds > 0 && `, call ${rounds} of its model`}
        </li>
      ))}
      {own.slice(0, MOST).map(({ agent, kind, for: subjects, since }) => (
        <li key={`${agent} ${kind}`}>
          <span class="mark waiting" aria-hidden="true">
            ◐
          </span>{' '}
          <a href={linkTo({ view: 'team', agent: agent! })}>
            <Words text={agent!} />
          </a>{' '}
          {wordsOf(kind)} <Words text={subjects.join(', ')} most={80} /> <time>{span(now.value - since)}</time>
        </li>
      ))}
    </ul>
  )
}

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
}

const wordsOf = (kind: string): string => own(KINDS, kind) ?? `waits for ${kind}`

/** Says what is waited for, without the word for waiting: `seller`, `a person to allow buy`. */
export const subjectOf = ({ kind, for: subjects }: Pick<Wait, 'kind' | 'for'>): string =>
  `${wordsOf(kind).replace(/^waits( for\b)?/, '')} ${subjects.join(', ')}`.trim()
