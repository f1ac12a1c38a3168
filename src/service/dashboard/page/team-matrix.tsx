/** Picture of a large team: a field for each pair of agents, by how much one has sent the other and who waits. */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { recentFlow } from '../pictures/team-flow.ts'
import { coloursOf, drawingOf, onColours } from './canvas.ts'
import { live, now, version } from './live.ts'
import { goTo } from './place.ts'
import { shown } from './words.tsx'

/** Senders are rows, recipients are columns. The table below has the agents in words. */
export function TeamMatrix({ agents }: { agents: readonly string[] }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [pointed, setPointed] = useState('')
  const [repaints, setRepaints] = useState(0)
  const shownVersion = version.value
  useEffect(() => onColours(() => setRepaints((count) => count + 1)), [])
  useEffect(() => {
    paint(canvas.current!, agents)
  }, [shownVersion, agents.length, repaints])
  const fieldAt = (event: MouseEvent): [string, string] | undefined => {
    const { width, height } = canvas.current!.getBoundingClientRect()
    const from = agents[Math.floor((event.offsetY / height) * agents.length)]
    const to = agents[Math.floor((event.offsetX / width) * agents.length)]
    return from !== undefined && to !== undefined ? [from, to] : undefined
  }
  return (
    <div class="matrix">
      <canvas
        ref={canvas}
        aria-hidden="true"
        onMouseMove={(event) => setPointed(fieldAt(event)?.map(shown).join(' → ') ?? '')}
        onClick={(event) => {
          const agent = fieldAt(event)?.[0]
          if (agent !== undefined) goTo({ agent })
        }}
      />
      <p class="dim">{pointed || 'Rows send, columns receive. Amber waits; the darker, the more messages.'}</p>
    </div>
  )
}

function paint(canvas: HTMLCanvasElement, agents: readonly string[]): void {
  const size = Math.min(canvas.parentElement!.clientWidth, canvas.parentElement!.clientHeight - 30)
  canvas.style.width = `${size}px`
  canvas.style.height = `${size}px`
  const drawing = drawingOf(canvas, size, size)
  const colours = coloursOf(canvas.parentElement!)
  const cell = size / agents.length
  const places = new Map(agents.map((name, at) => [name, at]))
  const fold = live()
  drawing.fillStyle = colours.raised
  drawing.fillRect(0, 0, size, size)
  drawing.fillStyle = colours.accent
  const fill = (from: string, to: string) => {
    const [row, column] = [places.get(from), places.get(to)]
    if (row !== undefined && column !== undefined)
      drawing.fillRect(column * cell, row * cell, Math.max(1, cell - 0.5), Math.max(1, cell - 0.5))
  }
  for (const { from, to, count } of recentFlow(fold, now.peek())) {
    drawing.globalAlpha = Math.min(1, 0.35 + Math.log2(count) * 0.12)
    fill(from, to)
  }
  drawing.globalAlpha = 1
  drawing.fillStyle = colours.wait
  for (const { agent, for: subjects } of fold.waits) for (const to of subjects) if (agent !== null) fill(agent, to)
}
