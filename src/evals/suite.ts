/** Suites of cases by which a team is measured: what users write, and its checks. */
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ModelsConfig } from '../runtime/providers/provider.ts'
import type { RunOptions } from '../runtime/runs/run.ts'
import { modelsShape } from '../runtime/settings/team-shape.ts'
import { callingFile, PLACE } from '../shared/calling-file.ts'
import {
  anyObject,
  type Check,
  integer,
  isObject,
  listOf,
  number,
  refused,
  refusedAs,
  rule,
  shape,
  text,
} from '../shared/checks.ts'
import { ConfigurationError, describe } from '../shared/errors.ts'
import type { MultiAgentPatternOptions } from '../team.ts'
import { type ScorerContext, type ScorerTape, SuiteModels } from './suite-models.ts'

/**
 * Cases by which a team is measured. The default export of a file for `dramatis eval` is one, or a list of them.
 *
 * @example
 * export default defineEval({
 *   team,
 *   cases: [{ input: 'My invoice is wrong.', expected: { category: 'billing' } }],
 *   gates: [called('refund', { times: { max: 1 } }), noAlarms()],
 *   scorers: [{ scorer: sameJson({ only: ['/category'] }), atLeast: 0.9 }],
 *   repeats: 5,
 * })
 */
export interface EvalSuite<Expected = unknown> {
  /** Default: "suite". */
  name?: string
  /** Options of the team, which each case has of its own, without a durable log. A function is called for each. */
  team: MultiAgentPatternOptions<string> | (() => MultiAgentPatternOptions<string>)
  /** Cases in code, or the path of a file with a case of JSON in each line, from the folder of the suite's file. */
  cases: readonly EvalCase<Expected>[] | string
  /** Gates of every repeat of every case. */
  gates?: readonly Gate[]
  /** Scorers of the answers. `atLeast`: the suite fails below it; the lower end of the interval counts. */
  scorers?: readonly (Scorer | { scorer: Scorer; atLeast: number })[]
  /** How often each case is played. Default: 1. */
  repeats?: number
  /** Number of cases at a time. Default: 4. */
  concurrency?: number
  /** Limit of all runs together, in tokens and in money of the team's prices. Beyond it the suite is broken. */
  budget?: { tokens?: number; money?: number }
  /** Options of each run. */
  run?: Omit<RunOptions<unknown>, 'runId' | 'threadId' | 'signal'>
  /** Models that judges and scorers ask, by name, as in the options of a team. Default: that of the environment. */
  models?: ModelsConfig
}

/** Task or conversation for a team. */
export interface EvalCase<Expected = unknown> {
  /** Default: its place, from 1 on. */
  id?: string
  /** A message, or those of a conversation in one thread. */
  input: string | readonly string[]
  /** Answer that is wanted, for scorers. */
  expected?: Expected
  /** Answers to questions: the first that fits is taken, none is taken twice. A question without one fails the case. */
  answers?: readonly EvalAnswer[]
  tags?: readonly string[]
  /** Gates of this case alone. */
  gates?: readonly Gate[]
}

/** Answer to the question of an agent, or of a call of a tool. `by`: id of the person who gives it. */
export interface EvalAnswer {
  tool?: string
  agent?: string
  answer: string | { approved: boolean; input?: unknown; reason?: string }
  by?: string
}

/** Condition that a run has to meet. */
export interface Gate {
  readonly name: string
  /** Returns the sentence of what is wrong, or null. */
  check(run: EvalRun): string | null | Promise<string | null>
}

/** Measure of a run. */
export interface Scorer {
  readonly name: string
  score(run: EvalRun, context: ScorerContext): Score | Promise<Score>
}

/** 0 to 1; true is 1, false is 0; null: not for this case. */
export type Score = number | boolean | { score: number; why?: string } | null

