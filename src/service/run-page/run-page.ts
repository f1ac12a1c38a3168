/**
 * A run as one HTML page without scripts, which needs nothing else: to keep, and to send to somebody. What it has is
 * what the dashboard shows of a run, with the messages.
 */
import { SEQ_STEP } from '../../runtime/log/records.ts'
import { type RunStory, storyOf } from '../dashboard/pictures/run-story.ts'
import { nameOf, wordsOfRow } from '../dashboard/pictures/run-words.ts'
import type { DigestFold } from '../digest/digest-fold.ts'
import { grouped, span } from '../figures.ts'
import type { Task } from '../http/schemas.ts'
import { type Html, html } from './html.ts'
import { lanesOf } from './lanes.ts'
import { STYLE } from './style.ts'

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
  const { usage, cost } = task
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
