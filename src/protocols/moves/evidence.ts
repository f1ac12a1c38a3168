/** Evidence of an answer: the entries of the run's blackboard that it refers to by their keys. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import type { Claim } from './contradictions.ts'
import type { Answered } from './outputs.ts'
import { claimOf } from './positions.ts'

const CITED = /\[([^[\]\s]{1,256})\]/g // a key in brackets, within a text

const TOLERANCE = 1e-9

export class Evidence {
  readonly #confidence: ReadonlyMap<string, number>
  readonly #references: ReadonlyMap<string, readonly string[]>

  private constructor(confidence: ReadonlyMap<string, number>, answers: readonly Answered[]) {
    this.#confidence = confidence
    this.#references = new Map(answers.map((answer) => [answer.agent, referencesOf(answer)]))
  }

  /**
   * Reads the board. A reference counts as much as its entry's confidence. A reference to a key without a valid entry
   * counts nothing.
   */
  static async on({ blackboard }: Pick<OrchestratorContext, 'blackboard'>, answers: readonly Answered[]) {
    const entries = await blackboard.query()
    return new Evidence(new Map(entries.map(({ key, confidence }) => [key, confidence])), answers)
  }

  /** Returns the keys of a claim's evidence: those that its agents refer to, each once. */
  keysFor({ agents }: Claim): string[] {
    const keys = agents.flatMap((agent) => this.#references.get(agent) ?? [])
    return [...new Set(keys)].filter((key) => this.#confidence.has(key))
  }

  /** Returns the summed confidence of the entries of a claim's evidence. */
  weightOf(claim: Claim): number {
    return this.keysFor(claim).reduce((sum, key) => sum + (this.#confidence.get(key) ?? 0), 0)
  }

  /** Returns the claims with the most evidence. There must be at least one claim. */
  strongest(claims: readonly Claim[]): Claim[] {
    const top = Math.max(...claims.map((claim) => this.weightOf(claim)))
    return claims.filter((claim) => this.weightOf(claim) >= top - TOLERANCE)
  }
}

/**
 * Returns the keys that an answer refers to: the list `references` in its data, otherwise the keys in brackets in its
 * content.
 */
function referencesOf(answer: Answered): string[] {
  const claim = claimOf(answer)
  const listed = isObject(claim) && 'references' in claim ? claim.references : undefined
  if (Array.isArray(listed)) return listed.filter((key) => typeof key === 'string')
  return [...answer.message.content.matchAll(CITED)].map(([, key = '']) => key)
}
