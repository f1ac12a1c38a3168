/** View of who waits for whom, and since when: the team as a picture by its strategy, and as a table. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { type FoldedAgent, rangesOf, takeoverWords } from '../digest/digest-fold.ts'
import { toldWaits } from '../digest/moment.ts'
import { type Deadlock, deadlocksOf, undecided } from '../pictures/deadlocks.ts'
import { AgentDetail } from './agent-detail.tsx'
import { Age, isOwn, SlowCards, slowNow, subjectOf } from './at-work.tsx'
import { useKeys } from './canvas.ts'
import { type Fill, factKey, keep, knownFold, useContexts, useTroubles } from './folds.ts'
import { Rehearse } from './forms.tsx'
import { live, now, since, version } from './live.ts'
import { Button, ContextMeter, Find, Victim } from './parts.tsx'
import { linkTo, place, shape } from './place.ts'
import { tasks } from './tasks.ts'
import { TeamGraph } from './team-graph.tsx'
import { TeamMatrix } from './team-matrix.tsx'
import { type TableColumn, VirtualTable } from './virtual-table.tsx'
import { clock, Mark, Words } from './words.tsx'

const COLUMNS: readonly TableColumn[] = [
  { title: 'agent', width: 'minmax(120px, 1.2fr)' },
  { title: 'status', width: '104px' },
  { title: 'waits for', width: 'minmax(140px, 1.6fr)', narrow: '260px' },
  { title: 'for', width: '56px', isNumber: true },
  { title: 'mailbox', width: '66px', isNumber: true },
  { title: 'turns', width: '66px', isNumber: true },
  { title: 'failed', width: '54px', isNumber: true },
  { title: 'restarts', width: '64px', isNumber: true },
  { title: 'tokens', width: '80px', isNumber: true },
  { title: 'context', width: '100px' },
  { title: 'last error', width: 'minmax(100px, 2fr)' },
]

function AgentTable(): JSX.Element {
  version.value
  const fold = live()
  const { filter = '', agent: selected } = place.value
  const waits = toldWaits(fold.waits, now.value)
  const contexts = useContexts()
  const agents = fold.members
    .filter(({ name, status }) => `${name} ${status}`.toLowerCase().includes(filter.toLowerCase()))
    .sort((one, other) => troubleOf(other, waits.has(other.name)) - troubleOf(one, waits.has(one.name)))
  return (
    <VirtualTable
      label="Agents"
      columns={COLUMNS}
      rows={agents.length}
      keyOf={(row) => agents[row]!.name}
      selected={agents.findIndex(({ name }) => name === selected)}
      empty="There is no agent of that name."
      cells={(row) => {
        const agent = agents[row]!
        const wait = waits.get(agent.name)
        return [
          <a data-row key="a" href={linkTo({ view: 'team', agent: agent.name })}>
            <Words text={agent.name} />
          </a>,
          <Mark key="s" status={wait && agent.status === 'running' && !isOwn(wait) ? 'waiting' : agent.status} />,
          wait && <Words text={subjectOf(wait)} most={80} />,
          wait && <Age key="a" wait={wait} />,
          grouped(agent.inMailbox),
          grouped(agent.turns),
          agent.failedTurns > 0 ? grouped(agent.failedTurns) : '',
          agent.restarts > 0 ? grouped(agent.restarts) : '',
          grouped(agent.tokens),
          <Fullness key="c" of={agent.name} fill={contexts.get(agent.name)} />,
          agent.lastError && <Words text={agent.lastError} most={120} />,
        ]
      }}
    />
  )
}

function Fullness({ of, fill }: { of: string; fill: Fill | undefined }): JSX.Element | null {
  if (!fill) return null
  const { tokens, maxTokens } = fill
  const share = Math.round((tokens / Math.max(1, maxTokens)) * 100)
  return (
    <span class="fullness" title={`${grouped(tokens)} of ${grouped(maxTokens)} tokens`}>
      <ContextMeter of={of} fill={fill} />
      <span class="number">{share} %</span>
    </span>
  )
}

/** The order stays as long as nothing is wrong: agents that only work do not jump about. */
const troubleOf = ({ status, crashes, failedTurns }: FoldedAgent, waits: boolean): number =>
  (status === 'failed' || status === 'stopped' ? 1_000 : 0) +
  (status === 'restarting' ? 500 : 0) +
  (crashes > 0 ? 100 : 0) +
  (failedTurns > 0 ? 10 : 0) +
  (waits ? 1 : 0)

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
  const found = new Map([...troubles, ...ofTask].map((fact) => [factKey(fact), fact]))
  const deadlocks = deadlocksOf(fold, [...found.values()]).filter(
    ({ isOpen, at, runId }) => isOpen || runId === task || now.value - at < RECENT_MS,
  )
  const shownDeadlock =
    deadlocks.find(({ key }) => key === chosen) ??
    deadlocks.find(({ isOpen, at, runId }) => isOpen || runId === task || now.value - at < FRESH_MS)
  const agents = fold.members.map(({ name }) => name)
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
            <Processes />
            {agent === undefined && deadlocks.length === 0 && (
              <p class="empty">{slowNow().length === 0 && 'Nobody is stuck. '}Choose an agent to see what it does.</p>
            )}
          </aside>
        </div>
      )}
      <div class="row head team-bar">
        <h2>Agents</h2>
        <span class="dim grow">
          {grouped(agents.length)} · strategy {known?.strategy} · last errors since {clock(since(), now.value)}
        </span>
        <Find what="Find agents" />
        <Button text="Table alone" hint="t" aria-pressed={isTable} onClick={() => setTable(!isTable)} />
      </div>
      <AgentTable />
    </div>
  )
}

