/** Details of an agent: its role, how full its context is, and its newest turns. */
import type { JSX } from 'preact'
import type { z } from 'zod'
import { doingWords, span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { newestTurns } from '../digest/moment.ts'
import type { agentDetail } from '../http/schemas.ts'
import { Age } from './at-work.tsx'
import { begun, live, now, version } from './live.ts'
import { Button, ContextMeter, Failure, useSending } from './parts.tsx'
import { goTo, linkTo, mayOperate, team } from './place.ts'
import { ask, Refused } from './service.ts'
import { useAsked } from './tasks.ts'
import { Mark, shortSpan, shown, Words } from './words.tsx'

type Detail = z.infer<typeof agentDetail>

const MOST_TURNS = 8

export function AgentDetail({ name }: { name: string }): JSX.Element {
  version.value
  const agent = live().agents.get(name)
  const path = `api/agents/${encodeURIComponent(name)}`
  const key = `${begun.value} ${agent?.turns} ${agent?.status}`
  const asked = useAsked<Detail>(path, key, { team: team.value })
  const { failure, send } = useSending(false)
  const detail = asked instanceof Refused ? undefined : asked
  const restart = () => void send(() => ask(`${path}/restart`, { method: 'POST', query: { team: team.value } }))
  const context = detail?.context
  return (
    <section aria-label="Agent" class="agent">
      <header class="row">
        <h2>
          <Words text={name} />
        </h2>
        {agent && <Mark status={agent.status} />}
        <span class="grow" />
        {mayOperate.value && (agent?.status === 'failed' || agent?.status === 'stopped') && (
          <Button text="Restart" class="good" onClick={restart} />
        )}
        <Button text="Close" onClick={() => goTo({ agent: undefined })} />
      </header>
      <Failure text={asked instanceof Refused ? asked.message : failure} />
      {detail?.description && (
        <p>
          <Words text={detail.description} />
        </p>
      )}
      {detail && (
        <p class="dim small">
          {detail.context === null
            ? 'an agent of code'
            : detail.model
              ? `model ${shownName(detail.model)}`
              : 'played by the default model of the team'}
          {detail.tools.length > 0 && ` · tools ${detail.tools.map(shownName).join(', ')}`}
          {detail.capabilities.length > 0 && ` · can ${detail.capabilities.map(shownName).join(', ')}`}
        </p>
      )}
      {context && (
        <div class="bars">
          <span>context</span>
          <ContextMeter of={name} fill={context} />
          <span class="number">
            {grouped(context.tokens)} of {grouped(context.maxTokens)}
          </span>
        </div>
      )}
      <Now name={name} />
      <Turns name={name} />
    </section>
  )
}

const shownName = (text: string): string => shown(text.slice(0, 80))

function Now({ name }: { name: string }): JSX.Element | null {
  const waits = live().waits.filter(({ agent }) => agent === name)
  if (waits.length === 0) return null
  return (
    <>
      <h3>Now</h3>
      <ul class="plain">
        {waits.slice(0, MOST_TURNS).map((wait) => (
          <li key={`${wait.runId} ${wait.turn} ${wait.kind}`}>
            <Words text={doingWords(wait)} most={200} /> <Age wait={wait} />
            {wait.turnSince !== undefined && (
              <span class="dim">
                {', in a '}
                {wait.runId === '' ? 'turn' : <a href={linkTo({ view: 'run', task: wait.runId })}>turn</a>} that began{' '}
                {span(now.value - wait.turnSince)} ago
              </span>
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

function Turns({ name }: { name: string }): JSX.Element | null {
  const agent = live().agents.get(name)
  if (!agent || agent.turnRows.length === 0) return null
  return (
    <>
      <h3>Newest turns</h3>
      <ul class="plain turns">
        {newestTurns(live(), agent, MOST_TURNS).map(({ turn, run, start, end, attempt, failed }) => (
          <li key={`${run} ${turn} ${end}`}>
            <span class={failed ? 'mark failed' : 'mark finished'} aria-hidden="true">
              {failed ? '✕' : '✓'}
            </span>{' '}
            {run ? <a href={linkTo({ view: 'run', task: run, at: end })}>turn {turn}</a> : `turn ${turn}`}
            <span class="dim">
              {' '}
              {shortSpan(end - start)}, {span(now.value - end)} ago
              {attempt > 1 && `, attempt ${attempt}`}
              {failed && ', failed'}
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}
