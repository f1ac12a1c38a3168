/** View of what happened in a task: lanes of its agents, its messages in order, and its state at any time. */
import type { JSX } from 'preact'
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { DigestFact } from '../../runtime/views/digest-line.ts'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { momentOf } from '../digest/moment.ts'
import type { TaskMessage } from '../http/schemas.ts'
import { CALL, DOING, doingAt, isMessage, type RunStory, rowAt, storyOf } from '../pictures/run-story.ts'
import { nameOf, sizeOf, timesOf, wordsOfRow } from '../pictures/run-words.ts'
import { useKeys } from './canvas.ts'
import { messagesFrom, messageText, useRunFold } from './folds.ts'
import { Rehearse, TaskChoice } from './forms.tsx'
import { serviceTime } from './live.ts'
import { Button, Find, PlaceLink, Verbatim } from './parts.tsx'
import { goTo, place } from './place.ts'
import { RunLanes } from './run-lanes.tsx'
import { askText, messageOf, taskPath } from './service.ts'
import { hasEnded, tasks } from './tasks.ts'
import { Stop } from './tasks-view.tsx'
import { type TableColumn, VirtualTable } from './virtual-table.tsx'
import { exactClock, Mark, shortSpan, Words } from './words.tsx'

interface Props {
  id: string
  story: RunStory
  /** Row of the story. */
  row: number
  look(time: number): void
}

/** Time for which a row is looked at before its content is asked for: a hand that scrubs passes many. */
const PAUSE_MS = 150

function MessageDetail({ id, story, row, look }: Props): JSX.Element | null {
  if (row < 0 || row >= story.rows.length) return null
  const place = story.rows[row]!
  const { at, kind, who, what, isTrouble } = wordsOfRow(story, row)
  return (
    <section aria-label="What it was" class="message">
      <h3>
        {kind} <Words text={who} most={120} /> <span class="dim">{exactClock(at)}</span>
      </h3>
      {place < 0 || place >= CALL ? (
        <p class={isTrouble ? 'failure' : ''}>
          <Words text={what} />
        </p>
      ) : (
        <MessageText id={id} story={story} row={place} look={look} />
      )}
    </section>
  )
}

function MessageText({ id, story, row, look }: Props): JSX.Element {
  const { columns } = story.fold.messages
  const n = columns.n.at(row)
  const [found, setFound] = useState<{ n: number; message?: TaskMessage; failure?: string } | undefined>(undefined)
  useEffect(() => {
    let isLeft = false
    const timer = setTimeout(async () => {
      try {
        const [message] = await messagesFrom(id, n, 1)
        if (!isLeft) setFound(message ? { n, message } : { n, failure: 'The log has given this message up.' })
      } catch (error) {
        if (!isLeft) setFound({ n, failure: messageOf(error) })
      }
    }, PAUSE_MS)
    return () => {
      isLeft = true
      clearTimeout(timer)
    }
  }, [id, n])
  const [start, end] = [columns.start.at(row), columns.end.at(row)]
  const message = found?.n === n ? found.message : undefined
  return (
    <>
      <p class="dim small">
        {sizeOf(columns.bytes.at(row))}
        {columns.turn.at(row) > 0 &&
          ` · sent in turn ${columns.turn.at(row)} of ${nameOf(story.fold.names[columns.from.at(row)])}`}
        {end >= start && (
          <>
            {' '}
            · <Button text={`handled in ${shortSpan(end - start)}`} class="link" onClick={() => look(end)} />
          </>
        )}
      </p>
      {found?.n === n && found.failure !== undefined && <p class="failure">{found.failure}</p>}
      {message && <Verbatim text={message.content || '(no text)'} />}
      {message?.structuredData !== undefined && message.structuredData !== null && (
        <details>
          <summary>Data</summary>
          <Verbatim text={JSON.stringify(message.structuredData, null, 2)} />
        </details>
      )}
    </>
  )
}

const MOMENT_COLUMNS: readonly TableColumn[] = [
  { title: 'agent', width: 'minmax(90px, 1.2fr)' },
  { title: 'then', width: '88px' },
  { title: 'mailbox', width: '66px', isNumber: true },
  { title: 'waits for', width: 'minmax(90px, 1.3fr)' },
]

