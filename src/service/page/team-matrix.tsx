/** Picture of a large team: a field for each pair of agents, by how much one has sent the other and who waits. */

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import type { DigestFold } from '../digest/digest-fold.ts'
import type { Deadlock } from '../pictures/deadlocks.ts'
import { type Flow, type MatrixLayout, matrixLayout, pairAt, recentFlow, STRIP_PX } from '../pictures/team-layout.ts'
import { type Colours, coloursOf, drawingOf, onColours } from './canvas.ts'
import { live, now, version } from './live.ts'
import { goTo } from './place.ts'
import { shown, Words } from './words.tsx'

interface MatrixPicture {
  readonly agents: readonly string[]
  readonly fold: DigestFold
  readonly flow: readonly Flow[]
  readonly deadlock: Deadlock | undefined
  readonly selected: string | undefined
  readonly pointed: readonly [string, string] | undefined
  readonly layout: MatrixLayout
  readonly colours: Colours
}

/** Agents between two lines. */
const GROUP = 10
const LONGEST_NAME = 19

function paintMatrix(canvas: HTMLCanvasElement, picture: MatrixPicture): void {
  const { agents, fold, flow, deadlock, selected, pointed, layout, colours } = picture
  const { width, height, left, top, cell } = layout
  const drawing = drawingOf(canvas, width, height)
  const places = new Map(agents.map((name, at) => [name, at]))
  const gap = cell > 4 ? 1 : 0
  const fillBox = (from: number, to: number) =>
    drawing.fillRect(left + to * cell, top + from * cell, cell - gap, cell - gap)
  const side = cell * agents.length
  drawing.fillStyle = colours.panel
  drawing.fillRect(left, top, side, side)
  drawing.fillStyle = colours.raised
  for (let at = 0; at < agents.length; at++) fillBox(at, at)
  drawing.fillStyle = colours.tint // the row and the column of the agents that are looked at
  for (const name of new Set([selected, ...(pointed ?? [])])) {
    const at = places.get(name ?? '')
    if (at === undefined) continue
    drawing.fillRect(left, top + at * cell, side, cell)
    drawing.fillRect(left + at * cell, top, cell, side)
  }
  const fill = (from: string, to: string) => {
    const [row, column] = [places.get(from), places.get(to)]
    if (row !== undefined && column !== undefined) fillBox(row, column)
  }
  drawing.fillStyle = colours.accent
  for (const { from, to, count } of flow) {
    drawing.globalAlpha = Math.min(1, 0.35 + Math.log2(count) * 0.12)
    fill(from, to)
  }
  drawing.globalAlpha = 1
  drawing.fillStyle = colours.wait
  for (const { agent, for: subjects } of fold.waits) for (const to of subjects) if (agent !== null) fill(agent, to)
  drawing.fillStyle = colours.bad
  const { cycle = [] } = deadlock ?? {}
  for (const [at, name] of cycle.entries()) fill(name, cycle[(at + 1) % cycle.length]!)
  paintLines(drawing, picture)
  paintNames(drawing, picture)
}

function paintLines(drawing: CanvasRenderingContext2D, { agents, layout, colours }: MatrixPicture): void {
  const { left, top, cell } = layout
  drawing.strokeStyle = colours.line
  drawing.lineWidth = 1
  drawing.beginPath()
  const side = cell * agents.length
  for (let at = 0; at <= agents.length; at += GROUP) {
    const [x, y] = [Math.round(left + at * cell) - 0.5, Math.round(top + at * cell) - 0.5]
    drawing.moveTo(x, top)
    drawing.lineTo(x, top + side)
    drawing.moveTo(left, y)
    drawing.lineTo(left + side, y)
  }
  drawing.stroke()
  drawing.strokeRect(Math.round(left) - 0.5, Math.round(top) - 0.5, side, side)
}

