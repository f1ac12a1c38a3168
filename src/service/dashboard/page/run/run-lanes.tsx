/** Lanes of a run as a picture: bars are turns, lines in them calls of models and tools, arrows messages. */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { RunStory } from '../../pictures/run-story.ts'
import { type Colours, coloursOf, onColours } from '../parts/canvas.ts'
import { type LanePlan, type LaneWindow, paintLanes, planOf, timeOf, xOf } from './lane-painter.ts'

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
      {window !== WHOLE && (
        <button type="button" class="whole" tabIndex={-1} onClick={() => setWindow(WHOLE)}>
          Whole run
        </button>
      )}
    </div>
  )
}

/** Returns the place on the line of time, from 0 to 1, that is at a place of the canvas. */
function scalePlace(x: number, { left, width }: LanePlan, { from, to }: LaneWindow): number {
  const share = Math.min(1, Math.max(0, (x - left) / (width - left - 8)))
  return from + share * (to - from)
}
