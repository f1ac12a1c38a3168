/**
 * Writes the schema of an answer in words that all providers take: one type each, closed objects that require each
 * property, `anyOf` with null for what may be left out, and bounds of numbers in their descriptions. Answers are
 * checked by the schema itself.
 * Sources: OpenAI, "Structured Outputs" (strict); Google, "Structured output"; Anthropic, "Structured outputs".
 */
import { z } from 'zod'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { jsonIn, jsonSchemaOf } from '../actors/model/structured-output.ts'
import type { SubTask, SubTaskResult } from '../mailbox/sub-task.ts'
import { isObject } from '../shared/checks.ts'
import { own } from '../shared/values.ts'
import { COMPARISONS, OUTCOMES } from './run-if.ts'
import { circleAmong, MOST_TASKS } from './tasks.ts'

type Json = { readonly [key: string]: unknown }

export function portable<T>(schema: z.ZodType<T>): ModelSchema<unknown, T> {
  const json = () => portableJson(jsonSchemaOf(schema) as Json)
  return { '~standard': { ...schema['~standard'], jsonSchema: { input: json, output: json } } }
}

function portableJson(schema: Json): Json {
  const { type, properties, required, items, anyOf, enum: words, description, minimum, maximum } = schema
  const said = description === undefined ? {} : { description }
  if (Array.isArray(anyOf)) return { anyOf: anyOf.map(portableJson), ...said }
  if (Array.isArray(type)) return { anyOf: type.map((one) => ({ type: one, ...(one !== 'null' && said) })) }
  if (items) return { type, items: portableJson(items as Json), ...said }
  if (type !== 'object') {
    const bounds = boundsAsWords(minimum, maximum)
    const told = [description, bounds].filter((text) => text !== undefined).join(' ')
    return { type, ...(words !== undefined && { enum: words }), ...(told !== '' && { description: told }) }
  }
  if (!properties) return { type: 'string', description: `${description ?? 'An object.'} As JSON.` }
  const needed = (required ?? []) as readonly string[]
  const given = Object.entries(properties as Record<string, Json>).filter(([, { not }]) => not === undefined) // `not: {}`: never there
  const all = given.map(([name, property]) => {
    const form = portableJson(property)
    return [name, needed.includes(name) ? form : nullable(form)] as const
  })
  const names = all.map(([name]) => name)
  return { type, properties: Object.fromEntries(all), required: names, additionalProperties: false, ...said }
}

/** A safe integer's own bounds, which zod writes, say nothing. */
function boundsAsWords(minimum: unknown, maximum: unknown): string | undefined {
  const [least, most] = [minimum, maximum].map((bound) => (isTelling(bound) ? bound : undefined))
  if (least !== undefined && most !== undefined) return `From ${least} to ${most}.`
  if (least !== undefined) return `At least ${least}.`
  return most === undefined ? undefined : `At most ${most}.`
}

const isTelling = (bound: unknown): bound is number =>
  typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER

function nullable(form: Json): Json {
  const { anyOf, description, ...rest } = form
  const forms = Array.isArray(anyOf) ? anyOf : [rest]
  const isNull = (one: unknown) => Object(one).type === 'null'
  return {
    anyOf: forms.some(isNull) ? forms : [...forms, { type: 'null' }],
    ...(description !== undefined && { description }),
  }
}

/** Makes a field optional and accepts null for it: models often write that, and the meaning is clear. */
export const absent = <Form extends z.ZodType>(form: Form) => z.preprocess((given) => given ?? undefined, form)

/** Text beside the requested answer; '' if there is none. */
export const note = absent(z.string().default(''))

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

export const verdictAmong = (debaters: readonly string[]) =>
  portable(z.object({ winner: z.enum(debaters), reasons: note }))

export const contradictionsAmong = (agents: readonly string[]) => {
  const statements = z.array(z.object({ agent: z.enum(agents), statement: z.string() }))
  return portable(z.object({ contradictions: z.array(z.object({ about: z.string(), statements })) }))
}

const id = z.string().min(1)
const parties = { subTaskId: id, parentTaskId: id }

/**
 * Schema of a sub-task, for example as the `input` of an agent.
 *
 * @example
 * defineAgent({ input: subTaskSchema, receive: ({ structuredData }) => search(structuredData.subTaskInput) })
 */
export const subTaskSchema: z.ZodType<SubTask> = z.object({
  ...parties,
  replaces: id.optional(),
  assignedAgentRole: id,
  toolName: id.optional(),
  subTaskInput: z.record(z.string(), z.unknown()),
  contextSummary: z.string().optional(),
  apiKeysConfigRef: id.optional(),
})

export const subTaskResultSchema: z.ZodType<SubTaskResult> = z.discriminatedUnion('status', [
  z.object({
    ...parties,
    workerAgentRole: id,
    status: z.literal('COMPLETED'),
    resultData: z.unknown(),
    errorDetails: z.null().optional(),
  }),
  z.object({
    ...parties,
    workerAgentRole: id,
    status: z.enum(['FAILED', 'SKIPPED']),
    resultData: z.null().optional(),
    errorDetails: z.object({ message: z.string(), type: z.string().optional() }),
  }),
])

