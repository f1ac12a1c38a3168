/** Reports of suites: for a terminal, and in JUnit's XML. */
import { own } from '../shared/values.ts'
import type { JudgeTrust } from './judge.ts'
import type { EvalReport } from './run-eval.ts'
import { type Spread, turnText } from './seeds.ts'
import type { Comparison } from './statistics.ts'
import type { EvalRun } from './suite.ts'

const shown = (value: number): string => value.toFixed(3)

/** A report for a terminal. */
export function evalText({
  name,
  verdict,
  reasons,
  notes = [],
  scores,
  gates,
  judges,
  compared,
  tokens,
  money,
  results,
  seeds,
}: EvalReport): string {
  const cases = new Set(results.map(({ run }) => run.case.id)).size
  const lines = [
    `${name}: ${verdict} (${cases} cases, ${results.length} runs, ${tokens} tokens${money === null ? '' : `, ${money} in money`})`,
  ]
  for (const [gate, { held, of }] of Object.entries(gates))
    lines.push(`  ${held === of ? 'ok  ' : 'FAIL'} ${gate}: ${held} of ${of}`)
  for (const [scorer, { mean, low, high, n }] of Object.entries(scores)) {
    lines.push(`  ${scorer}: ${shown(mean)} (95 %: ${shown(low)} to ${shown(high)}, ${n} cases)`)
    const trust = own<JudgeTrust>(judges, scorer)
    if (trust) lines.push(`    ${trustText(trust)}`)
    const spread = seeds && own<Spread>(seeds.scores, scorer)
    if (spread) lines.push(`    ${spreadText(spread)}`)
    const before = own<Comparison>(compared ?? {}, scorer)
    if (!before) continue
    const { difference, low: least, high: most, p, smallest } = before
    const seen = smallest === null ? '' : `; a difference of ${shown(smallest)} would have been seen in 80 %`
    lines.push(
      `    before: ${difference < 0 ? '' : '+'}${shown(difference)} (95 %: ${shown(least)} to ${shown(most)}, p ${shown(p)})${seen}`,
    )
  }
  for (const scorer of new Set(results.flatMap((result) => Object.keys(result.scores))))
    if (!Object.hasOwn(scores, scorer)) lines.push(`  ${scorer}: no case has a score (null for all ${cases})`)
  if (seeds) lines.push(`  ${seeds.untaped} of ${seeds.asked} asks were not on the tapes`)
  const [alone] = results.length === 1 ? results : []
  if (alone) lines.push(...faultLines(alone.run))
  return `${[...lines, ...[...reasons, ...notes].map((each) => `  ${each}`)].join('\n')}\n`
}

const spreadText = ({ least, tenth, median, most }: Spread): string =>
  `all plays: least ${shown(least)}, tenth ${shown(tenth)}, median ${shown(median)}, most ${shown(most)}`

/** The faults of a play, and the calls of tools behind them. */
function faultLines({ faults = [], calls, seed }: EvalRun): string[] {
  if (seed === undefined) return []
  const called = calls.map(({ agent, tool, input }) => `  ${agent} called ${tool} with ${JSON.stringify(input)}`)
  return [
    ...faults.map(({ fault, agent, atMs }) => `  ${fault} of ${agent}, ${Math.round(atMs)} ms after the begin`),
    ...called,
  ]
}

/** Says how well a judge agrees with people. */
export function trustText({ trusted, kappa, low, high, labelled }: JudgeTrust): string {
  if (kappa === null) return 'untrusted: it has no labels, so it decides nothing'
  const seen = `kappa ${shown(kappa)} (95 %: ${shown(low ?? kappa)} to ${shown(high ?? kappa)}, ${labelled} labels)`
  return trusted ? `trusted: ${seen}` : `untrusted: ${seen}, so it decides nothing`
}

/** Reports as JUnit XML: a suite each, with a test for each play of a case. */
export function junitXml(reports: readonly EvalReport[]): string {
  const suites = reports.map(({ name, verdict, reasons, results }) => {
    const tests = results.map(({ run, gates }) => {
      const wrong = Object.entries(gates).flatMap(([gate, text]) => (text === null ? [] : [`${gate}: ${text}`]))
      const title = `${run.case.id}, ${turnText(run)}`
      const failure =
        wrong.length === 0 ? '' : `<failure message="${escaped(wrong[0]!)}">${escaped(wrong.join('\n'))}</failure>`
      return {
        isWrong: failure !== '',
        ms: run.ms,
        text: `<testcase classname="${escaped(name)}" name="${escaped(title)}" time="${run.ms / 1_000}">${failure}</testcase>`,
      }
    })
    const whole = verdict === 'broken' ? 'error' : 'failure'
    const message = escaped(reasons.join('\n'))
    const last = verdict === 'passed' ? '' : `<${whole} message="${verdict}">${message}</${whole}>`
    tests.push({
      isWrong: verdict === 'failed',
      ms: 0,
      text: `<testcase classname="${escaped(name)}" name="the suite" time="0">${last}</testcase>`,
    })
    const failures = tests.filter(({ isWrong }) => isWrong).length
    const seconds = tests.reduce((sum, { ms }) => sum + ms, 0) / 1_000
    return `<testsuite name="${escaped(name)}" tests="${tests.length}" failures="${failures}" errors="${verdict === 'broken' ? 1 : 0}" time="${seconds}">${tests.map(({ text }) => text).join('')}</testsuite>`
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>${suites.join('')}</testsuites>\n`
}

const NAMES = new Map(Object.entries({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\n': '&#10;' }))

/** XML 1.0 has no name for other control characters. */
const escaped = (text: string): string =>
  text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll(/[&<>"\n]/g, (sign) => NAMES.get(sign)!)
