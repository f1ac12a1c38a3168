/**
 * Rates how well an agent fits a task, by what it declares. A task names a capability or tool if its text contains that
 * name, in any letter case. Capabilities that the task requires must be declared in any case. Source: document 000,
 * task routing; document 002, 2.1.2 and 2.5.
 */
import type { Capability } from '../../actors/definition/role.ts'
import type { RoutedTask } from '../../actors/turn/route.ts'

/** Task to be done, with the types that it takes and gives. */
export interface Work extends Pick<RoutedTask, 'text' | 'requiredCapabilities'> {
  readonly inputTypes: readonly string[]
  readonly outputTypes: readonly string[]
}

/** Declarations of an agent. */
export interface Declared {
  readonly capabilities: readonly (string | Capability)[]
  readonly tools: readonly string[]
  /** Tokens that the agent may still use. */
  readonly left: number
}

/** Reasons to choose an agent, the strongest first. */
export const SIGNS = { required: 0, capability: 1, tool: 2, types: 3, nothing: 4 } as const

/** `sign`: the reason to choose the agent. `fit`: from 0 to 1. `why`: for the trace. */
export type Standing =
  | { readonly able: true; readonly sign: keyof typeof SIGNS; readonly fit: number; readonly why: string }
  | { readonly able: false; readonly why: string }

/** Fit of an agent whose tool the task names: the agent has not declared how well it does such work. */
const FIT_OF_TOOL = 0.5

export function standingOf(declared: Declared, work: Work): Standing {
  const capabilities = declared.capabilities.map((each) => (typeof each === 'string' ? { name: each } : each))
  return work.requiredCapabilities.length > 0
    ? byRequired(capabilities, declared.left, work)
    : byText(capabilities, declared, work)
}

function byRequired(capabilities: readonly Capability[], left: number, work: Work): Standing {
  const found = work.requiredCapabilities.map((name) =>
    surest(capabilities.filter((capability) => isSame(capability.name, name))),
  )
  const missing = missingOf(capabilities, work.requiredCapabilities)
  if (missing.length > 0) return unable(`it lacks ${quoted(missing)}`)
  const used = [...new Set(found.filter((capability) => capability !== undefined))]
  const dear = tooDear(used, left)
  if (dear) return dear
  const type = work.inputTypes.find((type) => !used.some((one) => takes(one.inputTypes, type)))
  if (type !== undefined) return unable(`it takes no "${type}"`)
  const gift = work.outputTypes.find((type) => !used.some((one) => takes(one.outputTypes, type)))
  if (gift !== undefined) return unable(`it gives no "${gift}"`)
  const fit = Math.min(...used.map(confidenceOf))
  return { able: true, sign: 'required', fit, why: `it has ${quoted(used.map(({ name }) => name))}, confidence ${fit}` }
}

/** Returns the required capabilities that are not declared. */
export const missingOf = (declared: readonly (string | Capability)[], required: readonly string[]): string[] =>
  required.filter((name) => !declared.some((one) => isSame(typeof one === 'string' ? one : one.name, name)))

function byText(capabilities: readonly Capability[], { tools, left }: Declared, work: Work): Standing {
  const suits = capabilities.filter((one) => takesAll(one, work))
  if (capabilities.length > 0 && suits.length === 0) return unable('none of its capabilities has the types of the task')
  const named = suits.filter(({ name }) => occursIn(name, work.text))
  const affordable = named.filter((one) => !tooDear([one], left))
  const best = surest(affordable)
  const [cheapest] = named
  if (cheapest && !best) return tooDear([cheapest], left) ?? unable('it has no tokens left')
  if (best) {
    const fit = confidenceOf(best)
    return {
      able: true,
      sign: 'capability',
      fit,
      why: `the task names its capability "${best.name}", confidence ${fit}`,
    }
  }
  const tool = tools.find((name) => occursIn(name, work.text))
  if (tool !== undefined)
    return { able: true, sign: 'tool', fit: FIT_OF_TOOL, why: `the task names its tool "${tool}"` }
  const typed = surest(suits.filter((one) => declaresAny(one, work) && !tooDear([one], left)))
  if (typed) {
    const fit = confidenceOf(typed)
    const why = `its capability "${typed.name}" has the types of the task, confidence ${fit}`
    return { able: true, sign: 'types', fit, why }
  }
  return { able: true, sign: 'nothing', fit: 0, why: 'nothing speaks against it' }
}

const unable = (why: string): Standing => ({ able: false, why })

function tooDear(used: readonly Capability[], left: number): Standing | undefined {
  const tokens = used.reduce((sum, { estimatedTokens = 0 }) => sum + estimatedTokens, 0)
  if (tokens <= left) return undefined
  return unable(`${quoted(used.map(({ name }) => name))} takes about ${tokens} tokens, and it has ${left} left`)
}

const takesAll = ({ inputTypes, outputTypes }: Capability, work: Work): boolean =>
  work.inputTypes.every((type) => takes(inputTypes, type)) && work.outputTypes.every((type) => takes(outputTypes, type))

/** Checks a type against a list. A missing list allows every type. */
const takes = (types: readonly string[] | undefined, type: string): boolean =>
  types === undefined || types.some((one) => isSame(one, type))

const declaresAny = ({ inputTypes, outputTypes }: Capability, work: Work): boolean =>
  (inputTypes !== undefined && work.inputTypes.length > 0) || (outputTypes !== undefined && work.outputTypes.length > 0)

/** Returns the capability with the highest confidence, and the first of several. */
function surest(capabilities: readonly Capability[]): Capability | undefined {
  const highest = Math.max(...capabilities.map(confidenceOf))
  return capabilities.find((capability) => confidenceOf(capability) === highest)
}

const confidenceOf = ({ confidence = 1 }: Capability): number => confidence
const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()
const occursIn = (name: string, text: string): boolean => text.toLowerCase().includes(name.toLowerCase())
const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ')
