/** View of who waits for whom, and since when: the team as a picture by its strategy, and as a table. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { grouped, span } from '../../../figures.ts'
import type { Deadlock } from '../../pictures/deadlocks.ts'
import { deadlocksOf, undecided } from '../../pictures/deadlocks.ts'
import { SlowCards, slowWaits } from '../parts/at-work.tsx'
import { useKeys } from '../parts/keys.ts'
import { Rehearse } from '../parts/rehearse.tsx'
import { clock } from '../parts/times.ts'
import { Words } from '../parts/words.tsx'
import { live, now, since, version } from '../state/live.ts'
import { goTo, linkTo, place } from '../state/place.ts'
import { keep, knownFold } from '../state/run-folds.ts'
import { shape } from '../state/session.ts'
import { tasks } from '../state/tasks.ts'
import { useTroubles } from '../state/troubles.ts'
import { AgentDetail } from './agent-detail.tsx'
import { AgentTable } from './agent-table.tsx'
import { TeamGraph } from './team-graph.tsx'
import { TeamMatrix } from './team-matrix.tsx'

/** Agents up to which each has a box in the picture. */
const MOST_BOXES = 40
/** Time for which a deadlock that is over is still shown. */
const RECENT_MS = 600_000
/** Time for which its ring is in the picture by itself. */
const FRESH_MS = 180_000

export function TeamView(): JSX.Element {
  const [isTable, setTable] = useState(false)
  const [chosen, setChosen] = useState<string | undefined>(undefined)
  useKeys({ t: () => setTable(!isTable) })
  version.value
  const { agent, task } = place.value
  useEffect(() => {
    if (task !== undefined) keep(task)
  }, [task])
  const fold = live()
  const troubles = useTroubles().facts
  const ofTask = (task !== undefined && knownFold(task)?.facts) || []
  const found = new Map([...troubles, ...ofTask].map((fact) => [fact.seq, fact]))
  const deadlocks = deadlocksOf(fold, [...found.values()]).filter(
    ({ isOpen, at, runId }) => isOpen || runId === task || now.value - at < RECENT_MS,
  )
  const shownDeadlock =
    deadlocks.find(({ key }) => key === chosen) ??
    deadlocks.find(({ isOpen, at, runId }) => isOpen || runId === task || now.value - at < FRESH_MS)
  const agents = [...fold.agents.keys()].filter((name) => !name.startsWith('$'))
  const known = shape.value
  const isLarge = agents.length > MOST_BOXES
  return (
    <div class="team-view">
      {!isTable && (
        <div class="team-top">
          <section class="picture" aria-label="Picture of the team" tabIndex={0}>
            {isLarge ? (
              <TeamMatrix agents={agents} deadlock={shownDeadlock} selected={agent} />
            ) : (
              <TeamGraph
                shape={{ strategy: known?.strategy ?? '', roles: known?.roles ?? {}, agents }}
                deadlock={shownDeadlock}
                selected={agent}
              />
            )}
          </section>
          <aside class="pane side" aria-label="What is wrong, and one agent">
            {agent !== undefined && <AgentDetail key={agent} name={agent} />}
            <SlowCards />
            {deadlocks.slice(0, 5).map((deadlock) => (
              <DeadlockCard
                key={deadlock.key}
                deadlock={deadlock}
                isShown={deadlock === shownDeadlock}
                choose={() => setChosen(deadlock.key)}
              />
            ))}
            {agent === undefined && deadlocks.length === 0 && (
              <p class="empty">{slowWaits().length === 0 && 'Nobody is stuck. '}Choose an agent to see what it does.</p>
            )}
          </aside>
        </div>
      )}
      <div class="row head team-bar">
        <h2>Agents</h2>
        <span class="dim grow">
          {grouped(agents.length)} · strategy {known?.strategy} · last errors since {clock(since(), now.value)}
        </span>
        <input
          type="search"
          id="filter"
          placeholder="Find agents"
          aria-label="Find agents"
          value={place.value.filter ?? ''}
          onInput={(event) => goTo({ filter: event.currentTarget.value || undefined }, true)}
        />
        <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          Table alone<kbd>t</kbd>
        </button>
      </div>
      <AgentTable />
    </div>
  )
}

function DeadlockCard({
  deadlock,
  isShown,
  choose,
}: {
  deadlock: Deadlock
  isShown: boolean
  choose(): void
}): JSX.Element {
  const { at, cycle, tail, victim, isOpen, runId } = deadlock
  const query = tasks.value.find(({ id }) => id === runId)?.query
  return (
    <section class={`deadlock${isShown ? ' shown' : ''}`} aria-label="Deadlock">
      <header class="row">
        <strong>
          <span aria-hidden="true">⟳</span> Deadlock
        </strong>
        <span class="dim grow">{isOpen ? `for ${span(now.value - at)}` : `at ${clock(at, now.value)}`}</span>
        {!isShown && (
          <button type="button" onClick={choose}>
            Show
          </button>
        )}
      </header>
      <ol class="plain">
        {cycle.map((name, place) => (
          <li key={name}>
            <Words text={name} /> waits for <Words text={cycle[(place + 1) % cycle.length]!} />
            {name === victim && <span class="chip victim">victim</span>}
          </li>
        ))}
        {tail.map((name) => (
          <li key={name} class="dim">
            <Words text={name} /> waits behind them
          </li>
        ))}
      </ol>
      <p>
        {victim === null ? (
          isOpen ? (
            'It stands.'
          ) : (
            undecided(at, now.value)
          )
        ) : (
          <>
            Victim: <Words text={victim} />. Its wait was given up, so that the others go on.
          </>
        )}
      </p>
      {runId !== '' && (
        <div class="row">
          <a href={linkTo({ view: 'run', task: runId, at: isOpen ? undefined : at })}>See it in its run</a>
          {query !== undefined && <Rehearse id={runId} query={query} />}
        </div>
      )}
    </section>
  )
}
