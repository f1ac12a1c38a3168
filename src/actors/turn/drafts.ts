/**
 * Holds the uncommitted state changes of a turn: they are applied at its commit, or discarded if it fails.
 *
 * If another turn of the agent (nested in it, around it, or while it waited for a person) has committed meanwhile, the
 * changes are made again on the new state. So no change is lost, and none is based on an outdated state.
 */
import { enablePatches, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../../errors.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { checkFunction, notJson, wrongArgument } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import { deepFreeze } from '../transport/run-views.ts'
import type { StateScope } from './state-rules.ts'

enablePatches()

/** The next value of one state, and the patches by which the host repeats the change. */
export interface Draft {
  readonly value: object
  readonly patches: readonly Patch[]
}

/** Makes the next value of a state out of the current one. */
export type Change = (current: object) => Draft

/** An uncommitted draft: the state it is based on, and the changes that led to its value. */
interface OpenDraft extends Draft {
  readonly base: object
  readonly changes: readonly Change[]
}

export class Drafts {
  readonly #open: { state?: OpenDraft; runState?: OpenDraft } = {}

  /**
   * Returns the turn's changes based on the current state; undefined if it changes nothing.
   *
   * @throws the error of a change that is made again.
   */
  of(scope: StateScope, current: object): Draft | undefined {
    const draft = this.#onto(scope, current)
    return draft && draft.patches.length > 0 ? draft : undefined
  }

  /**
   * Changes the current state.
   *
   * @throws MessageRejectedError for a value that is no JSON, with its path; the state is unchanged then.
   */
  change(scope: StateScope, current: object, change: Change): void {
    this.#open[scope] = after(this.#onto(scope, current) ?? unchanged(current), scope, change)
  }

  #onto(scope: StateScope, current: object): OpenDraft | undefined {
    const draft = this.#open[scope]
    if (!draft || draft.base === current) return draft
    const again = draft.changes.reduce((made, change) => after(made, scope, change), unchanged(current))
    this.#open[scope] = again
    return again
  }
}

const unchanged = (base: object): OpenDraft => ({ base, value: base, patches: [], changes: [] })

function after(
  { base, value: before, patches: earlier, changes }: OpenDraft,
  scope: string,
  change: Change,
): OpenDraft {
  const { value, patches } = change(before)
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [scope, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
  return { base, value: deepFreeze(value), patches: [...earlier, ...patches], changes: [...changes, change] }
}

/** Returns the change that a recipe of immer makes. */
export const byRecipe =
  (scope: StateScope, recipe: (draft: object) => void): Change =>
  (current) =>
    changed(scope, current, recipe)

function changed(scope: StateScope, current: object, recipe: (draft: object) => void): Draft {
  checkFunction(recipe, `the recipe of ${scope}`)
  const [value, patches] = produceWithPatches(current, (draft) => {
    const made: unknown = recipe(draft)
    if (!(made instanceof Promise)) return made as void
    handled(made) // the draft is revoked before the recipe continues
    const text = `The recipe of ${scope} is asynchronous; await first, then change ${scope} at once.`
    throw new MessageRejectedError(text, { path: scope })
  })
  if (typeof value !== 'object' || value === null) throw wrongArgument(scope, value, 'an object is needed')
  return { value, patches: patches.map((patch) => repeatable(patch, value)) }
}

const RESERVED: readonly (string | number)[] = ['constructor', '__proto__']

/**
 * Replaces the value of a reserved key as a whole, because immer applies no patch inside of such a key. A word list,
 * for example, can have such keys.
 */
function repeatable(patch: Patch, value: object): Patch {
  const at = patch.path.slice(0, -1).findIndex((key) => RESERVED.includes(key))
  if (at < 0) return patch
  const path = patch.path.slice(0, at + 1)
  return { op: 'replace', path, value: path.reduce<unknown>((inside, key) => Reflect.get(Object(inside), key), value) }
}
