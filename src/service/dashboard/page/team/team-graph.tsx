/** Picture of a team: a box for each agent, a line for each wait with its age, a ring for a deadlock. */
import type { JSX } from 'preact'
import { span } from '../../../figures.ts'
import type { Deadlock } from '../../pictures/deadlocks.ts'
import { recentFlow } from '../../pictures/team-flow.ts'
import { BOX, layoutOf, type Spot, type TeamShape } from '../../pictures/team-layout.ts'
import { wordsOf } from '../parts/at-work.tsx'
import { shapeOf, wordOf } from '../parts/marks.tsx'
import { shown } from '../parts/words.tsx'
import { live, now, version } from '../state/live.ts'
import { goTo } from '../state/place.ts'

interface Props {
  shape: TeamShape
  deadlock: Deadlock | undefined
  selected: string | undefined
}

const SCRIPT = '$orchestrator'

/** The table below has all of it in words, for who does not see. */
export function TeamGraph({ shape, deadlock, selected }: Props): JSX.Element {
  version.value
  const { width, height, spots, script } = layoutOf(shape)
  if (spots.size === 0) return <p class="empty">The team has no agents yet.</p>
  const fold = live()
  const spotOf = (name: string): Spot | undefined => (name === SCRIPT ? script : spots.get(name))
  const ring = new Set(deadlock?.cycle ?? [])
  const isInRing = (from: string, to: string) => {
    const at = deadlock?.cycle.indexOf(from) ?? -1
    return at >= 0 && deadlock!.cycle[(at + 1) % deadlock!.cycle.length] === to
  }
  const flow = recentFlow(fold, now.value)
  const waits = fold.waits.flatMap(({ agent, for: subjects, since, kind }) =>
    subjects.flatMap((to) =>
      agent !== null && spots.has(agent) && spots.has(to) ? [{ from: agent, to, since, kind }] : [],
    ),
  )
  const rings = (deadlock?.cycle ?? []).map((from, at) => ({
    from,
    to: deadlock!.cycle[(at + 1) % deadlock!.cycle.length]!,
  }))
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
      {flow.map(({ from, to, count, ageMs }) => {
        const line = lineOf(spotOf(from), spotOf(to), 0)
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
        .filter(({ from, to }) => !isInRing(from, to))
        .map(({ from, to, since, kind }) => {
          const line = lineOf(spotOf(from), spotOf(to), 0.18)
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
      {rings.map(({ from, to }) => {
        const line = lineOf(spotOf(from), spotOf(to), 0.24)
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
      <g class="script" transform={`translate(${script.x} ${script.y})`}>
        <rect x={-62} y={-17} width={124} height={34} rx={17} />
        <text class="name" y={4}>
          {shown(shape.strategy || 'script')}
        </text>
      </g>
      {[...spots].map(([name, { x, y }]) => {
        const agent = fold.agents.get(name)
        const wait = fold.waits.find((each) => each.agent === name)
        const status = wait ? 'waiting' : (agent?.status ?? 'idle')
        const inMailbox = (agent?.queued ?? 0) + (agent?.inFlight ?? 0)
        const classes = [
          'node',
          status,
          ring.has(name) && 'in-ring',
          name === selected && 'selected',
          name === deadlock?.victim && 'victim',
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
              {shapeOf(status)}{' '}
              {short(wait ? waitWords(wait.kind, wait.for, now.value - wait.since) : wordOf(status), 24)}
            </text>
            {inMailbox > 0 && (
              <g transform={`translate(${BOX.width / 2 - 4} ${-BOX.height / 2})`}>
                <rect class="count" x={-14} y={-9} width={28} height={18} rx={9} />
                <text class="count" y={4}>
                  {inMailbox}
                </text>
              </g>
            )}
            {name === deadlock?.victim && (
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

const waitWords = (kind: string, subjects: readonly string[], ms: number): string => {
  const whom =
    kind === 'ask' || kind === 'approve' ? 'a person' : subjects.join(', ') || wordsOf(kind).replace('waits for ', '')
  return `${span(ms)} ${whom}`
}

const short = (text: string, most: number): string => {
  const clean = shown(text)
  return clean.length > most ? `${clean.slice(0, most - 1)}…` : clean
}

interface Line {
  path: string
  /** Place of the label. */
  x: number
  y: number
}

/** Returns a line from the edge of one box to that of another. `bend`: how far it leaves the straight way. */
function lineOf(from: Spot | undefined, to: Spot | undefined, bend: number): Line | undefined {
  if (!from || !to || from === to) return undefined
  const [dx, dy] = [to.x - from.x, to.y - from.y]
  const middle = { x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend }
  const start = edgeOf(from, middle)
  const end = edgeOf(to, middle)
  const x = (start.x + 2 * middle.x + end.x) / 4
  const y = (start.y + 2 * middle.y + end.y) / 4
  return { path: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}`, x, y }
}

/** Returns the point at which the way from the middle of a box to a point leaves the box. */
function edgeOf(box: Spot, toward: Spot): Spot {
  const [dx, dy] = [toward.x - box.x, toward.y - box.y]
  const [halfX, halfY] = [BOX.width / 2 + 5, BOX.height / 2 + 5]
  const share = Math.min(halfX / Math.max(1, Math.abs(dx)), halfY / Math.max(1, Math.abs(dy)), 1)
  return { x: box.x + dx * share, y: box.y + dy * share }
}
