/** Picture of a large team: a field for each pair of agents, by how much one has sent the other and who waits. */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { grouped, span } from '../../../figures.ts'
import type { Deadlock } from '../../pictures/deadlocks.ts'
import { type MatrixLayout, matrixLayout, pairAt } from '../../pictures/matrix-layout.ts'
import { recentFlow } from '../../pictures/team-flow.ts'
import { coloursOf, onColours } from '../parts/canvas.ts'
import { Words } from '../parts/words.tsx'
import { live, now, version } from '../state/live.ts'
import { goTo } from '../state/place.ts'
import { paintMatrix } from './matrix-painter.ts'

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
    const picture = { agents, fold, flow: recentFlow(fold, now.peek()), deadlock, selected, pointed }
    paintMatrix(canvas.current!, picture, layout.current, coloursOf(frame.current!))
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

/** Says what is between two agents. */
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