export interface Worker {
  readonly name: string
  /** Profiles of API keys that it holds. */
  readonly keys?: readonly string[]
}

/**
 * Schema of a plan for those agents: `{ tasks, reasoning }`. A plan with a task for another agent, or for one that does
 * not hold its keys, is sent back once, and so is one without `reasoning`. The second time the caller that runs the
 * plan decides what becomes of it.
 */
export const planSchema = (workers: readonly Worker[]) => {
  const dependsOn = absent(
    z.array(z.int().min(1)).default([]).describe('Numbers, from 1, of the tasks whose results it needs.'),
  )
  const task = taskSchema(workers).extend({ dependsOn, runIf: condition })
  const plan = planOf(workers, task, MOST_TASKS).superRefine(({ tasks }, context) => {
    const circle = circleAmong(tasks)
    if (circle) context.addIssue({ code: 'custom', message: circle, path: ['tasks'] })
  })
  return told(task, MOST_TASKS, plan)
}

/**
 * Schema of a task that replaces another, or of none. The planner is not asked for its dependencies or its condition:
 * it waits for what the replaced task waited for.
 */
export const replacementSchema = (workers: readonly Worker[]) => {
  const task = taskSchema(workers)
  return told(task, 1, planOf(workers, task, 1))
}

/** Returns the plan's schema. Models are told that `reasoning` is required. */
function told<T>(task: z.ZodType, most: number, plan: z.ZodType<T>): ModelSchema<unknown, T> {
  const { jsonSchema } = portable(z.object({ tasks: z.array(task).max(most), reasoning: reasoning() }))['~standard']
  return { '~standard': { ...plan['~standard'], jsonSchema } }
}

const reasoning = () => z.string().describe('Why these tasks, in a sentence.')

const taskSchema = (workers: readonly Worker[]) => {
  const profiles = [...new Set(workers.flatMap(({ keys = [] }) => keys))]
  const profile = profiles.length > 0 ? z.enum(profiles) : z.never({ error: 'no agent of the plan holds keys' })
  return z.object({
    agent: z
      .string()
      .min(1)
      .describe('Who is to do it.')
      .meta({ enum: workers.map(({ name }) => name) }),
    task: z.string().trim().min(1).describe('What to do, in the language of the question.'),
    tool: z.string().nullish().describe('The tool to use, if it has to be that one.'),
    input: z.preprocess(fromText, z.record(z.string(), z.unknown()).nullish()).describe('The input of that tool.'),
    apiKeysConfigRef: absent(profile.optional()).describe('The keys to use, if the agent holds several.'),
  })
}

/** Reads an input that is JSON within a text, as models are asked for it. A text without an object says nothing. */
function fromText(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const value = jsonIn(given)?.value
  return isObject(value) ? value : undefined
}

/** Names of fields of a sub-task (`SubTask`), and those that a plan has for them. */
const WORDS: Readonly<Record<string, string>> = { assignedAgentRole: 'agent', toolName: 'tool', subTaskInput: 'input' }

/** Adds what a plan has under a sub-task's name, `toolName` or `tool_name`, under its own: it would be lost. */
function inWordsOfPlans(given: unknown): unknown {
  if (!isObject(given)) return given
  const fields = new Map(Object.entries(given))
  for (const [key, value] of Object.entries(given)) {
    const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    const known = own(WORDS, name) ?? name
    fields.set(known, fields.get(known) ?? value)
  }
  return Object.fromEntries(fields)
}

type Assigned = { agent: string; apiKeysConfigRef?: string | undefined }

function planOf<Task extends z.ZodType<Assigned>>(workers: readonly Worker[], task: Task, most: number) {
  let isSentBack = false
  return z
    .object({
      tasks: z.array(z.preprocess(inWordsOfPlans, task)).max(most),
      reasoning: absent(reasoning().optional()),
    })
    .superRefine(({ tasks, reasoning }, context) => {
      if (isSentBack) return
      const faults = tasks.map((task) => whyNot(task, workers))
      const at = faults.findIndex((fault) => fault !== undefined)
      const noReason = 'it is missing; say why these are the tasks'
      if (reasoning === undefined) context.addIssue({ code: 'custom', message: noReason, path: ['reasoning'] })
      if (at >= 0) context.addIssue({ code: 'custom', message: faults[at]!, path: ['tasks', at, 'agent'] })
      isSentBack = reasoning === undefined || at >= 0
    })
}

/** Returns the reason why the task cannot go to its agent, if there is one. */
function whyNot({ agent, apiKeysConfigRef: wanted }: Assigned, workers: readonly Worker[]): string | undefined {
  const worker = workers.find(({ name }) => name === agent)
  if (!worker) return `"${agent}" is none of ${workers.map(({ name }) => name).join(', ')}`
  if (wanted === undefined || worker.keys?.includes(wanted)) return undefined
  const holders = workers.filter(({ keys }) => keys?.includes(wanted)).map(({ name }) => name)
  return `"${agent}" does not hold the keys "${wanted}"; who does: ${holders.join(', ')}`
}
