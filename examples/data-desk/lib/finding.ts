/** What the analysts put on the blackboard and the synthesizer takes from it. */
import { z } from 'zod'

export const TOPICS = ['trend', 'temperature', 'rain', 'spell'] as const

/** A claim: entry type `finding`. How sure it is stands in the entry's confidence. */
export const FindingSchema = z.object({ topic: z.enum(TOPICS), statement: z.string() })
/** Something counted: entry type `fact`. */
export const FactSchema = z.object({ statement: z.string() })
/** How an analyst comes to its confidence: entry type `method`. */
export const MethodSchema = z.object({ statement: z.string() })
/** Entry type `table`. */
export const TableSchema = z.object({ columns: z.array(z.string()), rows: z.array(z.array(z.string())) })

export type Finding = z.infer<typeof FindingSchema>
export type Fact = z.infer<typeof FactSchema>
export type Table = z.infer<typeof TableSchema>

/** A finding with the key it is published under and the analyst's confidence in it. */
export interface Claim {
  key: string
  confidence: number
  finding: Finding
}

/** With its sign, as a difference is written. */
export function signed(value: number, digits: number): string {
  return `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(digits)}`
}
