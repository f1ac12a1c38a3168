/** Lanes of a run as a picture: bars are turns, lines in them calls of models and tools, arrows messages. */

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import { own } from '../../shared/values.ts'
import { CALL, isTrouble, type RunStory } from '../pictures/run-story.ts'
import { type AxisLabel, roomyLabels } from '../pictures/spending.ts'
import { type Colours, coloursOf, drawingOf, onColours } from './canvas.ts'
import { Button } from './parts.tsx'
import { shortSpan } from './words.tsx'

export interface LaneWindow {
  /** Part of the line of time that is in sight, from 0 to 1. */
  readonly from: number
  readonly to: number
}

export interface LanePlan {
  readonly width: number
  readonly height: number
  readonly laneHeight: number
  /** Pixels to the left of the lanes, for the names of agents. */
  readonly left: number
}

const TOP = 18
const MOST_ARROWS = 600

function planOf(lanes: number, width: number, most: number): LanePlan {
  const laneHeight = Math.max(2, Math.min(26, Math.floor((most - TOP) / Math.max(1, lanes))))
  const left = laneHeight >= 10 ? Math.min(150, width * 0.22) : 6
  return { width, laneHeight, height: TOP + laneHeight * Math.max(1, lanes) + 4, left }
}

const xOf = (story: RunStory, { width, left }: LanePlan, { from, to }: LaneWindow, time: number): number =>
  left + ((story.scale.placeOf(time) - from) / (to - from)) * (width - left - 8)

function timeOf(story: RunStory, { width, left }: LanePlan, { from, to }: LaneWindow, x: number): number {
  return story.scale.timeAt(from + ((x - left) / (width - left - 8)) * (to - from))
}

/** A message that has no end yet: it waits, or is worked on. */
const OPEN = 1
const OK = 2
const FAILED = 3
const MODEL = 1
const TOOL = 2

function paintLanes(
  canvas: HTMLCanvasElement,
  story: RunStory,
  plan: LanePlan,
  window: LaneWindow,
  colours: Colours,
): void {
  const { width, height, laneHeight, left } = plan
  const drawing = drawingOf(canvas, width, height)
  const across = Math.ceil(width)
  const { fold, lanes } = story
  const places = new Int32Array(fold.names.length).fill(-1)
  for (const [lane, name] of lanes.entries()) {
    const place = fold.names.indexOf(name)
    if (place >= 0) places[place] = lane
  }
  const x = (time: number) => xOf(story, plan, window, time)
  paintGround(drawing, story, plan, window, colours)

  const turns = new Uint8Array(lanes.length * across)
  if (!story.isOver) {
    const { at, end, to, type } = fold.messages.columns
    for (let row = 0; row < at.length; row++)
      if (Number.isNaN(end.at(row)) && MESSAGE_TYPES[type.at(row) & 7] !== 'response')
        fill(turns, across, places[to.at(row)] ?? -1, x(at.at(row)), x(story.scale.to), left, OPEN)
  }
  for (const { agent, from, to } of story.crashed)
    fill(turns, across, lanes.indexOf(agent), x(from), x(to), left, FAILED)
  const { columns } = fold.turns
  for (let row = 0; row < columns.start.length; row++)
    fill(
      turns,
      across,
      places[columns.agent.at(row)]!,
      x(columns.start.at(row)),
      x(columns.end.at(row)),
      left,
      columns.failed.at(row) > 0 ? FAILED : OK,
    )
  const bar = Math.max(1, laneHeight - Math.min(8, laneHeight * 0.3))
  paintField(
    drawing,
    turns,
    across,
    [colours.line, colours.accent, colours.bad],
    (lane) => TOP + lane * laneHeight + (laneHeight - bar) / 2,
    bar,
    0.45,
  )

  const calls = new Uint8Array(lanes.length * across)
  const called = fold.calls.columns
  for (let row = 0; row < called.start.length; row++)
    fill(
      calls,
      across,
      places[called.agent.at(row)]!,
      x(called.start.at(row)),
      x(called.end.at(row)),
      left,
      called.kind.at(row) === 0 ? MODEL : TOOL,
    )
  const thin = Math.max(1, bar * 0.4)
  paintField(
    drawing,
    calls,
    across,
    [colours.accent, colours.tool],
    (lane) => TOP + lane * laneHeight + (laneHeight - thin) / 2,
    thin,
    1,
  )

  if (laneHeight >= 10) {
    paintArrows(drawing, story, places, plan, x, colours)
    paintNames(drawing, lanes, plan, colours)
  }
  paintFacts(drawing, story, plan, x, colours)
}

