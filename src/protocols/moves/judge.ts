/** Steps in which one agent decides over the answers of the others. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { ReplyInvalidError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { JUDGE } from '../prompts/judge.ts'
import { speaking } from '../prompts/prompts.ts'
import { type LastWords, lastWord } from './last-word.ts'
import { type Answered, asData, asText } from './outputs.ts'

const say = speaking(JUDGE, undefined)

/**
 * Returns the answer that the judge finds best. The judge names its agent in `structuredData.best`, otherwise in its
 * content.
 *
 * @throws {ReplyInvalidError} when the judge names no agent, or several.
 */
export async function pickBest(
  orchestrator: Pick<OrchestratorContext, 'request'>,
  judge: string,
  query: string,
  answers: readonly Answered[],
): Promise<Answered> {
  const names = answers.map(({ agent }) => agent)
  const content = say('best', { names: names.join(', '), query, answers: asText(answers) })
  const reply = await orchestrator.request(judge, content, { structuredData: asData(answers) })
  const best = named(reply, names)
  const chosen = answers.find(({ agent }) => agent === best)
  if (chosen) return chosen
  const accepted = `one of ${names.join(', ')}, in structuredData.best or as the only such name in its words`
  const message = `The judge "${judge}" did not choose: it has to name ${accepted}.`
  throw new ReplyInvalidError(message, { agent: judge, content: reply.content, accepted: names })
}

/** Returns the judge's own answer, made from answers that differ. */
export async function synthesize(
  orchestrator: LastWords,
  judge: string,
  query: string,
  answers: readonly Answered[],
): Promise<Answered> {
  const content = say('synthesize', { query, answers: asText(answers) })
  const message = await lastWord(orchestrator, judge, content, { structuredData: asData(answers) })
  return { agent: judge, ok: true, message }
}

function named({ content, structuredData }: AgentMessage, names: readonly string[]): unknown {
  if (typeof structuredData === 'object' && structuredData !== null && 'best' in structuredData)
    return structuredData.best
  const words = new Set<string>(content.match(/[\p{L}\p{M}\p{Nd}_-]+/gu)) // the characters that a name may have
  const found = names.filter((name) => words.has(name))
  return found.length === 1 ? found[0] : undefined
}
