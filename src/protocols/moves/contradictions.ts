/** Finds the claims in which the answers of several agents contradict each other. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import { CONFLICT } from '../prompts/conflict.ts'
import { speaking } from '../prompts/prompts.ts'
import { askFor } from './ask-for.ts'
import { type Answered, asData, asText } from './outputs.ts'
import { claimOf, isSame } from './positions.ts'

/** Value that agents claim, with the names of these agents. */
export interface Claim {
  value: unknown
  agents: string[]
}

/** Different claims about one subject, in the order in which they were made. */
export interface Contradiction {
  about: string
  claims: Claim[]
}

/** Returns the claim of an answer: its data without `references`, or its content. */
export function statedIn(answer: Answered): unknown {
  const claim = claimOf(answer)
  if (!isObject(claim)) return claim
  const { references: _references, ...rest }: { references?: unknown } = claim
  return rest
}

/**
 * Returns all claims of the answers, key by key. undefined: one of the answers is not an object, so there are no keys
 * to compare.
 */
export function claimsByKey(answers: readonly Answered[]): Map<string, Claim[]> | undefined {
  const byKey = new Map<string, Claim[]>()
  for (const answer of answers) {
    const stated = statedIn(answer)
    if (!isObject(stated)) return undefined
    for (const [key, value] of Object.entries(stated)) {
      const claims = byKey.get(key) ?? []
      byKey.set(key, claims)
      add(claims, value, answer.agent)
    }
  }
  return byKey
}

/** Returns the claims of the answers, each answer as a whole. */
export function wholeClaims(answers: readonly Answered[]): Claim[] {
  const claims: Claim[] = []
  for (const answer of answers) add(claims, statedIn(answer), answer.agent)
  return claims
}

function add(claims: Claim[], value: unknown, agent: string): void {
  const same = claims.find((claim) => isSame(claim.value, value))
  if (!same) claims.push({ value, agents: [agent] })
  else if (!same.agents.includes(agent)) same.agents.push(agent)
}

/**
 * Returns the statements of texts that contradict each other, as the judge finds them.
 *
 * @throws {ReplyInvalidError} when the judge's answer twice does not match the schema.
 */
export async function contradictionsIn(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'request'>,
  judge: string,
  query: string,
  answers: readonly Answered[],
): Promise<Contradiction[]> {
  const content = speaking(CONFLICT, undefined)('find', { query, answers: asText(answers) })
  const { contradictionsAmong } = await import('./answer-forms.ts')
  const schema = contradictionsAmong(answers.map(({ agent }) => agent))
  const { value } = await askFor(orchestrator, judge, content, schema, { structuredData: asData(answers) })
  const found = value.contradictions.map((contradiction) => {
    const claims: Claim[] = []
    for (const one of contradiction.statements) add(claims, one.statement, one.agent)
    return { about: contradiction.about, claims }
  })
  return found.filter(({ claims }) => claims.length > 1)
}