/** Writes names where there is room, those of a deadlock and of the selected agent first, and draws the statuses. */
function paintNames(drawing: CanvasRenderingContext2D, picture: MatrixPicture): void {
  const { agents, fold, deadlock, selected, layout, colours } = picture
  const { left, top, cell, step } = layout
  drawing.font = '10px system-ui, sans-serif'
  drawing.textBaseline = 'middle'
  const isMarked = (name: string) => name === selected || deadlock?.cycle.includes(name) === true
  const named: number[] = []
  const name = (at: number) => {
    if (named.every((other) => Math.abs(other - at) >= step)) named.push(at)
  }
  for (const [at, agent] of agents.entries()) if (isMarked(agent)) name(at)
  for (let at = 0; at < agents.length; at += step) name(at)
  for (const [at, name] of agents.entries()) {
    const [x, y] = [left + at * cell, top + at * cell]
    drawing.fillStyle = statusColour(fold.agents.get(name)?.status ?? '', colours)
    const thickness = Math.max(1, cell - (cell > 4 ? 1 : 0))
    drawing.fillRect(left - STRIP_PX - 1, y, STRIP_PX, thickness)
    drawing.fillRect(x, top - STRIP_PX - 1, thickness, STRIP_PX)
    if (!named.includes(at)) continue
    drawing.fillStyle = deadlock?.cycle.includes(name) ? colours.bad : name === selected ? colours.text : colours.dim
    const label = shown(name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name)
    drawing.textAlign = 'right'
    drawing.fillText(label, left - STRIP_PX - 5, y + cell / 2)
    drawing.save()
    drawing.translate(x + cell / 2, top - STRIP_PX - 5)
    drawing.rotate(-Math.PI / 2)
    drawing.textAlign = 'left'
    drawing.fillText(label, 0, 0)
    drawing.restore()
  }
}

function statusColour(status: string, { accent, wait, bad, line }: Colours): string {
  if (status === 'running') return accent
  if (status === 'waiting' || status === 'restarting') return wait
  return status === 'failed' || status === 'stopped' ? bad : line
}

interface Props {
  agents: readonly string[]
  deadlock: Deadlock | undefined
  selected: string | undefined
}

/** Senders are rows, recipients are columns. The table below has the agents in words. */
export function TeamMatrix({ agents, deadlock, selected }: Props): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const layout = useRef<MatrixLayout | undefined>(undefined)
  const [pointed, setPointed] = useState<[string, string] | undefined>(undefined)
  const [repaints, setRepaints] = useState(0)
  const shownVersion = version.value
  useEffect(() => {
    const again = () => setRepaints((count) => count + 1)
    const sizes = new ResizeObserver(again)
    sizes.observe(frame.current!)
    const forget = onColours(again)
    return () => {
      sizes.disconnect()
      forget()
    }
  }, [])
  useEffect(() => {
    const { clientWidth, clientHeight } = frame.current!
    layout.current = matrixLayout(agents, clientWidth, clientHeight)
    const { width, height } = layout.current
    canvas.current!.style.width = `${width}px`
    canvas.current!.style.height = `${height}px`
    const fold = live()
    const flow = recentFlow(fold, now.peek())
    const colours = coloursOf(frame.current!)
    const given = { agents, fold, flow, deadlock, selected, pointed, layout: layout.current, colours }
    paintMatrix(canvas.current!, given)
  }, [shownVersion, agents.length, repaints, deadlock?.key, selected, pointed?.join()])
  const look = ({ offsetX, offsetY }: MouseEvent) => layout.current && pairAt(agents, layout.current, offsetX, offsetY)
  return (
    <div class="matrix">
      <div class="matrix-frame" ref={frame}>
        <canvas
          ref={canvas}
          aria-hidden="true"
          onMouseMove={(event) => setPointed(look(event))}
          onMouseLeave={() => setPointed(undefined)}
          onClick={(event) => {
            const agent = look(event)?.[0]
            if (agent !== undefined) goTo({ agent })
          }}
        />
      </div>
      <p class="matrix-words">
        {pointed ? (
          <Pair from={pointed[0]} to={pointed[1]} />
        ) : (
          <>
            Rows send, columns receive. <span class="key sent" aria-hidden="true" /> messages of the last 30 s{' '}
            <span class="key waits" aria-hidden="true" /> waits <span class="key ring" aria-hidden="true" /> deadlock.
            The strip is the status of an agent.
          </>
        )}
      </p>
    </div>
  )
}

function Pair({ from, to }: { from: string; to: string }): JSX.Element {
  const fold = live()
  const { count = 0 } = recentFlow(fold, now.value).find((flow) => flow.from === from && flow.to === to) ?? {}
  const wait = fold.waits.find(({ agent, for: subjects }) => agent === from && subjects.includes(to))
  return (
    <>
      <Words text={from} most={60} /> → <Words text={to} most={60} />: {grouped(count)}{' '}
      {count === 1 ? 'message' : 'messages'} in the last 30 s{wait && `, waits for ${span(now.value - wait.since)}`}
    </>
  )
}
