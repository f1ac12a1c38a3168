/** State of the agents of a run at a time: who worked, who waited, what lay in the mailboxes. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type { DigestFact } from '../../../../runtime/digest/digest-line.ts'
import { momentOf } from '../../../digest/moment.ts'
import { DOING, doingAt } from '../../pictures/doing.ts'
import type { RunStory } from '../../pictures/run-story.ts'
import { nameOf } from '../../pictures/run-words.ts'
import { exactClock, shortSpan } from '../parts/times.ts'
import { type TableColumn, VirtualTable } from '../parts/virtual-table.tsx'
import { Words } from '../parts/words.tsx'

const COLUMNS: readonly TableColumn[] = [
  { title: 'agent', width: 'minmax(90px, 1.2fr)' },
  { title: 'then', width: '88px' },
  { title: 'mailbox', width: '66px', isNumber: true },
  { title: 'waits for', width: 'minmax(90px, 1.3fr)' },
]

export function MomentTable({ story, time }: { story: RunStory; time: number }): JSX.Element {
  const { agents, waits, asks } = useMemo(() => {
    const moment = momentOf(story.fold, time)
    return {
      agents: moment.agents.filter(({ name }) => !name.startsWith('$')),
      waits: new Map(moment.waits.map((wait) => [wait.agent, wait])),
      asks: askersAt(story.fold.facts, time),
    }
  }, [story, time])
  return (
    <section aria-label="State of the agents">
      <h3>At {exactClock(time)}</h3>
      <VirtualTable
        label="Agents at that time"
        columns={COLUMNS}
        rows={agents.length}
        keyOf={(row) => agents[row]!.name}
        mostShown={8}
        empty="No agent had anything to do."
        cells={(row) => {
          const { name, inMailbox } = agents[row]!
          const wait = waits.get(name)
          return [
            <Words key="a" text={name} />,
            DOING[doingAt(story, agents[row]!, time, asks.has(name) || wait !== undefined)],
            inMailbox,
            asks.has(name)
              ? 'a person'
              : wait && (
                  <>
                    <Words text={nameOf(wait.for)} most={60} /> <span class="dim">{shortSpan(time - wait.since)}</span>
                  </>
                ),
          ]
        }}
      />
    </section>
  )
}

/** Agents whose questions were open then. */
function askersAt(facts: readonly DigestFact[], time: number): Set<unknown> {
  const open = new Map<unknown, unknown>()
  for (const { type, at, questionId, agent } of facts) {
    if (at > time) break
    if (type === 'question') open.set(questionId, agent)
    if (type === 'question.closed') open.delete(questionId)
  }
  return new Set(open.values())
}