function fill(
  field: Uint8Array,
  across: number,
  lane: number,
  from: number,
  to: number,
  left: number,
  value: number,
): void {
  if (lane < 0 || to < left || from > across) return
  const first = Math.max(left, Math.floor(from))
  const last = Math.min(across - 1, Math.max(first, Math.ceil(to) - 1))
  for (let x = first; x <= last; x++) {
    const at = lane * across + x
    if (field[at]! < value) field[at] = value
  }
}

/** Draws a field: neighbours of one value are one bar. */
function paintField(
  drawing: CanvasRenderingContext2D,
  field: Uint8Array,
  across: number,
  colours: readonly string[],
  topOf: (lane: number) => number,
  height: number,
  alpha: number,
): void {
  drawing.globalAlpha = alpha
  for (const [at, colour] of colours.entries()) {
    drawing.fillStyle = colour
    for (let lane = 0; lane * across < field.length; lane++) {
      const from = lane * across
      for (let x = 0; x < across; x++) {
        if (field[from + x] !== at + 1) continue
        const begin = x
        while (x + 1 < across && field[from + x + 1] === at + 1) x += 1
        drawing.fillRect(begin, topOf(lane), x - begin + 1, height)
      }
    }
  }
  drawing.globalAlpha = 1
}

function paintGround(
  drawing: CanvasRenderingContext2D,
  story: RunStory,
  plan: LanePlan,
  window: LaneWindow,
  colours: Colours,
): void {
  const { width, height, left, laneHeight } = plan
  const { scale, lanes } = story
  if (laneHeight >= 10) {
    drawing.fillStyle = colours.line
    for (let lane = 0; lane <= lanes.length; lane++) drawing.fillRect(left, TOP + lane * laneHeight, width - left, 0.5)
  }
  drawing.font = '11px system-ui, sans-serif'
  drawing.textBaseline = 'middle'
  const labels: AxisLabel[] = []
  const [first, last] = [left, width - 8]
  for (const { from, to } of scale.folded) {
    const [begin, end] = [xOf(story, plan, window, from), xOf(story, plan, window, to)]
    if (end < left || begin > width) continue
    drawing.fillStyle = colours.raised
    drawing.fillRect(begin, TOP, end - begin, height - TOP)
    const text = `${shortSpan(to - from)} idle`
    const half = drawing.measureText(text).width / 2
    const middle = Math.min(last - half, Math.max(first + half, (begin + end) / 2))
    labels.push({ text, at: middle, align: 'center' })
  }
  drawing.fillStyle = colours.dim
  const steps = Math.max(2, Math.floor((width - left) / 140))
  for (let step = 0; step <= steps; step++) {
    const place = window.from + (step / steps) * (window.to - window.from)
    const time = scale.timeAt(place)
    if (scale.folded.some(({ from, to }) => time > from - 1 && time < to + 1)) continue
    const at = first + (step / steps) * (last - first)
    drawing.fillRect(at, TOP - 4, 1, 4)
    const align = step === 0 ? 'left' : step === steps ? 'right' : 'center'
    labels.push({ text: `+${shortSpan(time - scale.from)}`, at, align })
  }
  for (const { text, at, align } of roomyLabels(labels, (each) => drawing.measureText(each).width)) {
    drawing.textAlign = align
    drawing.fillText(text, at, 8)
  }
}

