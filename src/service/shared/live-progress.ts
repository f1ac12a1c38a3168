/**
 * Progress on a terminal: a table of the agents that is drawn over itself ten times a second, and above it what should
 * stay to be read: crashes, dead letters, the log.
 */
import type { Health } from '../../index.ts'
import { eventLines, isTrouble } from './event-lines.ts'
import { redrawOn } from './redraw.ts'
import type { Progress, Screen, Watched } from './screen.ts'

type Entry = [name: string, Health['agents'][string]]

const HEAD = ['agent', 'state', 'turns', 'queued', 'in flight', 'restarts'] as const

/**
 * Returns a head and a line for each agent. Lines are cut off at `width`. If there are more than `height`, idle agents
 * are left out, and one line sums them up.
 */
export function agentTable(
  agents: Health['agents'],
  turns: ReadonlyMap<string, number>,
  { width, height }: { width: number; height: number },
): string[] {
  const all = Object.entries(agents).filter(([name]) => !name.startsWith('$'))
  const room = Math.max(1, all.length + 1 > height ? height - 2 : all.length)
  const shown = all.length > room ? busyFirst(all, room) : all
  const rows = shown.map(([name, { status, queued, inFlight, restarts }]) =>
    [name, status, turns.get(name) ?? 0, queued, inFlight, restarts].map(String),
  )
  const widths = HEAD.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)))
  const lines = [HEAD, ...rows].map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '))
  const hidden = all.filter((entry) => !shown.includes(entry))
  if (hidden.length > 0) lines.push(sumOf(hidden, turns))
  return lines.map((line) => line.trimEnd().slice(0, Math.max(1, width)))
}

function sumOf(agents: Entry[], turns: ReadonlyMap<string, number>): string {
  const states = new Map<string, number>()
  for (const [, { status }] of agents) states.set(status, (states.get(status) ?? 0) + 1)
  const sum = (value: (entry: Entry) => number) => agents.reduce((total, entry) => total + value(entry), 0)
  const figures = [
    `turns ${sum(([name]) => turns.get(name) ?? 0)}`,
    `queued ${sum(([, { queued }]) => queued)}`,
    `in flight ${sum(([, { inFlight }]) => inFlight)}`,
    `restarts ${sum(([, { restarts }]) => restarts)}`,
  ]
  const inStates = [...states].map(([status, count]) => `${count} ${status}`)
  return `and ${agents.length} more: ${inStates.join(', ')}; ${figures.join(', ')}`
}

/** The agents that fit, those that have something to do before all others, in the order in which they were given. */
function busyFirst(all: Entry[], room: number): Entry[] {
  const isBusy = ([, { status, queued, inFlight }]: Entry) => status !== 'idle' || queued + inFlight > 0
  const chosen = new Set([...all.filter(isBusy), ...all.filter((entry) => !isBusy(entry))].slice(0, room))
  return all.filter((entry) => chosen.has(entry))
}

const FRAME_MS = 100

export function liveProgress(screen: Screen): Progress {
  const update = redrawOn(screen)
  const turns = new Map<string, number>()
  const lineOf = eventLines()
  let watched: Watched | undefined
  let stop = () => {}

  let waiting = ''
  let shownInFrame = false

  const draw = () => {
    if (!watched) return
    // Leaves a column and a row free: a terminal that is full to the last cell scrolls.
    const size = { width: (screen.columns ?? 80) - 1, height: (screen.rows ?? 24) - 1 }
    update(agentTable(watched.health().agents, turns, size).join('\n'))
  }
  // At once, but once a frame: whoever prints in a loop must not keep the host busy with drawing.
  const show = () => {
    if (waiting !== '') {
      shownInFrame = true
      if (watched) update.clear()
      screen.write(waiting.replace(/\n?$/, '\n'))
      waiting = ''
    }
    draw()
  }
  const print = (text: string) => {
    waiting += text
    if (!watched || !shownInFrame) show()
  }
  const frame = () => {
    shownInFrame = false
    show()
  }
  return {
    print,
    watch(team) {
      watched = team
      const subscription = team.events.subscribe((event) => {
        if (event.type === 'turn.finished') turns.set(event.agent, (turns.get(event.agent) ?? 0) + 1)
        const line = lineOf(event)
        if (line !== undefined && isTrouble(event)) print(`${line}\n`)
      })
      const frames = setInterval(frame, FRAME_MS).unref()
      stop = () => {
        clearInterval(frames)
        subscription.unsubscribe()
        show()
        update.done()
        watched = undefined
        stop = () => {}
      }
      draw()
    },
    end: () => stop(),
  }
}
