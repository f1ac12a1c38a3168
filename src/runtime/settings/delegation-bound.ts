/** How deeply delegations may be nested, each made in a turn that the one before has led to. Supervision rule 21. */
export interface DelegationBound {
  readonly limit: number
  /** What an error calls it. */
  readonly name: string
  /** What sets it to that, for the error's text. */
  readonly why: string
}

/** In every team. A strategy may set less. */
export const MAX_DELEGATION_DEPTH = 8

export const DELEGATION_BOUND: DelegationBound = {
  limit: MAX_DELEGATION_DEPTH,
  name: 'maxDelegationDepth',
  why: `maxDelegationDepth is ${MAX_DELEGATION_DEPTH}`,
}
