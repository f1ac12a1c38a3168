/** Messages between the host and a thread of the sandbox. */

export type Task =
  | { kind: 'calculate'; expression: string }
  | { kind: 'convert'; value: string; from: string; to: string }
  /** `input` is JSON; `limitMs` bounds the code alone, not the start of its thread. */
  | { kind: 'run-code'; code: string; input: string; limitMs: number }

/** 'refused': what was given cannot be worked on. 'failed': it went wrong. 'late': it took longer than it may. */
export type Outcome = { done: string } | { refused: string } | { failed: string } | { late: string }

/** Thrown by the code of a task for what its caller can mend. */
export class Refused extends Error {}
