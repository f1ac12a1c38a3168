/** Evidence of an answer: the entries of the run's blackboard that it refers to by their keys. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import type { Claim, Statement } from './contradictions.ts'

const CITED = /\[([^[\]\s]{1,256})\]/g // a key in brackets, within a text

const TOLERANCE = 1e-9

export class Evidence {
  readonly #confidence: ReadonlyMap<string, number>
  readonly #references: ReadonlyMap<string, readonly string[]>

  private constructor(confidence: ReadonlyMap<string, number>, statements: readonly Statement[]) {
    this.#confidence = confidence
    this.#references = new Map(statements.map((statement) => [statement.agent, referencesOf(statement)]))
  }

  /**
   * Reads the board. A reference counts as much as its entry's confidence. A reference to a key without a valid entry
   * counts nothing.
   */
  static async on({ blackboard }: Pick<OrchestratorContext, 'blackboard'>, statements: readonly Statement[]) {
    const entries = await blackboard.query()
    return new Evidence(new Map(entries.map(({ key, confidence }) => [key, confidence])), statements)
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
 * Returns the keys that a statement refers to: the list `references` in its data, otherwise the keys in brackets in its
 * text.
 */
function referencesOf({ value, text }: Statement): string[] {
  const listed = isObject(value) && 'references' in value ? value.references : undefined
  if (Array.isArray(listed)) return listed.filter((key) => typeof key === 'string')
  return [...text.matchAll(CITED)].map(([, key = '']) => key)
}
