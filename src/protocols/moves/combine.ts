/** Combines the outcomes of several agents into one result, in one of four ways. */
import type { OrchestratorContext, Outcome } from '../../actors/definition/context/context.ts'
import type { ScriptResult } from '../../actors/definition/protocol.ts'
import { ReplyInvalidError, shown } from '../../errors.ts'
import { type ConflictRule, conflictsAmong, conflictsAsData, withConflicts } from './conflicts.ts'
import { statementOf } from './contradictions.ts'
import { pickBest, synthesize } from './judge.ts'
import { lastWord } from './last-word.ts'
import { type Answered, asData, asText, resultOf } from './outputs.ts'
import { type Resolution, resolveConflict } from './resolve-conflict.ts'

export type Combination =
  | { by: 'merge'; rule: ConflictRule; judge: string | undefined }
  | { by: 'vote'; resolution: Resolution }
  | { by: 'best'; judge: string }
  | { by: 'custom'; aggregator: string | Aggregator }

/** Aggregator function of the user. It runs in the host, and also gets the failed and the late agents. */
type Aggregator = (outcomes: Outcome[], orchestrator: OrchestratorContext) => string | Promise<string>

/** Returns one result for the outcomes. `answers` are the successful ones, at least one. */
export async function combine(
  orchestrator: OrchestratorContext,
  query: string,
  outcomes: readonly Outcome[],
  answers: readonly [Answered, ...Answered[]],
  how: Combination,
): Promise<ScriptResult> {
  switch (how.by) {
    case 'merge': {
      const { rule, judge } = how
      const conflicts = await conflictsAmong(orchestrator, query, answers.map(statementOf), how)
      if (conflicts.length === 0 || rule !== 'synthesize' || judge === undefined)
        return withConflicts(asText(answers), conflicts)
      return resultOf(await synthesize(orchestrator, judge, query, answers))
    }
    case 'vote':
      return resolveConflict(orchestrator, query, answers, how.resolution)
    case 'best': {
      const best = answers.length === 1 ? answers[0] : await pickBest(orchestrator, how.judge, query, answers)
      const reason = answers.length === 1 ? 'No other agent answered.' : `"${how.judge}" chose it of ${answers.length}.`
      orchestrator.decide('Which answer is the best?', best.agent, reason)
      return resultOf(best)
    }
    case 'custom': {
      const { aggregator } = how
      if (typeof aggregator === 'function') return checkedText(await aggregator([...outcomes], orchestrator))
      const told = { rule: undefined, judge: undefined }
      const conflicts = await conflictsAmong(orchestrator, query, answers.map(statementOf), told)
      const content = `${query}\n\n${withConflicts(asText(outcomes), conflicts)}`
      const structuredData = { ...asData(outcomes), ...conflictsAsData(conflicts) }
      const message = await lastWord(orchestrator, aggregator, content, { structuredData })
      return resultOf({ agent: aggregator, message })
    }
  }
}

function checkedText(text: unknown): string {
  if (typeof text === 'string') return text
  throw new ReplyInvalidError(`The aggregator returned ${shown(text)}; it has to return a text.`)
}
