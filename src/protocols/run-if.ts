/** Conditions on which tasks of a plan are run. */
import { jsonIn } from '../actors/model/structured-output.ts'
import { isObject } from '../shared/checks.ts'

export const OUTCOMES = ['completed', 'failed', 'skipped'] as const
export const COMPARISONS = ['equals', 'differs', 'contains', 'lacks', 'above', 'below'] as const

type Outcome = (typeof OUTCOMES)[number]
type Comparison = (typeof COMPARISONS)[number]

/** Condition on the outcome of another task, and with `value` on its result, or the reason of its failure. */
export interface RunIf {
  /** Number of the other task, from 1. */
  readonly task: number
  /** Default: 'completed'. */
  readonly outcome?: Outcome | undefined
  /** Place in the result, such as `rain.mm`, which has to be there; of a text its JSON is read. Default: all of it. */
  readonly path?: string | undefined
  /** Default: 'equals'. */
  readonly compare?: Comparison | undefined
  readonly value?: string | number | boolean | undefined
}

export interface Ended {
  readonly outcome: Outcome
  /** The reason as text, if it was not completed. */
  readonly result: unknown
}

/**
 * Returns why a task is skipped; undefined if it is not. It is also skipped if all that it builds on was: a task that
 * joins two ways has the results of the one that was taken. `ends`: of the tasks that it waits for, by their numbers.
 */
export function whySkipped(
  { needs, runIf }: { readonly needs: readonly number[]; readonly runIf?: RunIf | undefined },
  ends: ReadonlyMap<number, Ended>,
): string | undefined {
  const why = runIf && whyNot(runIf, ends.get(runIf.task))
  if (why !== undefined) return why
  // A task on the condition that another one was skipped may build on that one, too.
  const isLeft = (number: number) => ends.get(number)?.outcome === 'skipped' && number !== runIf?.task
  return needs.length > 0 && needs.every(isLeft)
    ? `It builds on what was skipped: task ${needs.join(', ')}.`
    : undefined
}

function whyNot({ task, outcome = 'completed', path, compare = 'equals', value }: RunIf, ended: Ended | undefined) {
  if (!ended) return `It is run only if task ${task} is ${outcome}, and the plan has no such task.`
  if (ended.outcome !== outcome) return `It is run only if task ${task} is ${outcome}, and that is ${ended.outcome}.`
  const isCompared = value !== undefined || compare !== 'equals' // a model may write the default beside nothing
  if (!isCompared && !path) return undefined
  const found = path ? valueAt(ended.result, path) : ended.result
  const what = path ? `"${short(path)}" in the result of task ${task}` : `the result of task ${task}`
  if (found === undefined) return `It is run only if there is ${what}, and there is not.`
  if (!isCompared) return undefined
  if (value === undefined)
    return `It is run only if ${what} ${WORDS[compare]} some value, and the plan does not say which.`
  if (HOLDS[compare](found, value)) return undefined
  const texts = [value, found].map((one) => short(JSON.stringify(one)))
  return `It is run only if ${what} ${WORDS[compare]} ${texts[0]}, and that is ${texts[1]}.`
}

const HOLDS: Record<Comparison, (found: unknown, value: string | number | boolean) => boolean> = {
  equals: isEqual,
  differs: (found, value) => !isEqual(found, value),
  contains,
  lacks: (found, value) => !contains(found, value),
  above: (found, value) => numberOf(found) > numberOf(value),
  below: (found, value) => numberOf(found) < numberOf(value),
}

const WORDS: Record<Comparison, string> = {
  equals: 'equals',
  differs: 'differs from',
  contains: 'contains',
  lacks: 'lacks',
  above: 'is above',
  below: 'is below',
}

/** Compares words without their letter case and the space around, as a model writes "Yes" for "yes" and "7" for 7. */
function isEqual(found: unknown, value: unknown): boolean {
  return plain(found) === plain(value) || numberOf(found) === numberOf(value)
}

function contains(found: unknown, value: unknown): boolean {
  return Array.isArray(found) ? found.some((one) => isEqual(one, value)) : plain(found).includes(plain(value))
}

const plain = (value: unknown): string =>
  (typeof value === 'string' ? value : JSON.stringify(value ?? null)).trim().toLowerCase()

const numberOf = (value: unknown): number =>
  typeof value === 'number' || (typeof value === 'string' && value.trim() !== '') ? Number(value) : Number.NaN

/** Returns the value at a path with dots; undefined if it is not there. */
function valueAt(result: unknown, path: string): unknown {
  const whole = typeof result === 'string' ? jsonIn(result)?.value : result
  return path.split('.').reduce<unknown>((value, key) => {
    const isInside = (isObject(value) || Array.isArray(value)) && Object.hasOwn(value, key)
    return isInside ? Reflect.get(value, key) : undefined
  }, whole)
}

const LONGEST = 100
const short = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text)
