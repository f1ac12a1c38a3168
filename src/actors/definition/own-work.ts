import { GUARD } from './guardrail.ts'

/** Verbs that the host serves and that are a turn's own work: a turn that calls one does not wait for others. */
export const OWN_WORK: ReadonlySet<string> = new Set(['model', 'tool', GUARD])
