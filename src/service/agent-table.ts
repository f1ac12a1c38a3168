/** The agents of a team as lines of a table: name, state, turns done, what waits in the mailbox, restarts. */
import type { Health } from '../index.ts'

const HEAD = ['agent', 'state', 'turns', 'queued', 'in flight', 'restarts'] as const

/**
 * One line for each agent, below a head. Lines are cut off at `width`. Where they are more than `height`, the agents
 * that have nothing to do give way and are counted.
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
  if (all.length > shown.length) lines.push(`and ${all.length - shown.length} more`)
  return lines.map((line) => line.trimEnd().slice(0, Math.max(1, width)))
}

/** The agents that fit, those that have something to do before all others, in the order in which they were given. */
function busyFirst<Entry extends [string, Health['agents'][string]]>(all: Entry[], room: number): Entry[] {
  const isBusy = ([, { status, queued, inFlight }]: Entry) => status !== 'idle' || queued + inFlight > 0
  const chosen = new Set([...all.filter(isBusy), ...all.filter((entry) => !isBusy(entry))].slice(0, room))
  return all.filter((entry) => chosen.has(entry))
}
