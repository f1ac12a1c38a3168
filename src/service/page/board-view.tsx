/** View of who knows what, and since when: the blackboard of a task, and the versions of an entry side by side. */
import type { JSX } from 'preact'
import type { z } from 'zod'
import type { boardEntry } from '../http/schemas.ts'
import { TaskChoice } from './forms.tsx'
import { begun, live, now, version } from './live.ts'
import { List, Verbatim } from './parts.tsx'
import { linkTo, place } from './place.ts'
import { Refused, taskPath } from './service.ts'
import { tasks, useAsked } from './tasks.ts'
import { clock, Words } from './words.tsx'

type Entry = z.infer<typeof boardEntry>

export function BoardView(): JSX.Element {
  version.value
  const id = place.value.task ?? tasks.value[0]?.id
  const { key } = place.value
  const written = live().facts.filter(({ type, runId }) => type === 'blackboard' && runId === id).length
  const found = useEntries(id && taskPath(id, 'blackboard'), written)
  if (id === undefined) return <p class="empty">There is no task whose board could be shown.</p>
  const entries = found instanceof Refused ? [] : (found ?? [])
  return (
    <div class="two-panes">
      <div class="pane">
        <div class="row head">
          <h2>Board</h2>
          <TaskChoice id={id} />
        </div>
        {found instanceof Refused && <p class="empty">{found.message}</p>}
        {found && !(found instanceof Refused) && entries.length === 0 && <p class="empty">Nothing is written on it.</p>}
        {entries.length > 0 && (
          <List
            columns={COLUMNS}
            rows={entries}
            keyOf={(entry) => entry.key}
            isSelected={(entry) => entry.key === key}
            cells={(entry) => [
              <a data-row key="k" href={linkTo({ view: 'board', task: id, key: entry.key })}>
                <Words text={entry.key} most={120} />
              </a>,
              <code key="v">
                <Words text={JSON.stringify(entry.value)} most={160} />
              </code>,
              <Words key="t" text={entry.entryType} most={40} />,
              <Words key="a" text={entry.author} />,
              entry.version,
              clock(Date.parse(entry.timestamp), now.value),
            ]}
          />
        )}
      </div>
      <div class="pane side">
        {key === undefined ? (
          <p class="empty">Choose an entry to see its versions.</p>
        ) : (
          <Versions key={`${id} ${key}`} id={id} entry={key} entries={entries} written={written} />
        )}
      </div>
    </div>
  )
}

const COLUMNS = [
  ['key'],
  ['value', 'wide'],
  ['type', 'spare'],
  ['author'],
  ['version', 'number'],
  ['written', 'dim nowrap spare'],
] as const

function useEntries(path: string | undefined, written: number): readonly Entry[] | Refused | undefined {
  const asked = useAsked<{ entries: Entry[] }>(path, `${begun.value} ${written}`)
  return asked instanceof Refused ? asked : asked?.entries
}

interface VersionsProps {
  id: string
  entry: string
  entries: readonly Entry[]
  written: number
}

function Versions({ id, entry, entries, written }: VersionsProps): JSX.Element {
  const found = useEntries(taskPath(id, 'blackboard', entry, 'history'), written)
  const built = entries.filter(
    ({ key, references, supersedes }) => key !== entry && (references.includes(entry) || supersedes === entry),
  )
  return (
    <section aria-label="Versions of an entry">
      <h2>
        <Words text={entry} />
      </h2>
      {found instanceof Refused && <p class="failure">{found.message}</p>}
      <div class="versions">
        {Array.isArray(found) &&
          found.map((each: Entry) => (
            <article key={each.version} class="version">
              <header class="dim">
                version {each.version} · <Words text={each.entryType} most={40} /> · <Words text={each.author} /> ·{' '}
                {clock(Date.parse(each.timestamp), now.value)} · confidence {each.confidence}
              </header>
              <Verbatim
                text={typeof each.value === 'string' ? each.value : (JSON.stringify(each.value, null, 2) ?? '')}
              />
              {each.references.length > 0 && <p>refers to {each.references.map((key) => keyLink(id, key))}</p>}
              {each.supersedes !== null && <p>takes the place of {keyLink(id, each.supersedes)}</p>}
            </article>
          ))}
      </div>
      {built.length > 0 && <p>Built on it: {built.map(({ key }) => keyLink(id, key))}</p>}
    </section>
  )
}

const keyLink = (task: string, key: string): JSX.Element => (
  <a key={key} class="chip" href={linkTo({ view: 'board', task, key })}>
    <Words text={key} most={80} />
  </a>
)