/** Account of one play of a case: plain JSON. */
export interface EvalRun {
  readonly case: {
    readonly id: string
    readonly input: string | readonly string[]
    readonly expected?: unknown
    readonly tags: readonly string[]
  }
  /** From 1 on. */
  readonly repeat: number
  /** Schedule in which its tape was played, and what went wrong there, in ms since its begin (`seeds`). */
  readonly seed?: number
  readonly faults?: readonly { readonly fault: string; readonly agent: string; readonly atMs: number }[]
  readonly success: boolean
  /** Answer to the last message of the case. */
  readonly output: string | null
  readonly data: unknown
  readonly error: { readonly code: string; readonly message: string } | null
  /** Agent whose words the answer is. */
  readonly speaker: string | null
  readonly messages: readonly {
    readonly from: string
    readonly to: readonly string[]
    readonly type: string
    readonly content: string
  }[]
  readonly calls: readonly ToolCalled[]
  readonly models: readonly {
    readonly agent: string
    readonly model: string
    readonly tokens: number
    readonly ms: number
    readonly error: string | null
  }[]
  readonly handoffs: readonly { readonly from: string; readonly to: string }[]
  readonly questions: readonly {
    readonly agent: string
    readonly kind: 'ask' | 'approval'
    readonly text: string
    readonly answer: string | null
  }[]
  readonly alarms: readonly { readonly type: 'deadlock' | 'livelock' | 'stall' | 'slow'; readonly sentence: string }[]
  readonly deadLetters: number
  readonly tokens: number
  /** In the currency of the team's prices; null without prices. */
  readonly money: number | null
  readonly ms: number
}

/** Outcome of one play of a case. */
export interface CaseResult {
  readonly run: EvalRun
  /** Sentences of what is wrong, by the names of the gates; null: it holds. */
  readonly gates: Readonly<Record<string, string | null>>
  /** 0 to 1; null: not for this case. */
  readonly scores: Readonly<Record<string, { readonly score: number | null; readonly why?: string }>>
}

export interface ToolCalled {
  readonly agent: string
  readonly tool: string
  readonly input: unknown
  readonly output: unknown
  readonly error: string | null
  readonly ms: number
}

/** A suite whose options have been checked, and its cases read. */
export interface ReadySuite {
  readonly name: string
  readonly team: () => MultiAgentPatternOptions<string>
  readonly cases: readonly ReadyCase[]
  readonly gates: readonly Gate[]
  readonly scorers: readonly { readonly scorer: Scorer; readonly atLeast: number | undefined }[]
  readonly repeats: number
  readonly concurrency: number
  readonly budget: { readonly tokens?: number; readonly money?: number }
  readonly run: Omit<RunOptions<unknown>, 'runId' | 'threadId' | 'signal'>
  readonly models: SuiteModels
  /** Folder in which its files are looked for. */
  readonly folder: string
}

export type ReadyCase = EvalCase & { readonly id: string; readonly tags: readonly string[] }

/**
 * Returns the suite, and remembers the file that calls it: there its file of cases is looked for.
 *
 * @throws ConfigurationError that names the option, what came and what is accepted.
 */
export function defineEval<Expected>(suite: EvalSuite<Expected>): EvalSuite<Expected> {
  checkSuite(suite, 'suite')
  const file = callingFile()
  return file === undefined ? suite : Object.assign({ ...suite }, { [PLACE]: file })
}

const gate = methodsOf<Gate>('a gate, such as called("refund")', 'check')
const scorer = methodsOf<Scorer>('a scorer, such as exact()', 'score')

function methodsOf<T>(accepted: string, method: keyof T & string): Check {
  return rule(
    accepted,
    (value) => isObject(value) && 'name' in value && typeof Reflect.get(value, method) === 'function',
  )
}

const checkAnswer = shape<EvalAnswer>(
  {
    tool: text,
    agent: text,
    answer: rule(
      'a text, or { approved: true or false }',
      (given) => typeof given === 'string' || (isObject(given) && typeof Reflect.get(given, 'approved') === 'boolean'),
    ),
    by: text,
  },
  'answer',
)

