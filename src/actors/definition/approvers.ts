/** People who may approve the call of a tool. */

export const APPROVERS = ['others', 'caller', 'anybody'] as const

/**
 * 'others': not the caller of the run. 'caller': the caller of the run alone, who confirms what is done for him.
 * 'anybody': both. A run without a caller is approved by whoever may approve.
 */
export type Approvers = (typeof APPROVERS)[number]

/** Says which calls of a tool need approval, and whose. */
export interface ApprovalPolicy<Value = unknown> {
  /** Checks whether a call needs approval. Default: each call does. */
  when?: (input: Value) => boolean
  /** Default: 'others'. */
  by?: Approvers
}
