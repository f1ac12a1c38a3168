/** Event loops that have no time left: what comes to them waits, and no heartbeat says so in time. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { busyLoops, type Loop, loopSeconds } from '../../pictures/busy-loops.ts'
import { Words } from '../parts/words.tsx'
import { askText } from '../state/service.ts'
import { team } from '../state/session.ts'

/** Time between two looks at the metrics, while the view is open. */
const LOOK_MS = 3_000

/** Returns the loops that were busy between the last two looks. */
export function useBusyLoops(): readonly Loop[] {
  const [loops, setLoops] = useState<readonly Loop[]>([])
  useEffect(() => {
    let before: ReturnType<typeof loopSeconds> | undefined
    const look = async () => {
      const after = loopSeconds(await askText('metrics'), team.peek())
      setLoops(before ? busyLoops(before, after) : [])
      before = after
    }
    const quietly = () => void look().catch(() => setLoops([])) // the banner says that nobody answers
    quietly()
    const timer = setInterval(quietly, LOOK_MS)
    return () => clearInterval(timer)
  }, [team.value])
  return loops
}

const MOST_SHOWN = 20

export function BusyLoops({ loops }: { loops: readonly Loop[] }): JSX.Element {
  return (
    <>
      {loops.slice(0, MOST_SHOWN).map(({ agent, busy }) => (
        <article key={agent ?? ''} class="trouble" aria-label="slow event loop">
          <header class="row">
            <span class="mark waiting">
              <span aria-hidden="true">◷</span> slow event loop
            </span>
            <strong>{agent === null ? 'host' : <Words text={agent} most={200} />}</strong>
            <span class="dim">{Math.round(busy * 100)} % busy, now</span>
          </header>
          <p>
            {agent === null
              ? 'All agents wait for the host. Look for what computes in tools that run in it, or in your service.'
              : 'Its messages wait while its code computes. Move that into a tool of a thread, or let it pause.'}
          </p>
        </article>
      ))}
    </>
  )
}
