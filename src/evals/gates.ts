/** Gates, which a run has to pass, and scorers of its answer. */
import type { ModelSchema } from '../actors/definition/tool.ts'
import { isObject } from '../shared/checks.ts'
import { nearest } from '../shared/text.ts'
import { own } from '../shared/values.ts'
import type { EvalRun, Gate, Scorer } from './suite.ts'

/**
 * Value that is wanted: a pattern for texts, a function that decides, a list of the same length, an object whose
 * fields are there among others, or the value itself.
 */
export type Matching = unknown

function fits(value: unknown, wanted: Matching): boolean {
  if (wanted instanceof RegExp)
    return typeof value === 'string' && new RegExp(wanted, wanted.flags.replace(/[gy]/g, '')).test(value)
  if (typeof wanted === 'function') return Boolean(wanted(value))
  if (Array.isArray(wanted))
    return Array.isArray(value) && value.length === wanted.length && wanted.every((each, at) => fits(value[at], each))
  if (!isObject(wanted)) return Object.is(value, wanted)
  return (
    isObject(value) && Object.entries(wanted).every(([name, each]) => fits(own<unknown>(Object(value), name), each))
  )
}

/** Exactly so many times, or within bounds. */
export type Times = number | { min?: number; max?: number }

const boundsOf = (times: Times) => {
  const { min = 0, max = Number.POSITIVE_INFINITY } = typeof times === 'number' ? { min: times, max: times } : times
  return { min, max }
}

function timesText(times: Times): string {
  const { min, max } = boundsOf(times)
  if (min === max) return `${min}`
  return max === Number.POSITIVE_INFINITY ? `at least ${min}` : min === 0 ? `at most ${max}` : `${min} to ${max}`
}

/** `of`: says which ones were counted. */
function countOf(seen: number, times: Times, of = ''): string | null {
  const { min, max } = boundsOf(times)
  return seen >= min && seen <= max ? null : `${seen} times${of}; wanted: ${timesText(times)}`
}

/** Two gates of a tool that want other times are two lines of a report. */
const named = (name: string, times: Times | undefined) =>
  times === undefined ? name : `${name} (times: ${timesText(times)})`

const shownInput = (input: unknown): string =>
  (
    JSON.stringify(input, (_name, value: unknown) =>
      value instanceof RegExp ? `${value}` : typeof value === 'function' ? value.name || 'a function' : value,
    ) ?? 'nothing'
  ).slice(0, 200)

/** A gate of your own: true, or the sentence of what is wrong. */
export function gate(name: string, check: (run: EvalRun) => boolean | string | Promise<boolean | string>): Gate {
  return {
    name,
    async check(run) {
      const outcome = await check(run)
      return outcome === true ? null : outcome === false ? `"${name}" does not hold.` : outcome
    },
  }
}

/** The tool was called, at least once by default. `input`: calls with another one do not count. */
export function called(
  tool: string,
  { agent, input, times }: { agent?: string; input?: Matching; times?: Times } = {},
): Gate {
  const of = `${agent === undefined ? '' : ` by ${agent}`}${input === undefined ? '' : ` with ${shownInput(input)}`}`
  return gate(named(`called ${tool}${of}`, times), ({ calls }) => {
    const all = calls.filter((call) => call.tool === tool)
    const counted = all.filter(
      (call) => (agent === undefined || call.agent === agent) && (input === undefined || fits(call.input, input)),
    )
    const wrong = countOf(counted.length, times ?? { min: 1 }, of)
    const seen = all.slice(0, 3).map((call) => `${call.agent} with ${shownInput(call.input)}`)
    const meant = all.length > 0 ? undefined : nearest(tool, new Set(calls.map((call) => call.tool)))
    const more = seen.length > 0 ? ` (seen: ${seen.join('; ')}).` : meant ? `. Did you mean "${meant}"?` : '.'
    return wrong === null || `"${tool}" was called ${wrong}${more}`
  })
}

