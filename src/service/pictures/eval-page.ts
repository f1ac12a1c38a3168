/** Reports of suites as one page of HTML: without a script, and without anything from elsewhere. */
import type { CaseResult, EvalReport, Interval } from '../../evals/index.ts'
import { trustText } from '../../evals/report.ts'
import { meanOf } from '../../evals/statistics.ts'
import { visible } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'

const LONGEST_TEXT = 4_000
/** Width of a letter on an arrow. */
const LETTER_PX = 6.7
/** Cases that are shown in full: those that failed or differ come first. */
const MOST_CASES = 200
const MOST_ROWS = 40
const MOST_ACTORS = 12

/** Markup that is safe as it stands. */
class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Html | string | number | false | null | undefined | readonly Part[]

/** Returns markup in which all that is put in is a text, unless it is markup: strangers have written most of it. */
const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html =>
  new Html(strings.reduce((all, piece, at) => all + markupOf(parts[at - 1]) + piece))

function markupOf(part: Part): string {
  if (part instanceof Html) return part.text
  if (Array.isArray(part)) return part.map(markupOf).join('')
  return visible(part === false || part == null ? '' : String(part), '\n\t').replaceAll(
    /[&<>"']/g,
    (sign) => `&#${sign.charCodeAt(0)};`,
  )
}

/** Play of a case. `seed`: that of its schedule, if it had one. */
export interface PlayOfCase {
  readonly case: string
  readonly repeat: number
  readonly seed?: number | undefined
}

/** Report for the page, and the one that it was compared with. */
export interface ShownReport {
  readonly report: EvalReport
  readonly before?: EvalReport | undefined
  /** Returns the commands that rehearse a play of a case. */
  again(of: PlayOfCase): string
}

export function evalPage(all: readonly ShownReport[]): string {
  const title = all.map(({ report: { name, verdict } }) => `${name}: ${verdict}`).join(', ')
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
${all.map(suiteOf)}
</main>
</body>
</html>
`.text
}

function suiteOf({ report, before, again }: ShownReport): Html {
  const { name, verdict, reasons, notes, gates, tokens, money, results } = report
  const all = casesOf(report, before)
  const shown = all.slice(0, MOST_CASES)
  const known = [`${all.length} cases`, `${results.length} runs`, `${tokens} tokens`]
  if (money !== null) known.push(`${money} in money`)
  return html`<section>
<h1><span class="${verdict}">${verdict}</span> ${name}</h1>
<p class="quiet">${known.join(' · ')}</p>
${reasons.length > 0 && html`<ul class="reasons">${reasons.map((reason) => html`<li>${cut(reason)}</li>`)}</ul>`}
${notes.map((note) => html`<p class="quiet">${cut(note)}</p>`)}
<h2>Scores</h2>
${scoresOf(report, before)}
<h2>Gates</h2>
<table class="gates">${Object.entries(gates).map(
    ([gate, { held, of, first }]) =>
      html`<tr><td class="${held === of ? 'passed' : 'failed'}">${held === of ? 'ok' : 'FAIL'}</td><td>${gate}</td><td class="number">${held} of ${of}</td><td class="quiet">${first === null ? '' : cut(first)}</td></tr>`,
  )}</table>
<h2>Cases</h2>
${shown.map((each) => caseOf(each, again))}
${all.length > shown.length && html`<p class="quiet">${all.length - shown.length} more cases are left out: those that failed or differ most come first.</p>`}
</section>`
}

function scoresOf({ scores, judges, compared }: EvalReport, before: EvalReport | undefined): Html {
  const rows = Object.entries(scores).map(([scorer, now]) => {
    const change = own(compared ?? {}, scorer)
    const old = before && own(before.scores, scorer)
    const trust = own(judges, scorer)
    return html`<tr>
<th scope="row">${scorer}${trust && html`<div class="${trust.trusted ? 'quiet' : 'broken'}">${trustText(trust)}</div>`}</th>
<td class="picture">${bars(now, old)}</td>
<td>${shownScore(now)}${old && html`<div class="quiet">before ${shownScore(old)}</div>`}
${
  change &&
  html`<div>difference ${signed(change.difference)} (95 %: ${signed(change.low)} to ${signed(change.high)}, p ${change.p.toFixed(3)})</div>
${change.smallest !== null && html`<div class="quiet">a difference of ${change.smallest.toFixed(3)} would have been seen in 80 %</div>`}`
}</td></tr>`
  })
  return rows.length === 0 ? html`<p class="quiet">None.</p>` : html`<table>${rows}</table>`
}

const shownScore = ({ mean, low, high, n }: Interval): string =>
  `${mean.toFixed(3)} (95 %: ${low.toFixed(3)} to ${high.toFixed(3)}, ${n} cases)`

const signed = (value: number): string => `${value < 0 ? '' : '+'}${value.toFixed(3)}`

function bars(now: Interval, old: Interval | undefined): Html {
  const bar = ({ mean, low, high }: Interval, y: number, name: string) =>
    html`<line x1="${10 + low * 200}" x2="${10 + high * 200}" y1="${y}" y2="${y}" class="${name}"/><circle cx="${10 + mean * 200}" cy="${y}" r="4" class="${name}"/>`
  const height = old ? 36 : 24
  return html`<svg viewBox="0 0 220 ${height}" width="220" height="${height}" role="img" aria-label="${shownScore(now)}">
<line x1="10" x2="210" y1="${height - 4}" y2="${height - 4}" class="axis"/>${[0, 0.5, 1].map((at) => html`<line x1="${10 + at * 200}" x2="${10 + at * 200}" y1="${height - 7}" y2="${height - 1}" class="axis"/>`)}
${old && bar(old, 20, 'old')}${bar(now, 10, 'now')}</svg>`
}

/** A case with one of its plays, the first that failed, and one before. */
interface ShownCase {
  readonly id: string
  readonly now: CaseResult
  readonly old: CaseResult | undefined
  readonly failed: number
  readonly plays: number
  /** Mean difference of the scores that both have. */
  readonly change: number
}

/** Returns the cases: those that failed come first, then those that differ most from before. */
function casesOf(report: EvalReport, before: EvalReport | undefined): ShownCase[] {
  const older = byCase(before)
  const cases = [...byCase(report)].map(([id, plays]): ShownCase => {
    const failed = plays.filter(hasFailed)
    const old = older.get(id)
    return {
      id,
      now: failed[0] ?? plays[0]!,
      old: old && (old.find(hasFailed) ?? old[0]),
      failed: failed.length,
      plays: plays.length,
      change: old ? changeOf(old, plays) : 0,
    }
  })
  return cases.sort((a, b) => Number(b.failed > 0) - Number(a.failed > 0) || Math.abs(b.change) - Math.abs(a.change))
}

function byCase(report: EvalReport | undefined): Map<string, CaseResult[]> {
  const cases = new Map<string, CaseResult[]>()
  for (const result of report?.results ?? []) {
    const { id } = result.run.case
    cases.set(id, [...(cases.get(id) ?? []), result])
  }
  return cases
}

const hasFailed = ({ gates }: CaseResult): boolean => Object.values(gates).some((wrong) => wrong !== null)

function changeOf(old: readonly CaseResult[], now: readonly CaseResult[]): number {
  const [before, after] = [meansIn(old), meansIn(now)]
  const changes = [...after].flatMap(([scorer, mean]) => (before.has(scorer) ? mean - before.get(scorer)! : []))
  return changes.length === 0 ? 0 : meanOf(changes)
}

function meansIn(plays: readonly CaseResult[]): Map<string, number> {
  const all = new Map<string, number[]>()
  for (const { scores } of plays)
    for (const [scorer, { score }] of Object.entries(scores))
      if (score !== null) all.set(scorer, [...(all.get(scorer) ?? []), score])
  return new Map([...all].map(([scorer, values]) => [scorer, meanOf(values)]))
}

function caseOf({ id, now, old, failed, plays, change }: ShownCase, again: ShownReport['again']): Html {
  const isOther = old !== undefined && (Math.abs(change) > 1e-9 || hasFailed(old) !== hasFailed(now))
  const state = failed > 0 ? 'failed' : 'passed'
  const { input, expected, tags } = now.run.case
  const notes = [failed > 0 && `failed in ${failed} of ${plays}`, isOther && `score ${signed(change)}`]
  return html`<details${new Html(failed > 0 || isOther ? ' open' : '')}>
<summary><span class="${state}">${failed > 0 ? 'FAIL' : 'ok'}</span> ${id} <span class="quiet">${notes.filter(Boolean).join(', ')} ${tags.join(' ')}</span></summary>
<dl><dt>input</dt><dd><pre>${cut([input].flat().join('\n\n'))}</pre></dd>
${expected !== undefined && html`<dt>expected</dt><dd><pre>${cut(textOf(expected))}</pre></dd>`}</dl>
<div class="sides">
${isOther ? [side('before', old), side('now', now)] : side('', now)}
</div>
${failed > 0 && html`<p>Make it a rehearsal:</p><pre class="command">${again({ case: id, repeat: now.run.repeat, seed: now.run.seed })}</pre>`}
</details>`
}

function side(name: string, { run, gates, scores }: CaseResult): Html {
  const wrong = Object.entries(gates).filter(([, text]) => text !== null)
  const graded = Object.entries(scores).filter(([, { score }]) => score !== null)
  const calls = run.calls.map(
    ({ agent, tool, input, output, error }) => `${agent}.${tool}(${textOf(input)}) = ${error ?? textOf(output)}`,
  )
  const asked = run.questions.map(({ agent, text, answer }) => `${agent}: ${text} = ${answer ?? 'no answer'}`)
  return html`<div class="side">${name !== '' && html`<h3>${name}</h3>`}
${wrong.length > 0 && html`<ul class="reasons">${wrong.map(([gate, text]) => html`<li>${gate}: ${cut(text ?? '')}</li>`)}</ul>`}
<pre>${run.output === null ? `${run.error?.code ?? 'FAILED'}: ${run.error?.message ?? 'no answer'}` : cut(run.output)}</pre>
${graded.length > 0 && html`<ul>${graded.map(([scorer, { score, why }]) => html`<li>${scorer}: ${score?.toFixed(3)}${why === undefined ? '' : `, ${cut(why)}`}</li>`)}</ul>`}
${calls.length > 0 && html`<p class="quiet">Tools</p><ul>${calls.slice(0, MOST_ROWS).map((call) => html`<li><code>${cut(call, 300)}</code></li>`)}</ul>`}
${asked.length > 0 && html`<p class="quiet">Questions to people</p><ul>${asked.map((each) => html`<li>${cut(each, 300)}</li>`)}</ul>`}
${diagram(run.messages)}</div>`
}

/** Draws the messages of a run from top to bottom, each an arrow between its agents. */
function diagram(messages: CaseResult['run']['messages']): Html {
  const names = [...new Set(messages.flatMap(({ from, to }) => [from, ...to]))].slice(0, MOST_ACTORS)
  const rows = messages.slice(0, MOST_ROWS)
  if (rows.length === 0) return html``
  const [column, row, top] = [126, 34, 46]
  const x = (name: string) => column / 2 + Math.max(0, names.indexOf(name)) * column
  const [width, height] = [names.length * column, top + rows.length * row + 8]
  const lanes = names.map(
    (name) =>
      html`<line x1="${x(name)}" x2="${x(name)}" y1="30" y2="${height}" class="lane"/><rect x="${x(name) - 57}" y="4" width="114" height="26" rx="4" class="actor"/><text x="${x(name)}" y="21">${label(name, 15)}</text>`,
  )
  const arrows = rows.flatMap(({ from, to, type, content }, at) =>
    (to.length === 0 ? names.filter((name) => name !== from) : to).map((other) => {
      const [begin, end, y] = [x(from), x(other), top + at * row + 18]
      const [back, side] = [end < begin ? 7 : -7, type === 'response' ? 'answer' : 'asks']
      const middle = (begin + end) / 2
      const most = Math.max(column, Math.abs(end - begin)) / LETTER_PX - 1
      return html`<path d="M${begin} ${y}H${end}" class="${side}"/><path d="M${end + back} ${y - 4}L${end} ${y}L${end + back} ${y + 4}" class="asks"/><text x="${middle}" y="${y - 5}" class="words">${label(content === '' ? type : content, most)}</text>`
    }),
  )
  const left = messages.length - rows.length
  return html`<div class="scrolls"><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="Messages between ${names.join(', ')}">${lanes}${arrows}</svg></div>
${left > 0 && html`<p class="quiet">${left} more messages are left out.</p>`}`
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

const label = (text: string, most: number): string => cut(text.replaceAll(/\s+/g, ' '), most)

const cut = (text: string, most = LONGEST_TEXT): string =>
  text.length > most ? `${text.slice(0, Math.floor(most) - 1)}…` : text

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d8de, #3a3f47); --quiet: light-dark(#5a626e, #9aa3af); --good: light-dark(#19703a, #62c787); --bad: light-dark(#b3261e, #ff8a80); --warn: light-dark(#8a5a00, #e0b050); --now: light-dark(#2457c5, #84a9ff); }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 1200px; margin: 0 auto; padding: 16px; }
h1 { font-size: 22px; margin: 24px 0 0; } h2 { font-size: 17px; margin: 24px 0 8px; } h3 { font-size: 15px; margin: 0 0 8px; }
.passed { color: var(--good); } .failed { color: var(--bad); } .broken { color: var(--warn); } .quiet { color: var(--quiet); font-size: 13px; font-weight: normal; }
p { margin: 8px 0; } ul { margin: 8px 0; padding-left: 20px; } .reasons { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: 6px 12px 6px 0; border-top: 1px solid var(--line); } .number, .gates td:first-child, .gates td:nth-child(2) { white-space: nowrap; } .gates td:last-child { width: 100%; }
details { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; margin: 8px 0; } summary { cursor: pointer; font-weight: 600; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 4px 12px; } dt { color: var(--quiet); } dd { margin: 0; min-width: 0; }
code { font: 13px/1.45 ui-monospace, monospace; } pre { margin: 0; white-space: pre-wrap; font: 13px/1.45 ui-monospace, monospace; max-height: 20em; overflow: auto; unicode-bidi: plaintext; }
.command { border: 1px solid var(--line); border-radius: 4px; padding: 8px; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 12px; } .side { border-top: 1px solid var(--line); padding-top: 8px; min-width: 0; }
.scrolls { overflow-x: auto; margin-top: 8px; }
svg { display: block; } svg text { font: 12px ui-monospace, monospace; fill: currentColor; text-anchor: middle; } svg .words { font-size: 11px; fill: var(--quiet); }
.axis, .lane { stroke: var(--line); } .actor { fill: none; stroke: var(--quiet); } .asks, .answer { fill: none; stroke: var(--now); } .answer { stroke-dasharray: 4 3; }
line.now, line.old { stroke-width: 3; stroke: var(--now); } circle.now { fill: var(--now); } line.old { stroke: var(--quiet); } circle.old { fill: var(--quiet); }
@media (max-width: 700px) { .gates td:nth-child(2) { white-space: normal; } td, th { display: block; border: 0; padding: 2px 0; } .gates td { display: inline; padding-right: 8px; } tr { display: block; border-top: 1px solid var(--line); padding: 6px 0; } dl { grid-template-columns: 1fr; } }
`
