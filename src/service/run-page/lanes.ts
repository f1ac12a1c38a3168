/** Lanes of a run as SVG: turns, calls and what went wrong by time, each lane an agent. */
import type { RunStory } from '../dashboard/pictures/run-story.ts'
import { type Html, html } from './html.ts'

const WIDTH = 1_000
const LEFT = 150
const LANE = 22
const MOST_LANES = 60

const TURN = 1
const FAILED = 2
const MODEL = 3
const TOOL = 4
const CLASSES: readonly string[] = ['', 'turn', 'failed', 'model', 'tool']

/** Returns the picture. Beyond 60 lanes the first ones are shown. */
export function lanesOf(story: RunStory): Html {
  const { fold, scale } = story
  const lanes = story.lanes.slice(0, MOST_LANES)
  const places = new Map(lanes.map((name, lane) => [fold.names.indexOf(name), lane]))
  const across = WIDTH - LEFT
  const turns = lanes.map(() => new Uint8Array(across))
  const calls = lanes.map(() => new Uint8Array(across))
  const fill = (of: Uint8Array[], agent: number, from: number, to: number, kind: number) => {
    const lane = of[places.get(agent) ?? -1]
    const begin = Math.floor(scale.placeOf(from) * (across - 1))
    lane?.fill(kind, begin, Math.max(begin, Math.floor(scale.placeOf(to) * (across - 1))) + 1)
  }
  const { columns: turn } = fold.turns
  for (let row = 0; row < turn.start.length; row++)
    fill(turns, turn.agent.at(row), turn.start.at(row), turn.end.at(row), turn.failed.at(row) > 0 ? FAILED : TURN)
  for (const { agent, from, to } of story.crashed) fill(turns, fold.names.indexOf(agent), from, to, FAILED)
  const { columns: call } = fold.calls
  for (let row = 0; row < call.start.length; row++)
    fill(calls, call.agent.at(row), call.start.at(row), call.end.at(row), call.kind.at(row) === 0 ? MODEL : TOOL)
  const height = LANE * Math.max(1, lanes.length)
  const x = (time: number) => LEFT + scale.placeOf(time) * (across - 1)
  const folds = scale.folded.map(
    ({ from, to }) =>
      html`<rect class="folded" x="${x(from)}" y="0" width="${Math.max(1, x(to) - x(from))}" height="${height}"/>`,
  )
  const troubles = story.troubles.map(
    (at) => html`<line class="trouble" x1="${x(at)}" x2="${x(at)}" y1="0" y2="${height}"/>`,
  )
  const rows = lanes.map((name, lane) => {
    const y = lane * LANE
    return html`<text x="0" y="${y + 15}">${name.length > 20 ? `${name.slice(0, 19)}…` : name}</text>${bars(turns[lane]!, y + 3, 16)}${bars(calls[lane]!, y + 8, 6)}`
  })
  return html`<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Turns and calls of the agents by time">${folds}${rows}${troubles}</svg>`
}

/** Returns a bar for each stretch of the same kind. */
function bars(lane: Uint8Array, y: number, height: number): Html[] {
  const made: Html[] = []
  for (let from = 0; from < lane.length; ) {
    const kind = lane[from]!
    let to = from + 1
    while (to < lane.length && lane[to] === kind) to++
    if (kind > 0)
      made.push(
        html`<rect class="${CLASSES[kind]}" x="${LEFT + from}" y="${y}" width="${to - from}" height="${height}"/>`,
      )
    from = to
  }
  return made
}