function MomentTable({ story, time }: { story: RunStory; time: number }): JSX.Element {
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
        columns={MOMENT_COLUMNS}
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

function askersAt(facts: readonly DigestFact[], time: number): Set<unknown> {
  const open = new Map<unknown, unknown>()
  for (const { type, at, questionId, agent } of facts) {
    if (at > time) break
    if (type === 'question') open.set(questionId, agent)
    if (type === 'question.closed') open.delete(questionId)
  }
  return new Set(open.values())
}

export function RunView(): JSX.Element {
  const id = place.value.task ?? tasks.value[0]?.id
  const found = useRunFold(id)
  const story = useMemo(() => found && storyOf(found.fold, serviceTime()), [found])
  if (id === undefined) return <p class="empty">There is no task to look at yet.</p>
  if (!found || !story) return <p class="empty">Asking what happened …</p>
  if (found.failure !== '') return <p class="failure">{found.failure}</p>
  return <Run key={id} id={id} story={story} />
}

/** Time to play a run of any length at speed 1, in ms. */
const PLAY_MS = 20_000
const SPEEDS = [0.25, 1, 4]

function Run({ id, story }: { id: string; story: RunStory }): JSX.Element {
  const [at, setAt] = useState<number | undefined>(place.value.at)
  const [isPlaying, setPlaying] = useState(false)
  const [speed, setSpeed] = useState(1)
  const [isTable, setTable] = useState(false)
  const { scale, times } = story
  const { filter = '' } = place.value
  const found = useMemo(() => timesOf(story, filter), [story, filter])
  const marks = filter === '' ? story.troubles : found
  const time = at ?? scale.to
  useUrlTime(at)
  const look = useCallback((next: number | undefined) => setAt(next), [])
  const row = rowAt(story, time)
  const step = (by: number) => {
    setPlaying(false)
    const next = times[Math.min(times.length - 1, Math.max(0, row + by))]
    if (next !== undefined) look(next)
  }
  const seek = (by: 1 | -1) => {
    setPlaying(false)
    // behind the last one comes the first
    const next =
      by > 0
        ? (marks.find((each) => each > time + 0.01) ?? marks[0])
        : (marks.findLast((each) => each < time - 0.01) ?? marks.at(-1))
    if (next !== undefined) look(next)
  }
  const play = () => {
    if (!isPlaying && time >= scale.to) look(scale.from)
    setPlaying(!isPlaying)
  }
  usePlay(isPlaying, speed, story, time, look, () => setPlaying(false))
  useKeys({
    '[': () => step(-1),
    ']': () => step(1),
    n: () => seek(1),
    N: () => seek(-1),
    ' ': play,
    t: () => setTable(!isTable),
  })
  return (
    <div class="run-view">
      <RunHead id={id} story={story} />
      {!isTable && <RunLanes story={story} time={time} look={look} />}
      <div class="row scrubber">
        <Button text="«" aria-label="To the begin" onClick={() => look(scale.from)} />
        <Button text="‹" aria-label="One message back" onClick={() => step(-1)} />
        <Button text={isPlaying ? '❚❚' : '▶'} aria-label={isPlaying ? 'Pause' : 'Play'} onClick={play} />
        <Button text="›" aria-label="One message on" onClick={() => step(1)} />
        <Button text="»" aria-label="To the end" onClick={() => look(undefined)} />
        <select aria-label="Speed" value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => (
            <option key={each} value={each}>
              {each}×
            </option>
          ))}
        </select>
        <input
          type="range"
          class="grow"
          aria-label="Time"
          aria-valuetext={exactClock(time)}
          min={0}
          max={100_000}
          value={Math.round(scale.placeOf(time) * 100_000)}
          onInput={(event) => {
            setPlaying(false)
            look(scale.timeAt(Number(event.currentTarget.value) / 100_000))
          }}
        />
        <output class="number">
          {exactClock(time)} · {grouped(row + 1)} of {grouped(times.length)}
        </output>
        <Find what="Find in the run" />
        {filter !== '' && (
          <output class="dim nowrap" aria-label="Found">
            {grouped(found.filter((each) => each <= time).length)} of {grouped(found.length)}
          </output>
        )}
        {marks.length > 0 && (
          <Button
            text={filter === '' ? 'Next trouble' : 'Next'}
            hint="n"
            class={filter === '' ? 'bad' : ''}
            onClick={() => seek(1)}
          />
        )}
        <Button text="Table alone" hint="t" aria-pressed={isTable} onClick={() => setTable(!isTable)} />
      </div>
      <div class="run-panes">
        <Rows id={id} story={story} row={row} look={look} />
        <aside class="run-side" aria-label="That moment">
          <MomentTable story={story} time={time} />
          <MessageDetail id={id} story={story} row={row} look={look} />
        </aside>
      </div>
    </div>
  )
}

