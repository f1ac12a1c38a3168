/**
 * A run as one HTML page without scripts, which needs nothing else: to keep, and to send to somebody. What it has is
 * what the dashboard shows of a run, with the messages.
 */

import { SEQ_STEP } from '../../runtime/log/records.ts'
import { span } from '../../runtime/views/slow.ts'
import { grouped, visible } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import type { DigestFold } from '../digest/digest-fold.ts'
import type { Task } from '../http/schemas.ts'
import { type RunStory, storyOf } from '../pictures/run-story.ts'
import { nameOf, wordsOfRow } from '../pictures/run-words.ts'

class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Value = Html | readonly Html[] | string | number | undefined

/** Characters that are not seen, and are needed: lines, tabs, wide spaces, the looks of emoji. */
const KEPT = '\n\t\u00a0\u3000\ufe0f'
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Makes HTML of a template. Characters that are not seen, or that change the order of others, are written out. */
function html({ raw }: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(raw.reduce((made, part, at) => `${made}${markupOf(values[at - 1])}${part}`))
}

function markupOf(value: Value): string {
  if (value === undefined) return ''
  if (value instanceof Html) return value.text
  if (typeof value === 'object') return value.map(({ text }) => text).join('')
  return visible(String(value), KEPT).replaceAll(/[&<>"']/g, (character) => own(ENTITIES, character)!)
}

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
function lanesOf(story: RunStory): Html {
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

const STYLE = new Html(`
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif;
  --dim: light-dark(#565d65, #a1a9b2); --line: light-dark(#dcdcd6, #30353a); --bad: light-dark(#b42121, #ff8a80);
  --turn: light-dark(#c3cde6, #3d4f78); --model: light-dark(#1f4fc9, #8db0ff); --tool: light-dark(#6f35a8, #cba6f7); }
body { max-width: 1100px; margin: 0 auto; padding: 16px; background: light-dark(#fff, #181b1e); color: light-dark(#1c2024, #e7e9eb); }
h1 { font-size: 20px; white-space: pre-wrap; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 24px 0 8px; }
dl { display: flex; flex-wrap: wrap; gap: 4px 24px; }
dt, dd { display: inline; margin: 0; }
dt { color: var(--dim); margin-right: 6px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0; font: inherit; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 3px 8px; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td:first-child, .rows td:nth-child(2), .figures td { white-space: nowrap; font-variant-numeric: tabular-nums; }
small, .dim, thead th { color: var(--dim); font-weight: normal; }
summary { cursor: pointer; }
.bad td, .bad p, .failed, .aborted { color: var(--bad); }
svg { width: 100%; } svg text { font-size: 12px; fill: currentColor; }
rect.turn { fill: var(--turn); } rect.failed { fill: var(--bad); } rect.model { fill: var(--model); } rect.tool { fill: var(--tool); }
rect.folded { fill: var(--line); opacity: 0.5; } line.trouble { stroke: var(--bad); stroke-width: 1.5; }
`)

export interface RunPage {
  readonly task: Task
  readonly fold: DigestFold
  /** Contents of messages, by the numbers of their events; those that the page has room for. */
  readonly contents: ReadonlyMap<number, string>
}

const MOST_ROWS = 5_000
/** Characters of a content that are shown. */
const MOST_SHOWN = 4_000

/** Returns the number by which the content of a message is found: of the entry that has it. */
export const entryOf = (seq: number): number => Math.floor(seq / SEQ_STEP)

export function runPage({ task, fold, contents }: RunPage): string {
  const story = storyOf(fold, task.endedAt === null ? fold.now : Date.parse(task.endedAt))
  const { usage, cost, money } = task
  const summary: [string, Html][] = [
    ['status', html`<strong class="${task.status}">${task.status}</strong>`],
    ['team', html`${task.team}`],
    ['task', html`<code>${task.id}</code>`],
    ['began', html`${task.createdAt}`],
    [
      'took',
      html`${task.endedAt === null ? 'it is not over' : span(Date.parse(task.endedAt) - Date.parse(task.createdAt))}`,
    ],
    ['messages', html`${grouped(fold.messages.length)}`],
    ['tokens', html`${grouped(usage.totalTokens)} in ${grouped(usage.calls)} calls`],
    ...(money ? [['money', html`${money.amount.toFixed(4)} ${money.currency}`] as [string, Html]] : []),
    ...(cost ? [['cost', html`about ${cost.estimate.toFixed(4)} by the prices given`] as [string, Html]] : []),
  ]
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${task.query.slice(0, 80)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${task.query}</h1>
<dl>${summary.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${task.error ? html`<section class="bad"><h2>Error</h2><p><code>${task.error.code}</code> ${task.error.detail}</p></section>` : undefined}
${task.answer === null ? undefined : html`<section><h2>Answer</h2><pre>${task.answer}</pre></section>`}
<section><h2>Agents</h2>${lanesOf(story)}
<p class="dim">Bars are turns, red ones failed; inside of them calls of models (blue) and of tools (violet). Red lines are what went wrong; grey stripes are folded time.</p>
${agentsOf(story)}</section>
<section><h2>What happened</h2>${rowsOf(story, contents)}</section>
</main>
</body>
</html>
`
  return page.text
}

function agentsOf({ fold, lanes }: RunStory): Html {
  const rows = lanes.map((name) => {
    const { turns, failedTurns, crashes, modelCalls, toolCalls, inputTokens, outputTokens } = fold.agent(name)
    const figures = [turns, failedTurns, crashes, modelCalls, toolCalls, inputTokens, outputTokens]
    return html`<tr><th scope="row">${name}</th>${figures.map((figure) => html`<td>${grouped(figure)}</td>`)}</tr>`
  })
  const titles = ['turns', 'failed', 'crashes', 'model calls', 'tool calls', 'tokens in', 'out']
  return html`<table class="figures"><thead><tr><th scope="col">agent</th>${titles.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead><tbody>${rows}</tbody></table>`
}

function rowsOf(story: RunStory, contents: ReadonlyMap<number, string>): Html {
  const count = Math.min(MOST_ROWS, story.rows.length)
  const rows = Array.from({ length: count }, (_, at) => rowOf(story, at, contents))
  const left = story.rows.length - count
  return html`<table class="rows"><thead><tr><th scope="col">after</th><th scope="col">kind</th><th scope="col">who</th><th scope="col">what</th></tr></thead><tbody>${rows}</tbody></table>
${left > 0 ? html`<p>${grouped(left)} more rows are not on this page: as=digest has them all.</p>` : undefined}`
}

function rowOf(story: RunStory, at: number, contents: ReadonlyMap<number, string>): Html {
  const { at: time, kind, who, what, isTrouble } = wordsOfRow(story, at)
  const row = story.rows[at]!
  const content = row < 0 ? undefined : contents.get(story.fold.messages.columns.n.at(row))
  const told =
    content === undefined
      ? html`${what}`
      : html`<details><summary>${firstLine(content)} <small>${what}</small></summary><pre>${cut(content)}</pre></details>`
  const after = Math.max(0, time - story.scale.from)
  return html`<tr class="${isTrouble ? 'bad' : ''}"><td>${(after / 1_000).toFixed(3)} s</td><td>${kind}</td><td>${nameOf(who)}</td><td>${told}</td></tr>
`
}

const firstLine = (content: string): string => {
  const [line = ''] = content.trimStart().split('\n', 1)
  if (line === '') return '(no text)'
  return line.length > 120 ? `${line.slice(0, 119)}…` : line
}

const cut = (content: string): string =>
  content.length > MOST_SHOWN
    ? `${content.slice(0, MOST_SHOWN)}… (${content.length - MOST_SHOWN} more characters)`
    : content
