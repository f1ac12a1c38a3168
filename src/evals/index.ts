/** `dramatis/evals`: a team measured by cases: gates, scores with intervals, comparisons with earlier reports. */
export {
  answers,
  asked,
  askedPeople,
  called,
  exact,
  gate,
  handedTo,
  inOrder,
  type Matching,
  matches,
  noAlarms,
  notCalled,
  sameJson,
  scorer,
  similar,
  type Times,
  within,
} from './gates.ts'
export { describeEval, evalRun, expectRun } from './harness.ts'
export { type JudgeLabel, type JudgeOptions, type JudgeTrust, judge } from './judge.ts'
export { evalText, junitXml } from './report.ts'
export { type EvalOptions, type EvalReport, runEval } from './run-eval.ts'
export type { SeedsReport, Spread } from './seeds.ts'
export type { Agreement, Comparison, Interval } from './statistics.ts'
export {
  type CaseResult,
  defineEval,
  type EvalAnswer,
  type EvalCase,
  type EvalRun,
  type EvalSuite,
  type Gate,
  type Score,
  type Scorer,
  type ToolCalled,
} from './suite.ts'
export type { CompleteOptions, ScorerContext } from './suite-models.ts'
