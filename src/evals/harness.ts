/** Cases of suites as tests of vitest, node:test, jest or another runner. */
import { AssertionError } from 'node:assert'
import type { MultiAgentPatternOptions } from '../team.ts'
import { playCase } from './case-run.ts'
import { succeeded } from './gates.ts'
import { type EvalOptions, outcomesOf, playerOf } from './run-eval.ts'
import { type EvalCase, type EvalRun, type EvalSuite, type Gate, readSuite } from './suite.ts'

/**
 * Plays one case with a team of its own. `record`: keeps what models and tools answer in that folder; `playback`: the
 * tape there answers in their place. Rejects with `ConfigurationError` for options that no team can have, and with
 * `TapeMissError` for what the tape does not have.
 */
export async function evalRun(
  team: MultiAgentPatternOptions<string> | (() => MultiAgentPatternOptions<string>),
  input: string | EvalCase,
  { run = {}, ...tapes }: Pick<EvalOptions, 'record' | 'playback'> & { run?: NonNullable<EvalSuite['run']> } = {},
): Promise<EvalRun> {
  const suite = readSuite({ team, cases: [typeof input === 'string' ? { input } : input], run })
  const player = await playerOf(tapes, { repeats: 1 })
  return player.play(suite, suite.cases[0]!, 1)
}

/** Rejects with an AssertionError that says what is wrong by which gate, and what was seen. */
export async function expectRun(run: EvalRun, ...gates: readonly Gate[]): Promise<void> {
  const outcomes = Object.entries(await outcomesOf(run, [succeeded, ...gates]))
  const wrong = outcomes.flatMap(([gate, text]) => (text === null ? [] : [`${gate}: ${text}`]))
  if (wrong.length === 0) return
  const { output, calls, handoffs, questions, alarms } = run
  const seen = JSON.stringify({ output, calls, handoffs, questions, alarms }, null, 2)
  throw new AssertionError({ message: `${wrong.join('\n')}\nSeen: ${seen}`, stackStartFn: expectRun })
}

/**
 * Makes a test of each case, which holds where all gates do in all repeats. Scores are left to `runEval`.
 *
 * @example
 * import { describe, it } from 'node:test'
 * describeEval(suite, { describe, it })
 */
export function describeEval(
  suite: EvalSuite,
  {
    describe,
    it,
  }: { describe(name: string, body: () => void): unknown; it(name: string, body: () => Promise<void>): unknown },
): void {
  const ready = readSuite(suite)
  describe(ready.name, () => {
    for (const each of ready.cases)
      it(each.id, async () => {
        for (let repeat = 1; repeat <= ready.repeats; repeat++)
          await expectRun(await playCase(ready, each, repeat), ...ready.gates, ...(each.gates ?? []))
      })
  })
}
