/** The screen of `dramatis top`: draws what is known of a team again and again, and acts on keys. */
import { emitKeypressEvents, type Key } from 'node:readline'
import { own } from '../../shared/values.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import { failureWords } from '../shared/failure.ts'
import { redrawOn } from '../shared/redraw.ts'
import type { Screen } from '../shared/screen.ts'
import type { TeamSource } from './source.ts'
import { orderedAgents, processLines, SORTS, type TopState, topLines } from './top-view.ts'
import { type ProgressOf, SeenSubtasks, workLines } from './work.ts'

export type Keys = NodeJS.ReadableStream & { isTTY?: boolean; setRawMode?(raw: boolean): unknown }

const FRAME_MS = 250
const MOST_ROWS = 50_000

interface Surroundings {
  source: TeamSource
  /** Teams that Tab leads to. */
  others?: readonly TeamSource[]
  screen: Screen
  keys: Keys
  signal: AbortSignal
  now?: () => number
}

/** Shows the team until somebody presses q or Ctrl-C, or `signal` is aborted. Rejects if the team cannot be reached. */
export async function showTop({
  source: first,
  others = [],
  screen,
  keys,
  signal,
  now = Date.now,
}: Surroundings): Promise<void> {
  let fold = new DigestFold({ mostRows: MOST_ROWS })
  const sources = [first, ...others]
  let source = first
  let watching = new AbortController()
  const update = redrawOn(screen)
  const state: TopState = { view: 'agents', sort: 'trouble', selected: undefined, note: '' }
  const over = new AbortController()
  const end = () => {
    over.abort()
    watching.abort()
  }
  const nextTeam = () => {
    if (sources.length === 1) return
    source = sources[(sources.indexOf(source) + 1) % sources.length] ?? source
    fold = new DigestFold({ mostRows: MOST_ROWS })
    seen = new SeenSubtasks()
    Object.assign(state, { view: 'agents', selected: undefined, note: `${source.team} ...` })
    watching.abort()
  }
  signal.addEventListener('abort', end, { once: true })
  let seen = new SeenSubtasks()
  const progressOf: ProgressOf = (agent) => source.progress(agent)
  const draw = () => {
    // Leaves a column and a row free: a terminal that is full to the last cell scrolls.
    const size = { width: (screen.columns ?? 80) - 1, height: (screen.rows ?? 24) - 1 }
    const team = sources.length > 1 && source.team !== undefined && { team: source.team }
    if (fold.lines === 0) return
    const cluster = source.cluster?.()
    const isOfCluster = cluster !== undefined || fold.processes.length > 0
    const more = {
      tasks: () => workLines(fold, size.width, now(), progressOf, seen),
      processes: () => processLines(fold, cluster, now()),
    }
    const lines = own(more, state.view)?.() ?? []
    update(topLines(fold, { ...state, ...team, isOfCluster }, size, now(), lines).join('\n'))
  }
  const move = (by: number) => {
    const names = orderedAgents(fold, state.sort).map(({ name }) => name)
    const at = names.indexOf(state.selected ?? '')
    state.selected = names[Math.min(names.length - 1, Math.max(0, at + by))]
  }
  const restart = async (agent: string) => {
    state.note = `${agent} is restarted ...`
    try {
      await source.restart(agent)
      state.note = `${agent} was restarted`
    } catch (error) {
      state.note = failureWords(error)
    }
    draw()
  }
  const act: Readonly<Record<string, () => void>> = {
    q: end,
    tab: nextTeam,
    s: () => {
      state.sort = SORTS[(SORTS.indexOf(state.sort) + 1) % SORTS.length]!
    },
    t: () => {
      state.view = state.view === 'tasks' ? 'agents' : 'tasks'
    },
    w: () => {
      state.view = state.view === 'waits' ? 'agents' : 'waits'
    },
    p: () => {
      state.view = state.view === 'processes' ? 'agents' : 'processes'
    },
    d: () => {
      state.view = state.view === 'letters' ? 'agents' : 'letters'
    },
    r: () => {
      if (state.selected !== undefined) void restart(state.selected)
      else state.note = 'mark an agent first: arrow keys'
    },
    return: () => {
      if (state.selected !== undefined) state.view = 'agent'
    },
    escape: () => {
      state.view = 'agents'
    },
    up: () => move(-1),
    down: () => move(1),
    k: () => move(-1),
    j: () => move(1),
  }
  const press = (_text: string | undefined, { name = '', ctrl }: Key) => {
    if (ctrl && name === 'c') return end()
    state.note = ''
    own(act, name)?.()
    draw()
  }
  emitKeypressEvents(keys)
  keys.setRawMode?.(true)
  keys.on('keypress', press)
  keys.resume()
  const frames = setInterval(draw, FRAME_MS)
  try {
    do {
      watching = new AbortController()
      const of = fold
      for await (const line of source.watch(watching.signal)) {
        of.read(line)
        if (line.call && of === fold) seen.look(fold.agents.keys(), progressOf)
        if (of.lines === 1) {
          state.note = ''
          draw()
        }
      }
    } while (watching.signal.aborted && !over.signal.aborted)
  } finally {
    clearInterval(frames)
    signal.removeEventListener('abort', end)
    keys.off('keypress', press)
    keys.setRawMode?.(false)
    keys.pause()
    draw()
    update.done()
  }
}
