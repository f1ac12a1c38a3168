/** Lanes of a run as a picture: bars are turns, lines in them calls of models and tools, arrows messages. */

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import { own } from '../../shared/values.ts'
import { isMessage, isTrouble, type RunStory } from '../pictures/run-story.ts'
import { type AxisLabel, roomyLabels } from '../pictures/spending.ts'
import { type Colours, coloursOf, drawingOf, onColours } from './canvas.ts'
import { Button } from './parts.tsx'
import { shortSpan } from './words.tsx'

interface LaneWindow {
  /** Part of the line of time that is in sight, from 0 to 1. */
  readonly from: number
  readonly to: number
}

interface LanePlan {
  readonly width: number
  readonly height: number
  readonly laneHeight: number
  /** Pixels to the left of the lanes, for the names of agents. */
  readonly left: number
}

const TOP = 18
const MOST_ARROWS = 600
const LEAST_NAMED = 10

function planOf(lanes: number, width: number, most: number): LanePlan {
  const laneHeight = Math.max(2, Math.min(26, Math.floor((most - TOP) / Math.max(1, lanes))))
  const left = laneHeight >= LEAST_NAMED ? Math.min(150, width * 0.22) : 6
  return { width, laneHeight, height: TOP + laneHeight * Math.max(1, lanes) + 4, left }
}

const xOf = (story: RunStory, { width, left }: LanePlan, { from, to }: LaneWindow, time: number): number =>
  left + ((story.scale.placeOf(time) - from) / (to - from)) * (width - left - 8)

/** A message that has no end yet: it waits, or is worked on. */
const OPEN = 1
const OK = 2
const FAILED = 3
const MODEL = 1
const TOOL = 2

class LanesPicture {
  readonly #drawing: CanvasRenderingContext2D
  readonly #story: RunStory
  readonly #plan: LanePlan
  readonly #window: LaneWindow
  readonly #colours: Colours
  readonly #across: number
  /** Lane of each name of the fold; -1: none. */
  readonly #places: Int32Array

  constructor(canvas: HTMLCanvasElement, story: RunStory, plan: LanePlan, window: LaneWindow, colours: Colours) {
    this.#drawing = drawingOf(canvas, plan.width, plan.height)
    this.#story = story
    this.#plan = plan
    this.#window = window
    this.#colours = colours
    this.#across = Math.ceil(plan.width)
    const { names } = story.fold
    this.#places = new Int32Array(names.length).fill(-1)
    for (const [lane, name] of story.lanes.entries()) {
      const place = names.indexOf(name)
      if (place >= 0) this.#places[place] = lane
    }
  }

  paint(): void {
    const { laneHeight } = this.#plan
    const { line, accent, bad, tool } = this.#colours
    const bar = Math.max(1, laneHeight - Math.min(8, laneHeight * 0.3))
    this.#paintGround()
    this.#paintField(this.#turns(), [line, accent, bad], bar, 0.45)
    this.#paintField(this.#calls(), [accent, tool], Math.max(1, bar * 0.4), 1)
    if (laneHeight >= LEAST_NAMED) {
      this.#paintArrows()
      this.#paintNames()
    }
    this.#paintFacts()
  }

  #x(time: number): number {
    return xOf(this.#story, this.#plan, this.#window, time)
  }

  /** Returns what is to be seen in each pixel of each lane. */
  #turns(): Uint8Array {
    const { fold, lanes, scale, isOver, crashed } = this.#story
    const field = new Uint8Array(lanes.length * this.#across)
    const { at, end, to, type } = fold.messages.columns
    for (let row = 0; !isOver && row < at.length; row++)
      if (Number.isNaN(end.at(row)) && MESSAGE_TYPES[type.at(row) & 7] !== 'response')
        this.#fill(field, this.#places[to.at(row)] ?? -1, at.at(row), scale.to, OPEN)
    for (const { agent, from, to } of crashed) this.#fill(field, lanes.indexOf(agent), from, to, FAILED)
    const { columns } = fold.turns
    for (let row = 0; row < columns.start.length; row++) {
      const value = columns.failed.at(row) > 0 ? FAILED : OK
      this.#fill(field, this.#places[columns.agent.at(row)]!, columns.start.at(row), columns.end.at(row), value)
    }
    return field
  }

