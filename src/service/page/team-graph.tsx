/** Picture of a team: a box for each agent, a line for each wait with its age, a ring for a deadlock. */
import type { JSX, SVGAttributes } from 'preact'
import type { Wait } from '../../runtime/views/digest-line.ts'
import { span, stateOf } from '../../runtime/views/slow.ts'
import { toldWaits } from '../digest/moment.ts'
import { type Deadlock, isForAgents } from '../pictures/deadlocks.ts'
import {
  BOX,
  BULGE,
  type Edge,
  edgeBetween,
  layoutOf,
  recentFlow,
  ringSides,
  SCRIPT_BOX,
  type Size,
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
  const boxOf = (name: string): Size => (name === SCRIPT ? SCRIPT_BOX : BOX)
  const lineOf = (from: string, to: string, bend: number) =>
    edgeBetween(spotOf(from), spotOf(to), bend, boxOf(from), boxOf(to))
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
        <Tip kind="flow" size={11} />
        <Tip kind="wait" size={11} />
        <Tip kind="ring" size={15} />
      </defs>
      <g class="script" transform={`translate(${script.x} ${script.y})`}>
        <rect {...around(SCRIPT_BOX)} rx={SCRIPT_BOX.height / 2} />
        <Label text={shown(shape.strategy || 'script')} class="name" y={4} />
      </g>
      {recentFlow(fold, now.value).map(({ from, to, count, ageMs }) => {
        const look = { 'stroke-width': Math.min(5, 1 + Math.log2(count)), opacity: ageMs < 2_000 ? 0.95 : 0.4 }
        return <Arrow key={`${from} ${to}`} kind="flow" line={lineOf(from, to, 0)} look={look} />
      })}
      {waits
        .filter(({ from, to }) => !rings.some((each) => each.from === from && each.to === to))
        .map(({ from, to, since, kind }) => {
          const age = span(now.value - since)
          return <Arrow key={`${from} ${to} ${kind}`} kind="wait" line={lineOf(from, to, 0.18)} age={age} />
        })}
      {rings.map(({ from, to }, at) => {
        const wait = waits.find((each) => each.from === from && each.to === to)
        const age = wait ? span(now.value - wait.since) : 'waited'
        return <Arrow key={`ring ${from} ${to}`} kind="ring" line={lineOf(from, to, sides[at]! * BULGE)} age={age} />
      })}
      {[...spots].map(([name, spot]) => (
        <AgentBox
          key={name}
          name={name}
          spot={spot}
          wait={told.get(name)}
          marks={[cycle.includes(name) && 'in-ring', name === selected && 'selected', name === victim && 'victim']}
        />
      ))}
    </svg>
  )
}

const Tip = ({ kind, size }: { kind: string; size: number }): JSX.Element => (
  <marker
    id={`tip-${kind}`}
    class={`tip ${kind}`}
    viewBox="0 0 8 8"
    refX="7"
    refY="4"
    markerWidth={size}
    markerHeight={size}
    markerUnits="userSpaceOnUse"
    orient="auto-start-reverse"
  >
    <path d="M0 0 L8 4 L0 8 z" />
  </marker>
)

interface ArrowProps {
  kind: 'flow' | 'wait' | 'ring'
  line: Edge | undefined
  age?: string
  look?: SVGAttributes<SVGPathElement>
}

const Arrow = ({ kind, line, age, look }: ArrowProps): JSX.Element | null =>
  line === undefined ? null : (
    <g>
      <path class={`edge ${kind}`} d={line.path} marker-end={`url(#tip-${kind})`} {...look} />
      {age !== undefined && <Label text={age} class={kind === 'ring' ? 'age ring' : 'age'} x={line.x} y={line.y} />}
    </g>
  )

const Label = ({ text, ...rest }: SVGAttributes<SVGTextElement> & { text: string }): JSX.Element => (
  <text {...rest}>{text}</text>
)

const around = ({ width, height }: Size) => ({ x: -width / 2, y: -height / 2, width, height })

interface BoxProps {
  name: string
  spot: Spot
  wait: Wait | undefined
  marks: readonly (string | false)[]
}

function AgentBox({ name, spot: { x, y }, wait, marks }: BoxProps): JSX.Element {
  const agent = live().agents.get(name)
  const status = wait && !isOwn(wait) ? 'waiting' : (agent?.status ?? 'idle')
  const { inMailbox = 0, restarts = 0 } = agent ?? {}
  const classes = ['node', status, ...marks, wait && stateOf(wait, now.value)]
  const state = `${shapeOf(status)} ${short(wait ? waitWords(wait, now.value) : wordOf(status), 21)}`
  const [right, bottom] = [BOX.width / 2, BOX.height / 2]
  return (
    <g
      class={classes.filter(Boolean).join(' ')}
      transform={`translate(${x} ${y})`}
      onClick={() => goTo({ agent: name })}
    >
      <rect {...around(BOX)} rx={9} />
      <Label text={short(name, 18)} class="name" y={-5} />
      <Label text={state} class="state" y={14} />
      {inMailbox > 0 && (
        <g transform={`translate(${right - 4} ${-bottom})`}>
          <rect class="count" x={-14} y={-9} width={28} height={18} rx={9} />
          <Label text={String(inMailbox)} class="count" y={4} />
        </g>
      )}
      {marks.includes('victim') && <Label text="victim" class="victim" y={bottom + 16} />}
      {restarts > 0 && <Label text={`↻ ${restarts}`} class="restarts" x={4 - right} y={-bottom - 5} />}
    </g>
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