/** Keeps the URL at the time that is looked at; not at each of the many that a hand passes. */
function useUrlTime(at: number | undefined): void {
  useEffect(() => {
    const timer = setTimeout(() => goTo({ at: at === undefined ? undefined : Math.round(at * 10) / 10 }, true), 300)
    return () => clearTimeout(timer)
  }, [at])
}

function usePlay(
  isPlaying: boolean,
  speed: number,
  { scale }: RunStory,
  time: number,
  look: (time: number | undefined) => void,
  stop: () => void,
): void {
  const now = useRef(time)
  now.current = time
  useEffect(() => {
    if (!isPlaying) return
    let last = performance.now()
    let frame = requestAnimationFrame(function play(at) {
      const place = scale.placeOf(now.current) + ((at - last) * speed) / PLAY_MS
      last = at
      if (place >= 1) {
        look(undefined)
        stop()
        return
      }
      look(scale.timeAt(place))
      frame = requestAnimationFrame(play)
    })
    return () => cancelAnimationFrame(frame)
  }, [isPlaying, speed, scale])
}

function RunHead({ id, story }: { id: string; story: RunStory }): JSX.Element {
  const { fold, scale } = story
  const summary = tasks.value.find((task) => task.id === id)
  const run = fold.runs.get(id)
  const status = summary?.status ?? run?.status ?? 'running'
  const tokens = [...fold.agents.values()].reduce((sum, agent) => sum + agent.tokens, 0)
  const name = `run-${id.slice(0, 8)}`
  return (
    <header class="run-head">
      <div class="row">
        <Mark status={status} />
        <h2 class="grow">
          <Words text={summary?.query ?? run?.query ?? ''} most={200} />
        </h2>
        <span class="dim nowrap">
          {span(scale.to - scale.from)} · {grouped(fold.messages.length)} messages · {grouped(tokens)} tokens
        </span>
        <TaskChoice id={id} />
        <Saved title="Mermaid" file={`${name}.mmd`} id={id} as="mermaid" />
        <Saved title="Page" file={`${name}.html`} id={id} as="html" />
        <Saved title="Digest" file={`${name}.digest.ndjson`} id={id} as="digest" />
        <PlaceLink text="Answer" to={{ view: 'tasks', task: id }} />
        {!hasEnded(status) && <Stop id={id} />}
        {hasEnded(status) && <Rehearse id={id} query={summary?.query ?? run?.query ?? ''} />}
      </div>
    </header>
  )
}

function Saved({ title, file, id, as }: { title: string; file: string; id: string; as: string }): JSX.Element {
  const save = async () => {
    const text = await askText(taskPath(id, 'trace'), { query: { as } })
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([text]))
    link.download = file
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return <Button text={title} title={`Save ${file}`} onClick={() => void save().catch(() => {})} />
}

const COLUMNS: readonly TableColumn[] = [
  { title: 'time', width: '104px', isNumber: true },
  { title: 'kind', width: '128px', narrow: '84px' },
  { title: 'who', width: 'minmax(140px, 1.2fr)', narrow: 'minmax(100px, 1fr)' },
  { title: 'what', width: 'minmax(120px, 2fr)', narrow: 'line' },
]

function Rows({ id, story, row, look }: Props): JSX.Element {
  const { n } = story.fold.messages.columns
  return (
    <VirtualTable
      label="Messages and events"
      columns={COLUMNS}
      rows={story.rows.length}
      selected={row}
      choose={(at) => look(story.times[at]!)}
      empty="Nothing has happened yet."
      cells={(at) => {
        const { at: time, kind, who, what, isTrouble } = wordsOfRow(story, at)
        return [
          <Button key="t" text={exactClock(time)} data-row class="bare" onClick={() => look(time)} />,
          <span key="k" class={isTrouble ? 'mark failed' : 'dim'}>
            {isTrouble && '✕ '}
            {kind}
          </span>,
          <Words key="w" text={nameOf(who)} most={80} />,
          isMessage(story.rows[at]!) ? (
            <MessageWords key={at} id={id} n={n.at(story.rows[at]!)} size={what} />
          ) : (
            <Words key="x" text={what} most={160} />
          ),
        ]
      }}
    />
  )
}

/** Shows what a message says, as soon as it is known; its size where the log has given it up. */
function MessageWords({ id, n, size }: { id: string; n: number; size: string }): JSX.Element {
  const text = messageText(id, n).value
  return text === null ? <span class="dim">{size}</span> : <Words text={text ?? '…'} most={160} />
}