function paintNames(
  drawing: CanvasRenderingContext2D,
  lanes: readonly string[],
  plan: LanePlan,
  colours: Colours,
): void {
  const { left, laneHeight } = plan
  drawing.fillStyle = colours.panel
  drawing.fillRect(0, TOP, left - 2, plan.height - TOP)
  drawing.fillStyle = colours.text
  drawing.font = '12px system-ui, sans-serif'
  drawing.textAlign = 'left'
  drawing.textBaseline = 'middle'
  for (const [lane, name] of lanes.entries()) {
    let text = name
    while (text.length > 2 && drawing.measureText(text).width > left - 12) text = `${text.slice(0, -2)}…`
    drawing.fillText(text, 4, TOP + (lane + 0.5) * laneHeight)
  }
}

/** Draws a line for each message between agents, if there are few enough in sight to be told apart. */
function paintArrows(
  drawing: CanvasRenderingContext2D,
  { fold, times, rows }: RunStory,
  places: Int32Array,
  { width, left, laneHeight }: LanePlan,
  x: (time: number) => number,
  colours: Colours,
): void {
  const { from, to } = fold.messages.columns
  const arrows: [number, number, number][] = []
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at]!
    if (row < 0 || row >= CALL) continue
    const [sender, recipient] = [places[from.at(row)] ?? -1, places[to.at(row)] ?? -1]
    if (sender < 0 || recipient < 0) continue
    const place = x(times[at]!)
    if (place < left || place > width) continue
    arrows.push([place, sender, recipient])
    if (arrows.length > MOST_ARROWS) return
  }
  drawing.strokeStyle = colours.text
  drawing.fillStyle = colours.text
  drawing.globalAlpha = arrows.length > 150 ? 0.25 : 0.6
  for (const [place, sender, recipient] of arrows) {
    const [begin, end] = [TOP + (sender + 0.5) * laneHeight, TOP + (recipient + 0.5) * laneHeight]
    const tip = end > begin ? -4 : 4
    drawing.beginPath()
    drawing.moveTo(place, begin)
    drawing.lineTo(place, end)
    drawing.stroke()
    drawing.beginPath()
    drawing.moveTo(place, end)
    drawing.lineTo(place - 3, end + tip)
    drawing.lineTo(place + 3, end + tip)
    drawing.fill()
  }
  drawing.globalAlpha = 1
}

const SIGNS: Readonly<Record<string, string>> = {
  'agent.crashed': '✕',
  'message.dead': '✉',
  deadlock: '⟳',
  livelock: '∞',
  stall: '‖',
  question: '?',
  decision: '◆',
  handoff: '⇒',
}

function paintFacts(
  drawing: CanvasRenderingContext2D,
  story: RunStory,
  plan: LanePlan,
  x: (time: number) => number,
  colours: Colours,
): void {
  const { laneHeight, left, width } = plan
  const lanes = new Map(story.lanes.map((name, lane) => [name, lane]))
  drawing.font = `bold ${Math.min(15, Math.max(10, laneHeight - 6))}px system-ui, sans-serif`
  drawing.textAlign = 'center'
  drawing.textBaseline = 'middle'
  for (const fact of story.fold.facts) {
    const sign = own(SIGNS, fact.type)
    if (sign === undefined) continue
    const place = x(fact.at)
    if (place < left || place > width) continue
    const about = typeof fact.agent === 'string' ? [fact.agent] : Array.isArray(fact.cycle) ? fact.cycle : []
    drawing.fillStyle = isTrouble(fact) ? colours.bad : fact.type === 'question' ? colours.wait : colours.tool
    const known = about.flatMap((name) => lanes.get(String(name)) ?? [])
    for (const lane of known) {
      const middle = TOP + (lane + 0.5) * laneHeight
      if (laneHeight >= 10) drawing.fillText(sign, place, middle)
      else drawing.fillRect(place - 1.5, middle - 1.5, 3, 3)
    }
    if (known.length === 0) drawing.fillRect(place - 1, TOP - 6, 2, 6)
  }
}

