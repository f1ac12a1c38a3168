/**
 * The forms of the answers that deliberating agents are asked for. Loaded when somebody is asked: a team of code that does
 * something else starts without zod.
 */
import { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'

/** What may be left out. Models often write null there, which is not what such a form says and plain enough all the same. */
export const absent = <Form extends z.ZodType>(form: Form) => z.preprocess((given) => given ?? undefined, form)

/** Words beside what is asked for; '' where there are none. */
export const note = absent(z.string().default(''))

/** A choice from a list that is numbered from 1. */
export const choiceOf = (length: number) => z.object({ choice: z.number().int().min(1).max(length), reasons: note })

/** What a member of a discussion comes to: the position of one of them, or an answer of its own. */
export const viewAmong = (members: readonly string[]) =>
  z
    .object({
      agreesWith: z.enum(members).nullish(),
      // An agent of code may answer with any value; a model is asked for a text.
      answer: z.unknown().meta({ type: 'string', description: 'your answer, if it is none of these' }).optional(),
      reasons: note,
    })
    .refine(
      ({ agreesWith, answer }) => agreesWith || (answer !== undefined && answer !== null && answer !== ''),
      'either agreesWith or answer is needed',
    )

/** An opinion of a text. */
export const opinion = z.object({ accept: z.boolean(), objection: note })

const argument = z.string().trim().min(1)
const wanted = z.object({ argument, evidence: z.array(z.string()).min(1) })['~standard']
const one = z.string().transform((text) => [text])
const evidence = absent(z.union([z.array(z.string()), one]).default([]))
const accepted = z.object({ argument, evidence })['~standard']

/**
 * An argument and what it rests on. Models are told that there has to be a list of evidence; one piece alone is understood, and
 * without any it is an argument all the same.
 */
export const citedArgument: ModelSchema<unknown, { argument: string; evidence: string[] }> = {
  '~standard': { ...accepted, jsonSchema: wanted.jsonSchema },
}

/** Who has won a debate. */
export const verdictAmong = (debaters: readonly string[]) => z.object({ winner: z.enum(debaters), reasons: note })

/** Which statements of whom contradict each other. */
export const contradictionsAmong = (agents: readonly string[]) => {
  const statements = z.array(z.object({ agent: z.enum(agents), statement: z.string() }))
  return z.object({ contradictions: z.array(z.object({ about: z.string(), statements })) })
}