export const notCalled = (tool: string): Gate => ({ ...called(tool, { times: 0 }), name: `not called ${tool}` })

/** These tools were called in this order, others between them. A step may name an agent, with a tool or without. */
export function inOrder(...steps: readonly (string | { agent: string; tool?: string })[]): Gate {
  const names = steps.map((step) =>
    typeof step === 'string' ? step : `${step.agent}${step.tool === undefined ? '' : `.${step.tool}`}`,
  )
  return gate(`in order ${names.join(', ')}`, ({ calls }) => {
    let at = 0
    for (const call of calls) {
      const step = steps[at]
      if (step === undefined) break
      const { agent = undefined, tool = undefined } = typeof step === 'string' ? { tool: step } : step
      if ((agent ?? call.agent) === call.agent && (tool ?? call.tool) === call.tool) at += 1
    }
    return (
      at === steps.length ||
      `"${names[at]}" did not come in its place; calls: ${calls.map((call) => `${call.agent}.${call.tool}`).join(', ') || 'none'}.`
    )
  })
}

/** An agent has asked another, or delegated to it, at least once by default. */
export function asked(from: string, to: string, { times }: { times?: Times } = {}): Gate {
  return gate(named(`${from} asked ${to}`, times), ({ messages }) => {
    const all = messages.filter((message) => ASKS.has(message.type) && message.from === from && message.to.includes(to))
    const wrong = countOf(all.length, times ?? { min: 1 })
    return wrong === null || `"${from}" asked "${to}" ${wrong}.`
  })
}

const ASKS: ReadonlySet<string> = new Set(['request', 'delegate'])

/** The conversation was handed from agent to agent: to these, in this order. */
export function handedTo(...agents: readonly string[]): Gate {
  return gate(`handed to ${agents.join(', ')}`, ({ handoffs }) => {
    const seen = handoffs.map(({ to }) => to)
    return (
      seen.join('\n') === agents.join('\n') ||
      `It was handed to ${seen.join(', ') || 'nobody'}; wanted: ${agents.join(', ')}.`
    )
  })
}

export function askedPeople(times: Times): Gate {
  return gate('asked people', ({ questions }) => {
    const wrong = countOf(questions.length, times)
    return wrong === null || `People were asked ${wrong}.`
  })
}

/** No deadlock, livelock or stall was found, and no message was lost. */
export function noAlarms(): Gate {
  return gate('no alarms', ({ alarms, deadLetters }) => {
    const [first] = alarms
    if (first) return `${first.type}: ${first.sentence}`
    return deadLetters === 0 || `${deadLetters} messages were not handled (dead letters).`
  })
}

/** Upper bounds. `ms`: time of the runs of the case; `money`: in the currency of the team's prices. */
export function within(limits: { tokens?: number; money?: number; ms?: number; modelCalls?: number }): Gate {
  const bounds = Object.entries(limits).map(([name, most]) => `${name} ${most}`)
  return gate(`within ${bounds.join(', ')}`, ({ tokens, money, ms, models }) => {
    const seen: Record<string, number | null> = { tokens, money, ms, modelCalls: models.length }
    for (const [name, most] of Object.entries(limits)) {
      const value = own<number | null>(seen, name)
      if (value == null) return `${name}: not known${name === 'money' ? '; give the team prices' : ''}.`
      if (value > most) return `${name}: ${value}; at most ${most}.`
    }
    return true
  })
}

/** The answer fits a schema: its data, or its text, as JSON or as it is. */
export function answers(schema: ModelSchema): Gate {
  return gate('answers in the schema', async ({ output, data }) => {
    for (const value of [data, jsonOr(output), output]) {
      const outcome = await schema['~standard'].validate(value)
      if (!outcome.issues) return true
    }
    return `The answer does not fit: ${shownInput(data ?? output)}.`
  })
}

function jsonOr(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null')
  } catch {
    return text
  }
}

