/**
 * Schemas of the answers that agents in a deliberation are asked for. The file is loaded when an agent is asked: a team
 * of code agents without such questions starts without zod.
 */
import { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { portable } from './portable.ts'
import { COMPARISONS, OUTCOMES } from './run-if.ts'

/**
 * Makes a field optional and accepts null for it. Models often write null there, although the schema does not say so,
 * and the meaning is clear.
 */
export const absent = <Form extends z.ZodType>(form: Form) => z.preprocess((given) => given ?? undefined, form)

/** Text beside the requested answer; '' if there is none. */
export const note = absent(z.string().default(''))

/** Schema of the condition on which a task of a plan is run. */
export const condition = absent(
  z
    .strictObject({
      task: z.int().min(1),
      outcome: absent(z.enum(OUTCOMES).optional()),
      path: absent(z.string().optional()),
      compare: absent(z.enum(COMPARISONS).optional()),
      value: absent(z.union([z.string(), z.number(), z.boolean()]).optional()),
    })
    .optional()
    .describe(
      'If it is not always run: the number of another task, with this outcome (completed), whose result, at path (a.b), compares so.',
    ),
)

/** Schema of a choice from a list that is numbered from 1. */
export const choiceOf = (length: number) =>
  portable(z.object({ choice: z.number().int().min(1).max(length), reasons: note }))

/** Schema of a member's view in a discussion: the position of one of the members, or an answer of its own. */
export const viewAmong = (members: readonly string[]) =>
  portable(
    z
      .object({
        agreesWith: z.enum(members).nullish(),
        // A code agent may answer with any value; a model is asked for a text.
        answer: z.unknown().meta({ type: 'string', description: 'your answer, if it is none of these' }).optional(),
        reasons: note,
      })
      .refine(
        ({ agreesWith, answer }) => agreesWith || (answer !== undefined && answer !== null && answer !== ''),
        'either agreesWith or answer is needed',
      ),
  )

/** Schema of an opinion about a text. */
export const opinion = portable(z.object({ accept: z.boolean(), objection: note }))

const argument = z.string().trim().min(1)
const wanted = portable(z.object({ argument, evidence: z.array(z.string()).min(1) }))['~standard']
const one = z.string().transform((text) => [text])
const evidence = absent(z.union([z.array(z.string()), one]).default([]))
const accepted = z.object({ argument, evidence })['~standard']

/**
 * Schema of an argument and its evidence. Models are told that a list of evidence is required. A single text in place
 * of the list is accepted, and so is an argument without evidence.
 */
export const citedArgument: ModelSchema<unknown, { argument: string; evidence: string[] }> = {
  '~standard': { ...accepted, jsonSchema: wanted.jsonSchema },
}

/** Schema of the verdict on a debate. */
export const verdictAmong = (debaters: readonly string[]) =>
  portable(z.object({ winner: z.enum(debaters), reasons: note }))

/** Schema of the statements that contradict each other, with their agents. */
export const contradictionsAmong = (agents: readonly string[]) => {
  const statements = z.array(z.object({ agent: z.enum(agents), statement: z.string() }))
  return portable(z.object({ contradictions: z.array(z.object({ about: z.string(), statements })) }))
}
