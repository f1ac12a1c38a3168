/** `dramatis eval [files]`: suites of cases, with gates, scores and a comparison with an earlier report. */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type EvalReport, evalText, junitXml, runEval } from '../../evals/index.ts'
import { casesOf, drop } from '../../evals/log-cases.ts'
import { type EvalOptions, isReport } from '../../evals/run-eval.ts'
import { checkCase, type EvalSuite, readSuite } from '../../evals/suite.ts'
import { type RecordedRun, type RecordedStatus, recordedRuns } from '../../runtime/views/recorded-runs.ts'
import { isObject, refused } from '../../shared/checks.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { quoted } from '../../shared/text.ts'
import { evalPage, type PlayOfCase, type ShownReport } from '../pictures/eval-page.ts'
import { type LogAt, logsAt } from '../shared/cluster-url.ts'
import { EXIT, untilInterrupt } from '../shared/failure.ts'
import { jsonText } from '../shared/json-text.ts'
import { environmentRedactor, loadDefault } from '../shared/load-team-file.ts'
import type { Surroundings } from './run.ts'

export interface EvalFlags {
  against?: string
  margin?: number
  alpha?: number
  repeats?: number
  case?: readonly string[]
  tag?: readonly string[]
  record?: string
  playback?: string
  seeds?: number | readonly number[]
  faults?: string
  /** Only that repeat. */
  repeat?: number
  junit?: string
  json?: string
  html?: string
}

/** Plays the suites and resolves to the exit code: 1 if one has failed, 2 if one is broken. */
export async function evaluate(
  files: readonly string[],
  { against, junit, json, html, case: cases, tag: tags, repeat, record, playback, faults, ...flags }: EvalFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const suites = (await Promise.all(files.map((file) => suitesIn(file, folder)))).flat()
  const before = against === undefined ? [] : await earlier(against, folder)
  if (before.length > 0 && before.length !== suites.length)
    throw new ConfigurationError(`--against has ${before.length} suites; the files have ${suites.length}.`, { against })
  const only = { ...(cases && { cases }), ...(tags && { tags }), ...(repeat !== undefined && { repeat }) }
  const tapes = {
    ...(record !== undefined && { record: resolve(folder, record) }),
    ...(playback !== undefined && { playback: resolve(folder, playback) }),
    ...(faults !== undefined && { faults: faultsIn(faults) }),
  }
  const names = suites.map(({ suite: { name = 'suite' } }) => name)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined && (record ?? playback) !== undefined)
    throw new ConfigurationError(`--record, --playback: two suites are named "${twice}". Tapes go by their names.`, {})
  return untilInterrupt(
    (text) => void stderr.write(text),
    async (signal) => {
      const reports: EvalReport[] = []
      const shown: ShownReport[] = []
      for (const [at, { suite, file, folder: from }] of suites.entries()) {
        const other = before[at]
        // The others of a file have other cases.
        if (cases && suites.length > 1 && !hasCase(suite, from, cases)) continue
        const options = { ...flags, ...tapes, only, folder: from, signal }
        // The page shows the answers of an earlier suite, too. With tapes it is refused.
        const isReady = other && (isReport(other) || (record ?? playback) !== undefined)
        const against = isReady ? other : other && (await runEval(other, options))
        const report = await runEval(suite, { ...options, ...(against && { against }) })
        const playing = { file, record, playback, faults }
        await answer.write(redactor.text(`${evalText(report)}${rehearsalText(report, playing)}`))
        reports.push(redactor.data(report))
        shown.push({
          report: redactor.data(report),
          before: isReport(against) ? redactor.data(against) : undefined,
          again: (of) => redactor.text(commandsOf(of, playing).join('\n')),
        })
      }
      if (reports.length === 0) throw refused('only.cases', cases?.[0], 'ids of cases of the suites')
      if (html !== undefined) writeFileSync(resolve(folder, html), evalPage(shown))
      if (json !== undefined) writeFileSync(resolve(folder, json), jsonText(reports))
      if (junit !== undefined) writeFileSync(resolve(folder, junit), junitXml(reports))
      const has = (verdict: EvalReport['verdict']) => reports.some((report) => report.verdict === verdict)
      return has('broken') ? EXIT.usage : has('failed') ? EXIT.failed : EXIT.done
    },
  )
}

/** Checks whether a suite has one of the cases. */
const hasCase = (suite: EvalSuite, folder: string, cases: readonly string[]): boolean =>
  readSuite(suite, folder).cases.some(({ id }) => cases.includes(id))

const faultsIn = (list: string) => list.split(',').map((name) => name.trim()) as NonNullable<EvalOptions['faults']>

