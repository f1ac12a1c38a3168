/** Picture of a team: a box for each agent, a line for each wait with its age, a ring for a deadlock. */
import type { JSX } from 'preact'
import type { Wait } from '../../runtime/views/digest-line.ts'
import { isSlow, span } from '../../runtime/views/slow.ts'
import { toldWaits } from '../digest/moment.ts'
import { type Deadlock, isForAgents } from '../pictures/deadlocks.ts'
import {
  BOX,
  BULGE,
  edgeBetween,
  layoutOf,
  recentFlow,
  ringSides,
  SCRIPT_BOX,
  type Spot,
  type TeamShape,
} from '../pictures/team-layout.ts'
import { isOwn, subjectOf } from './at-work.tsx'
import { isNarrow } from './canvas.ts'
import { live, now, version } from './live.ts'
import { goTo } from './place.ts'
import { shapeOf, shown, wordOf } from './words.tsx'

interface Props {
  shape: TeamShape
  deadlock: Deadlock | undefined
  selected: string | undefined
}

const SCRIPT = '$orchestrator'

/** The table below has all of it in words, for who does not see. */
export function TeamGraph({ shape, deadlock, selected }: Props): JSX.Element {
  version.value
  const { width, height, spots, script } = layoutOf(shape, isNarrow.value)
  if (spots.size === 0) return <p class="empty">The team has no agents yet.</p>
  const fold = live()
  const spotOf = (name: string): Spot | undefined => (name === SCRIPT ? script : spots.get(name))
  const lineOf = (from: string, to: string, bend: number) =>
    edgeBetween(spotOf(from), spotOf(to), bend, from === SCRIPT ? SCRIPT_BOX : BOX, to === SCRIPT ? SCRIPT_BOX : BOX)
  const flow = recentFlow(fold, now.value)
  const waits = fold.waits
    .filter(isForAgents)
    .flatMap(({ agent, for: subjects, since, kind }) =>
      subjects.flatMap((to) =>
        agent !== null && spots.has(agent) && spots.has(to) ? [{ from: agent, to, since, kind }] : [],
      ),
    )
  const { cycle = [], victim } = deadlock ?? {}
  const rings = cycle.map((from, at) => ({ from, to: cycle[(at + 1) % cycle.length]! }))
  const sides = ringSides(rings.map(({ from, to }) => [spots.get(from), spots.get(to)]))
  const told = toldWaits(fold.waits, now.value)
  return (
    <svg class="graph" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" preserveAspectRatio="xMidYMid meet">
      <defs>
        {['flow', 'wait', 'ring'].map((kind) => (
          <marker
            key={kind}
            id={`tip-${kind}`}
            class={`tip ${kind}`}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth={kind === 'ring' ? 15 : 11}
            markerHeight={kind === 'ring' ? 15 : 11}
            markerUnits="userSpaceOnUse"
            orient="auto-start-reverse"
          >
            <path d="M0 0 L8 4 L0 8 z" />
          </marker>
        ))}
      </defs>
      <g class="script" transform={`translate(${script.x} ${script.y})`}>
        <rect
          x={-SCRIPT_BOX.width / 2}
          y={-SCRIPT_BOX.height / 2}
          width={SCRIPT_BOX.width}
          height={SCRIPT_BOX.height}
          rx={SCRIPT_BOX.height / 2}
        />
        <text class="name" y={4}>
          {shown(shape.strategy || 'script')}
        </text>
      </g>
      {flow.map(({ from, to, count, ageMs }) => {
        const line = lineOf(from, to, 0)
        if (!line) return null
        const thickness = Math.min(5, 1 + Math.log2(count))
        return (
          <path
            key={`${from} ${to}`}
            class="edge flow"
            d={line.path}
            stroke-width={thickness}
            opacity={ageMs < 2_000 ? 0.95 : 0.4}
            marker-end="url(#tip-flow)"
          />
        )
      })}
      {waits
        .filter(({ from, to }) => !rings.some((each) => each.from === from && each.to === to))
        .map(({ from, to, since, kind }) => {
          const line = lineOf(from, to, 0.18)
          if (!line) return null
          return (
            <g key={`${from} ${to} ${kind}`}>
              <path class="edge wait" d={line.path} marker-end="url(#tip-wait)" />
              <text class="age" x={line.x} y={line.y}>
                {span(now.value - since)}
              </text>
            </g>
          )
        })}
      {rings.map(({ from, to }, at) => {
        const line = lineOf(from, to, sides[at]! * BULGE)
        if (!line) return null
        const wait = waits.find((each) => each.from === from && each.to === to)
        return (
          <g key={`ring ${from} ${to}`}>
            <path class="edge ring" d={line.path} marker-end="url(#tip-ring)" />
            <text class="age ring" x={line.x} y={line.y}>
              {wait ? span(now.value - wait.since) : 'waited'}
            </text>
          </g>
        )
      })}
      {[...spots].map(([name, { x, y }]) => {
        const agent = fold.agents.get(name)
        const wait = told.get(name)
        const status = wait && !isOwn(wait) ? 'waiting' : (agent?.status ?? 'idle')
        const inMailbox = agent?.inMailbox ?? 0
        const classes = [
          'node',
          status,
          cycle.includes(name) && 'in-ring',
          name === selected && 'selected',
          wait && isSlow(wait, now.value) && 'slow',
          name === victim && 'victim',
        ]
        return (
          <g
            key={name}
            class={classes.filter(Boolean).join(' ')}
            transform={`translate(${x} ${y})`}
            onClick={() => goTo({ agent: name })}
          >
            <rect x={-BOX.width / 2} y={-BOX.height / 2} width={BOX.width} height={BOX.height} rx={9} />
            <text class="name" y={-5}>
              {short(name, 18)}
            </text>
            <text class="state" y={14}>
              {shapeOf(status)} {short(wait ? waitWords(wait, now.value) : wordOf(status), 21)}
            </text>
            {inMailbox > 0 && (
              <g transform={`translate(${BOX.width / 2 - 4} ${-BOX.height / 2})`}>
                <rect class="count" x={-14} y={-9} width={28} height={18} rx={9} />
                <text class="count" y={4}>
                  {inMailbox}
                </text>
              </g>
            )}
            {name === victim && (
              <text class="victim" y={BOX.height / 2 + 16}>
                victim
              </text>
            )}
            {agent !== undefined && agent.restarts > 0 && (
              <text class="restarts" x={-BOX.width / 2 + 4} y={-BOX.height / 2 - 5}>
                ↻ {agent.restarts}
              </text>
            )}
          </g>
        )
      })}
    </svg>
  )
}

/** Says for whom an agent waits and how long it has: `3.2 s for seller`. */
function waitWords(wait: Wait, now: number): string {
  const whom = wait.kind === 'ask' || wait.kind === 'approve' ? 'a person' : subjectOf(wait)
  if (isOwn(wait)) return `${span(now - wait.since)} ${wait.kind === 'own' ? 'own code' : wait.for.join(', ')}`
  return `${span(now - wait.since)} ${whom.startsWith('at ') ? '' : 'for '}${whom}`
}

const short = (text: string, most: number): string => {
  const clean = shown(text)
  return clean.length > most ? `${clean.slice(0, most - 1)}…` : clean
}