/** The run has an answer. Every case has this gate. */
export const succeeded: Gate = {
  name: 'has an answer',
  check: ({ success, error }) => (success ? null : `${error?.code ?? 'FAILED'}: ${error?.message ?? 'no answer'}`),
}

/** A scorer of your own. */
export const scorer = (name: string, score: Scorer['score']): Scorer => ({ name, score })

/** 1 where the answer is the text that is expected. */
export function exact({ trim = true, ignoreCase = false }: { trim?: boolean; ignoreCase?: boolean } = {}): Scorer {
  const plain = (text: string) => {
    const trimmed = trim ? text.trim() : text
    return ignoreCase ? trimmed.toLowerCase() : trimmed
  }
  return scorer('exact', ({ case: { expected }, output }) =>
    typeof expected === 'string' ? plain(output ?? '') === plain(expected) : null,
  )
}

/** 1 where the answer has the pattern. */
export const matches = (pattern: RegExp): Scorer => scorer(`matches ${pattern}`, ({ output }) => fits(output, pattern))

/**
 * 1 where the answer, as data or as JSON in its text, is the one that is expected. `only`, `ignore`: JSON pointers
 * (RFC 6901) of fields that count alone, or not at all; '*' stands for each entry of a list.
 */
export function sameJson({ only, ignore = [] }: { only?: readonly string[]; ignore?: readonly string[] } = {}): Scorer {
  const read = (value: unknown) =>
    leaves(value).filter(
      ([path]) => (!only || only.some((of) => isAt(path, of))) && !ignore.some((of) => isAt(path, of)),
    )
  const told = (value: unknown) => JSON.stringify(read(value))
  return scorer('sameJson', ({ case: { expected }, data, output }) => {
    if (expected === undefined) return null
    const value = data ?? jsonOr(output)
    if (told(value) === told(expected)) return 1
    const seen = new Map(read(value).map(([path, leaf]) => [path, leaf]))
    const differs = read(expected).find(([path, leaf]) => seen.get(path) !== leaf)
    return {
      score: 0,
      why: differs
        ? `${differs[0] || 'the answer'} is ${seen.get(differs[0]) ?? 'not there'}, not ${differs[1]}`
        : 'the answer has more than is expected',
    }
  })
}

/**
 * Likeness of the answer and the one that is expected: the cosine of their embeddings by a model of the suite, 0 at
 * least. Texts of one language are seldom near 0, so compare it, or see what it gives before you ask for a least one.
 */
export function similar({ embed: model }: { embed: string }): Scorer {
  return scorer('similar', async ({ case: { expected }, output }, { embed }) => {
    if (expected === undefined) return null
    if (output === null || output.trim() === '') return 0
    const wanted = typeof expected === 'string' ? expected : JSON.stringify(expected)
    const [a = [], b = []] = await embed([wanted, output], { model })
    const product = (one: readonly number[], other: readonly number[]) =>
      one.reduce((sum, value, at) => sum + value * other[at]!, 0)
    const length = Math.sqrt(product(a, a) * product(b, b))
    return length === 0 ? 0 : Math.min(1, Math.max(0, product(a, b) / length))
  })
}

/** Values that are no list and no object, as JSON, with their pointers in their order; empty ones count as such. */
function leaves(value: unknown, path = ''): [path: string, leaf: string][] {
  if (typeof value !== 'object' || value === null) return [[path, JSON.stringify(value) ?? 'null']]
  const fields = Array.isArray(value)
    ? value.map((each, at) => [`${at}`, each] as const)
    : Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  if (fields.length === 0) return [[path, Array.isArray(value) ? '[]' : '{}']]
  return fields.flatMap(([name, each]) => leaves(each, `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`))
}

function isAt(path: string, pointer: string): boolean {
  const [steps, wanted] = [path.split('/'), pointer.split('/')]
  return wanted.length <= steps.length && wanted.every((step, at) => step === '*' || step === steps[at])
}
