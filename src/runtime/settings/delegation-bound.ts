/**
 * Limit on the depth of nested delegations, each made in a turn that the previous one has led to. Supervision rule 21.
 */
export interface DelegationBound {
  readonly limit: number
  /** Name of the limit in an error. */
  readonly name: string
  /** Reason for the limit, for the text of an error. */
  readonly why: string
}

/** Limit of every team. A strategy may set less. */
export const MAX_DELEGATION_DEPTH = 8

/** Returns the bound that the option `maxDelegationDepth` of a strategy sets. */
export const depthBound = (limit: number): DelegationBound => ({
  limit,
  name: 'maxDelegationDepth',
  why: `maxDelegationDepth is ${limit}`,
})

export const DELEGATION_BOUND = depthBound(MAX_DELEGATION_DEPTH)