  #calls(): Uint8Array {
    const { fold, lanes } = this.#story
    const field = new Uint8Array(lanes.length * this.#across)
    const { columns } = fold.calls
    for (let row = 0; row < columns.start.length; row++) {
      const value = columns.kind.at(row) === 0 ? MODEL : TOOL
      this.#fill(field, this.#places[columns.agent.at(row)]!, columns.start.at(row), columns.end.at(row), value)
    }
    return field
  }

  #fill(field: Uint8Array, lane: number, since: number, until: number, value: number): void {
    const { left } = this.#plan
    const [from, to] = [this.#x(since), this.#x(until)]
    if (lane < 0 || to < left || from > this.#across) return
    const first = Math.max(left, Math.floor(from))
    const last = Math.min(this.#across - 1, Math.max(first, Math.ceil(to) - 1))
    for (let x = first; x <= last; x++) {
      const at = lane * this.#across + x
      if (field[at]! < value) field[at] = value
    }
  }

  /** Draws a field: neighbours of one value are one bar. */
  #paintField(field: Uint8Array, colours: readonly string[], height: number, alpha: number): void {
    const across = this.#across
    const { laneHeight } = this.#plan
    this.#drawing.globalAlpha = alpha
    for (const [at, colour] of colours.entries()) {
      this.#drawing.fillStyle = colour
      for (let lane = 0; lane * across < field.length; lane++) {
        const from = lane * across
        const top = TOP + lane * laneHeight + (laneHeight - height) / 2
        for (let x = 0; x < across; x++) {
          if (field[from + x] !== at + 1) continue
          const begin = x
          while (x + 1 < across && field[from + x + 1] === at + 1) x += 1
          this.#drawing.fillRect(begin, top, x - begin + 1, height)
        }
      }
    }
    this.#drawing.globalAlpha = 1
  }

  #paintGround(): void {
    const drawing = this.#drawing
    const { width, height, left, laneHeight } = this.#plan
    const { scale, lanes } = this.#story
    if (laneHeight >= LEAST_NAMED) {
      drawing.fillStyle = this.#colours.line
      for (let lane = 0; lane <= lanes.length; lane++)
        drawing.fillRect(left, TOP + lane * laneHeight, width - left, 0.5)
    }
    drawing.font = '11px system-ui, sans-serif'
    drawing.textBaseline = 'middle'
    const labels: AxisLabel[] = []
    const [first, last] = [left, width - 8]
    for (const { from, to } of scale.folded) {
      const [begin, end] = [this.#x(from), this.#x(to)]
      if (end < left || begin > width) continue
      drawing.fillStyle = this.#colours.raised
      drawing.fillRect(begin, TOP, end - begin, height - TOP)
      const text = `${shortSpan(to - from)} idle`
      const half = drawing.measureText(text).width / 2
      const middle = Math.min(last - half, Math.max(first + half, (begin + end) / 2))
      labels.push({ text, at: middle, align: 'center' })
    }
    drawing.fillStyle = this.#colours.dim
    const steps = Math.max(2, Math.floor((width - left) / 140))
    for (let step = 0; step <= steps; step++) {
      const place = this.#window.from + (step / steps) * (this.#window.to - this.#window.from)
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

  #paintNames(): void {
    const drawing = this.#drawing
    const { left, laneHeight, height } = this.#plan
    drawing.fillStyle = this.#colours.panel
    drawing.fillRect(0, TOP, left - 2, height - TOP)
    drawing.fillStyle = this.#colours.text
    drawing.font = '12px system-ui, sans-serif'
    drawing.textAlign = 'left'
    drawing.textBaseline = 'middle'
    for (const [lane, name] of this.#story.lanes.entries()) {
      let text = name
      while (text.length > 2 && drawing.measureText(text).width > left - 12) text = `${text.slice(0, -2)}…`
      drawing.fillText(text, 4, TOP + (lane + 0.5) * laneHeight)
    }
  }

  /** Draws a line for each message between agents, if there are few enough in sight to be told apart. */
  #paintArrows(): void {
    const drawing = this.#drawing
    const { width, left, laneHeight } = this.#plan
    const { fold, times, rows } = this.#story
    const { from, to } = fold.messages.columns
    const arrows: [number, number, number][] = []
    for (const [at, row] of rows.entries()) {
      if (!isMessage(row)) continue
      const [sender, recipient] = [this.#places[from.at(row)] ?? -1, this.#places[to.at(row)] ?? -1]
      if (sender < 0 || recipient < 0) continue
      const place = this.#x(times[at]!)
      if (place < left || place > width) continue
      arrows.push([place, sender, recipient])
      if (arrows.length > MOST_ARROWS) return
    }
    drawing.strokeStyle = this.#colours.text
    drawing.fillStyle = this.#colours.text
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

  #paintFacts(): void {
    const drawing = this.#drawing
    const { bad, wait, tool } = this.#colours
    const { laneHeight, left, width } = this.#plan
    const lanes = new Map(this.#story.lanes.map((name, lane) => [name, lane]))
    drawing.font = `bold ${Math.min(15, Math.max(10, laneHeight - 6))}px system-ui, sans-serif`
    drawing.textAlign = 'center'
    drawing.textBaseline = 'middle'
    for (const fact of this.#story.fold.facts) {
      const sign = own(SIGNS, fact.type)
      if (sign === undefined) continue
      const place = this.#x(fact.at)
      if (place < left || place > width) continue
      const about = typeof fact.agent === 'string' ? [fact.agent] : Array.isArray(fact.cycle) ? fact.cycle : []
      drawing.fillStyle = isTrouble(fact) ? bad : fact.type === 'question' ? wait : tool
      const known = about.flatMap((name) => lanes.get(String(name)) ?? [])
      for (const lane of known) {
        const middle = TOP + (lane + 0.5) * laneHeight
        if (laneHeight >= LEAST_NAMED) drawing.fillText(sign, place, middle)
        else drawing.fillRect(place - 1.5, middle - 1.5, 3, 3)
      }
      if (known.length === 0) drawing.fillRect(place - 1, TOP - 6, 2, 6)
    }
  }
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
    if (width > 0) new LanesPicture(lanes.current!, story, plan, window, coloursNow()).paint()
  }, [story, width, window, repaints])
  const cursor = width > 0 ? xOf(story, plan, window, time) : -1
  const zoom = (event: WheelEvent) => {
    event.preventDefault()
    const middle = placeInSight(event.offsetX, plan, window)
    const size = Math.min(1, Math.max(LEAST_SHARE, (window.to - window.from) * (event.deltaY > 0 ? 1.25 : 0.8)))
    const share = (middle - window.from) / (window.to - window.from)
    const from = Math.min(1 - size, Math.max(0, middle - size * share))
    setWindow({ from, to: from + size })
  }
  const point = (event: PointerEvent) => look(story.scale.timeAt(placeAt(event.offsetX, plan, window)))
  return (
    <div class="lanes" ref={frame} aria-hidden="true">
      <canvas ref={lanes} style={{ width: `${width}px`, height: `${plan.height}px` }} />
      {cursor >= plan.left && <div class="cursor" style={{ transform: `translateX(${cursor}px)` }} />}
      <div
        class="surface"
        onWheel={zoom}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          drag.current = { from: placeInSight(event.offsetX, plan, window), chooses: event.shiftKey }
          if (!event.shiftKey) point(event)
        }}
        onPointerMove={(event) => {
          if (drag.current && !drag.current.chooses) point(event)
        }}
        onPointerUp={(event) => {
          const begun = drag.current
          drag.current = undefined
          if (!begun?.chooses) return
          const [from = 0, to = 1] = [begun.from, placeInSight(event.offsetX, plan, window)].sort(
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

/** Returns the place on the line of time that is at a place of the canvas: from 0 to 1, or beyond. */
const placeAt = (x: number, { left, width }: LanePlan, { from, to }: LaneWindow): number =>
  from + ((x - left) / (width - left - 8)) * (to - from)

/** The same within the part that is in sight. */
const placeInSight = (x: number, plan: LanePlan, window: LaneWindow): number =>
  Math.min(window.to, Math.max(window.from, placeAt(x, plan, window)))