const WHOLE: LaneWindow = { from: 0, to: 1 }
const MOST_HEIGHT = 300
const LEAST_SHARE = 0.0005

interface Props {
  story: RunStory
  time: number
  look(time: number): void
}

/** The wheel zooms, a drag looks at times, a drag with Shift chooses a part. The table below has all of it in words. */
export function RunLanes({ story, time, look }: Props): JSX.Element {
  const frame = useRef<HTMLDivElement>(null)
  const lanes = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(0)
  const [window, setWindow] = useState(WHOLE)
  const [repaints, setRepaints] = useState(0)
  const colours = useRef<Colours | undefined>(undefined)
  const drag = useRef<{ from: number; chooses: boolean } | undefined>(undefined)
  /** To ask for them in each frame would lay the page out anew each time. */
  const coloursNow = (): Colours => {
    colours.current ??= coloursOf(frame.current!)
    return colours.current
  }
  const plan = planOf(story.lanes.length, width, MOST_HEIGHT)
  useEffect(() => {
    const element = frame.current!
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    const forget = onColours(() => {
      colours.current = undefined
      setRepaints((count) => count + 1)
    })
    return () => {
      observer.disconnect()
      forget()
    }
  }, [])
  useEffect(() => {
    if (width > 0) paintLanes(lanes.current!, story, plan, window, coloursNow())
  }, [story, width, window, repaints])
  const cursor = width > 0 ? xOf(story, plan, window, time) : -1
  const zoom = (event: WheelEvent) => {
    event.preventDefault()
    const middle = scalePlace(event.offsetX, plan, window)
    const size = Math.min(1, Math.max(LEAST_SHARE, (window.to - window.from) * (event.deltaY > 0 ? 1.25 : 0.8)))
    const share = (middle - window.from) / (window.to - window.from)
    const from = Math.min(1 - size, Math.max(0, middle - size * share))
    setWindow({ from, to: from + size })
  }
  const point = (event: PointerEvent) =>
    look(Math.min(story.scale.to, Math.max(story.scale.from, timeOf(story, plan, window, event.offsetX))))
  return (
    <div class="lanes" ref={frame} aria-hidden="true">
      <canvas ref={lanes} style={{ width: `${width}px`, height: `${plan.height}px` }} />
      {cursor >= plan.left && <div class="cursor" style={{ transform: `translateX(${cursor}px)` }} />}
      <div
        class="surface"
        onWheel={zoom}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          drag.current = { from: scalePlace(event.offsetX, plan, window), chooses: event.shiftKey }
          if (!event.shiftKey) point(event)
        }}
        onPointerMove={(event) => {
          if (drag.current && !drag.current.chooses) point(event)
        }}
        onPointerUp={(event) => {
          const begun = drag.current
          drag.current = undefined
          if (!begun?.chooses) return
          const [from = 0, to = 1] = [begun.from, scalePlace(event.offsetX, plan, window)].sort(
            (one, other) => one - other,
          )
          if (to - from > LEAST_SHARE) setWindow({ from, to })
        }}
        onDblClick={() => setWindow(WHOLE)}
      />
      {window !== WHOLE && <Button text="Whole run" class="whole" tabIndex={-1} onClick={() => setWindow(WHOLE)} />}
    </div>
  )
}

/** Returns the place on the line of time, from 0 to 1, that is at a place of the canvas. */
function scalePlace(x: number, { left, width }: LanePlan, { from, to }: LaneWindow): number {
  const share = Math.min(1, Math.max(0, (x - left) / (width - left - 8)))
  return from + share * (to - from)
}