const MOST_TAKEOVERS = 5

/** Shards of a team over several processes: their owners, and the last that went from one to another. */
function Processes(): JSX.Element | null {
  const { processes, takeovers } = live()
  if (processes.length === 0) return null
  return (
    <section aria-label="Processes">
      <h3>Processes</h3>
      <ul class="plain">
        {processes.map(({ name, shards, why }) => (
          <li key={name}>
            <Words text={name || 'nobody'} most={80} />{' '}
            <span class="dim">
              shards {rangesOf(shards)}
              {why !== undefined && ` (${why})`}
            </span>
          </li>
        ))}
        {takeovers.slice(0, MOST_TAKEOVERS).map((takeover) => (
          <li key={`${takeover.at} ${takeover.shard}`} class="dim">
            {clock(takeover.at, now.value)} {takeoverWords(takeover)}
          </li>
        ))}
      </ul>
    </section>
  )
}

interface CardProps {
  deadlock: Deadlock
  isShown: boolean
  choose(): void
}

function DeadlockCard({ deadlock, isShown, choose }: CardProps): JSX.Element {
  const { at, cycle, tail, victim, isOpen, runId } = deadlock
  const query = tasks.value.find(({ id }) => id === runId)?.query
  return (
    <section class={`deadlock${isShown ? ' shown' : ''}`} aria-label="Deadlock">
      <header class="row">
        <strong>
          <span aria-hidden="true">⟳</span> Deadlock
        </strong>
        <span class="dim grow">{isOpen ? `for ${span(now.value - at)}` : `at ${clock(at, now.value)}`}</span>
        {!isShown && <Button text="Show" onClick={choose} />}
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
      <Victim name={victim} otherwise={isOpen ? 'It stands.' : undecided(at, now.value)} />
      {runId !== '' && (
        <div class="row">
          <a href={linkTo({ view: 'run', task: runId, at: isOpen ? undefined : at })}>See it in its run</a>
          {query !== undefined && <Rehearse id={runId} query={query} />}
        </div>
      )}
    </section>
  )
}