type Playing = { file: string } & { [Flag in 'record' | 'playback' | 'faults']: string | undefined }

/** Says by which command the first case that failed is played again, through many schedules, or in the worst one. */
function rehearsalText({ results, seeds }: EvalReport, playing: Playing): string {
  const failed = results.find(({ gates }) => Object.values(gates).some((wrong) => wrong !== null))
  const of = seeds ? seeds.worst : failed && { case: failed.run.case.id, repeat: failed.run.repeat }
  if (!of || (seeds && seeds.plays === 1)) return ''
  const again = commandsOf(of, playing).map((command) => `    ${command}\n`)
  if ('seed' in of) return `  Play the worst, seed ${of.seed} of case "${of.case}", alone:\n${again.join('')}`
  return `  Rehearse case "${of.case}":\n${again.join('')}`
}

/** Returns the command that rehearses a play of a case, behind the one that makes its tape if it has none. */
function commandsOf(of: PlayOfCase, { file, record, playback, faults }: Playing): string[] {
  const tapes = playback ?? record ?? 'tapes'
  const hasTape = of.seed !== undefined || (record ?? playback) !== undefined
  const again = [
    `npx dramatis rehearse ${quoted(file)} --case ${quoted(of.case)} --playback ${quoted(tapes)}`,
    ...(of.repeat > 1 && hasTape ? [`--repeat ${of.repeat}`] : []),
    ...(of.seed === undefined ? [] : [`--seed ${of.seed}`]),
    ...(of.seed !== undefined && faults !== undefined ? [`--faults ${quoted(faults)}`] : []),
  ].join(' ')
  return hasTape
    ? [again]
    : [`npx dramatis eval ${quoted(file)} --case ${quoted(of.case)} --record ${quoted(tapes)}`, again]
}

interface Found {
  readonly suite: EvalSuite
  /** As it was named. */
  readonly file: string
  /** Folder of the file, where its cases are looked for. */
  readonly folder: string
}

async function suitesIn(file: string, folder: string): Promise<Found[]> {
  const { path, exported } = await loadDefault(file, folder, 'Eval file')
  const suites = [exported].flat()
  if (suites.length > 0 && suites.every((suite) => isObject(suite) && 'cases' in suite))
    return suites.map((suite) => ({ suite: suite as EvalSuite, file, folder: dirname(path) }))
  throw new ConfigurationError(
    `Eval file "${file}" exports no suite. Write: export default defineEval({ team, cases })`,
    { file },
  )
}

/** Returns earlier reports, or suites to play first. */
async function earlier(file: string, folder: string): Promise<(EvalReport | EvalSuite)[]> {
  if (!file.endsWith('.json')) return (await suitesIn(file, folder)).map(({ suite }) => suite)
  let reports: unknown
  try {
    reports = JSON.parse(readFileSync(resolve(folder, file), 'utf8'))
  } catch (error) {
    throw new ConfigurationError(`--against ${file} cannot be read: ${describe(error)}.`, { file }, error)
  }
  const all = [reports].flat()
  if (all.length > 0 && all.every(isReport)) return all
  throw new ConfigurationError(`--against ${file} is no report: give what --json has written.`, { file })
}

export interface EvalCasesFlags extends LogAt {
  status?: RecordedStatus
  tenant?: string
  tag?: readonly string[]
  drop?: readonly string[]
}

/** Prints a case in JSON for each run of a log, and resolves to the exit code. Rejects if there is no such log. */
export async function evalCases(
  { status = 'finished', tenant, tag: tags, drop: pointers = [], ...place }: EvalCasesFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const wrong = pointers.find((pointer) => !/^\/[^/]/.test(pointer))
  if (wrong !== undefined)
    throw new ConfigurationError(`--drop: "${wrong}" is no JSON pointer, such as /expected/email.`, { pointer: wrong })
  const redactor = environmentRedactor(folder)
  const runs: RecordedRun[] = []
  for (const { read } of (await logsAt(place, folder)).logs) runs.push(...(await recordedRuns(read)).runs)
  const { cases, left } = casesOf(runs, { status, tenant, tags })
  for (const each of cases) {
    const shown = structuredClone(redactor.fields(each))
    for (const pointer of pointers) drop(shown, pointer)
    checkCase(shown, `case "${each.id}", by --drop`)
    await answer.write(`${JSON.stringify(shown)}\n`)
  }
  if (left.length > 0)
    stderr.write(`Left out: ${left.length} runs that ask an agent alone, or with more than a text.\n`)
  if (cases.length === 0) stderr.write('No run of the log is wanted.\n')
  return EXIT.done
}
