/** All agents, those with trouble first: the picture of the team in words. */
import type { JSX } from 'preact'
import type { FoldedAgent } from '../../../digest/folded.ts'
import { toldWaits } from '../../../digest/told-waits.ts'
import { grouped } from '../../../figures.ts'
import { Age, isOwn, subjectOf } from '../parts/at-work.tsx'
import { Mark } from '../parts/marks.tsx'
import { type TableColumn, VirtualTable } from '../parts/virtual-table.tsx'
import { Words } from '../parts/words.tsx'
import { type Fill, useContexts } from '../state/contexts.ts'
import { live, now, version } from '../state/live.ts'
import { linkTo, place } from '../state/place.ts'

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

export function AgentTable(): JSX.Element {
  version.value
  const fold = live()
  const { filter = '', agent: selected } = place.value
  const waits = toldWaits(fold.waits, now.value)
  const contexts = useContexts()
  const agents = [...fold.agents.values()]
    .filter(
      ({ name, status }) => !name.startsWith('$') && `${name} ${status}`.toLowerCase().includes(filter.toLowerCase()),
    )
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
          grouped(agent.queued + agent.inFlight),
          grouped(agent.turns),
          agent.failedTurns > 0 ? grouped(agent.failedTurns) : '',
          agent.restarts > 0 ? grouped(agent.restarts) : '',
          grouped(agent.inputTokens + agent.outputTokens),
          <Fullness key="c" of={agent.name} fill={contexts.get(agent.name)} />,
          agent.lastError && <Words text={agent.lastError} most={120} />,
        ]
      }}
    />
  )
}

/** How much of its context an agent has used; nothing for an agent with code. */
function Fullness({ of, fill }: { of: string; fill: Fill | undefined }): JSX.Element | null {
  if (!fill) return null
  const { tokens, maxTokens } = fill
  const share = Math.round((tokens / Math.max(1, maxTokens)) * 100)
  return (
    <span class="fullness" title={`${grouped(tokens)} of ${grouped(maxTokens)} tokens`}>
      <meter min={0} max={maxTokens} high={maxTokens * 0.85} value={tokens} aria-label={`context of ${of}`} />
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