export const isInput = (value: unknown): boolean =>
  (typeof value === 'string' && value !== '') ||
  (Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string' && each !== ''))

export const checkCase = shape<EvalCase>(
  {
    id: text,
    input: rule('a text, or a list of the texts of a conversation', isInput),
    expected: () => {},
    answers: listOf(checkAnswer),
    tags: listOf(text),
    gates: listOf(gate),
  },
  'input',
)

const suiteModels: Check = (value, path) => {
  if (value === 'rehearsal') throw refused(path, value, 'an object with at least one model by its name')
  modelsShape(value, path)
}

const checkSuite = shape<EvalSuite>(
  {
    name: text,
    team: rule(
      'the options of a team, or a function that returns them',
      (team) => isObject(team) || typeof team === 'function',
    ),
    cases: (value, path) => (typeof value === 'string' ? undefined : listOf(checkCase)(value, path)),
    gates: listOf(gate),
    scorers: listOf((value, path) =>
      isObject(value) && 'scorer' in value
        ? shape<{ scorer: Scorer; atLeast: number }>(
            { scorer, atLeast: number(0, 1) },
            'scorer',
            'atLeast',
          )(value, path)
        : scorer(value, path),
    ),
    repeats: integer(1, 1_000),
    concurrency: integer(1, 1_000),
    budget: shape({ tokens: integer(1), money: number(0, Number.MAX_VALUE) }),
    run: anyObject,
    models: suiteModels,
  },
  'team',
  'cases',
)

/**
 * Checks a suite and reads its cases. `folder`: where its file of cases is; by default, that of the suite's file.
 * `tape`: has the answers of scorers.
 */
export function readSuite(suite: EvalSuite, folder?: string, tape?: ScorerTape): ReadySuite {
  checkSuite(suite, 'suite')
  const { name = 'suite', team, gates = [], scorers = [], repeats = 1, concurrency = 4, budget = {}, run = {} } = suite
  const beside = folder ?? folderOf(suite)
  const cases = entriesOf<EvalCase>(suite.cases, beside, 'suite.cases', checkCase)
  const named = scorers.map((each) => ('scorer' in each ? each : { scorer: each, atLeast: undefined }))
  assertUnlike(
    'scorers',
    named.map((each) => each.scorer.name),
  )
  const ready = cases.map((each, at) => ({ ...each, id: each.id ?? `${at + 1}`, tags: each.tags ?? [] }))
  assertUnlike(
    'cases',
    ready.map(({ id }) => id),
  )
  if (ready.length === 0) throw refusedAs('suite.cases', 'no case', 'at least one')
  return {
    name,
    team: typeof team === 'function' ? team : () => team,
    cases: ready,
    gates,
    scorers: named,
    repeats,
    concurrency,
    budget,
    run,
    models: new SuiteModels(suite.models, beside, tape),
    folder: beside,
  }
}

function folderOf(suite: EvalSuite): string {
  const place: unknown = Reflect.get(suite, PLACE)
  if (typeof place !== 'string') return process.cwd()
  return dirname(place.startsWith('file:') ? fileURLToPath(place) : place)
}

/** Reports name cases and scorers. */
function assertUnlike(option: 'cases' | 'scorers', names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw refused(`suite.${option}`, twice, 'names that differ', `"${twice}" is there twice.`)
}

/** Returns entries that are given in code, or by the path of a file that has one of JSON in each line. */
export function entriesOf<T>(given: readonly T[] | string, folder: string, option: string, check: Check): readonly T[] {
  if (typeof given !== 'string') return given
  const path = resolve(folder, given)
  return linesOf(path, option).flatMap((line, at) => {
    if (line.trim() === '') return []
    const where = `${path}, line ${at + 1}`
    let value: unknown
    try {
      value = JSON.parse(line)
    } catch (error) {
      throw new ConfigurationError(
        `${where}: ${describe(error)}. Each line is an object in JSON, such as a case: {"input": "..."}.`,
        {
          path,
        },
      )
    }
    check(value, where)
    return [value as T]
  })
}

function linesOf(path: string, option: string): string[] {
  try {
    return readFileSync(path, 'utf8').split(/\r?\n/)
  } catch (error) {
    throw new ConfigurationError(`${option}: ${path} cannot be read: ${describe(error)}.`, { path }, error)
  }
}
