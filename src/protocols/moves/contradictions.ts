/** Finds the claims in which the answers of several agents contradict each other. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import { CONFLICT } from '../prompts/conflict.ts'
import { speaking } from '../prompts/prompts.ts'
import { askFor } from './ask-for.ts'
import { type Answered, resultOf } from './outputs.ts'
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

/** Checks that different agents claim it: an agent that makes several claims speaks of several things. */
export function isBetweenAgents({ claims }: Contradiction): boolean {
  const agents = claims.flatMap((claim) => claim.agents)
  return claims.length > 1 && new Set(agents).size === agents.length
}

/** Answer or result of an agent: its data, or else its text, and its words. */
export interface Statement {
  agent: string
  value: unknown
  text: string
}

export const statementOf = (answer: Answered): Statement => ({
  agent: answer.agent,
  value: claimOf(answer),
  text: resultOf(answer).content,
})

/** Returns the claim of a statement: its data without `references`, or its text. */
export function statedIn({ value }: Statement): unknown {
  if (!isObject(value)) return value
  const { references: _references, ...rest }: { references?: unknown } = value
  return rest
}

/**
 * Returns all claims of the statements, key by key. undefined: one of them is not an object, so there are no keys to
 * compare.
 */
export function claimsByKey(statements: readonly Statement[]): Map<string, Claim[]> | undefined {
  const byKey = new Map<string, Claim[]>()
  for (const statement of statements) {
    const stated = statedIn(statement)
    if (!isObject(stated)) return undefined
    for (const [key, value] of Object.entries(stated)) {
      const claims = byKey.get(key) ?? []
      byKey.set(key, claims)
      add(claims, value, statement.agent)
    }
  }
  return byKey
}

/** Returns the claims of the statements, each statement as a whole. */
export function wholeClaims(statements: readonly Statement[]): Claim[] {
  const claims: Claim[] = []
  for (const statement of statements) add(claims, statedIn(statement), statement.agent)
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
  statements: readonly Statement[],
): Promise<Contradiction[]> {
  const answers = statements.map(({ agent, text }) => `## ${agent}\n\n${text}`).join('\n\n')
  const content = speaking(CONFLICT, undefined)('find', { query, answers })
  const { contradictionsAmong } = await import('./answer-forms.ts')
  const schema = contradictionsAmong([...new Set(statements.map(({ agent }) => agent))])
  const outputs = statements.map(({ agent, value, text: content }) => {
    const structuredData = typeof value === 'string' ? null : (value ?? null)
    return { agent, ok: true, content, structuredData, error: null }
  })
  const { value } = await askFor(orchestrator, judge, content, schema, { structuredData: { outputs } })
  const found = value.contradictions.map((contradiction) => {
    const claims: Claim[] = []
    for (const one of contradiction.statements) add(claims, one.statement, one.agent)
    return { about: contradiction.about, claims }
  })
  return found.filter(({ claims }) => claims.length > 1)
}
